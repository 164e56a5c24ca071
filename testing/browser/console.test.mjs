// The operator console as operators use it: in a browser, against the running service.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { DESKTOP, PHONE, launch, openPage, screenshot, seriousFaults } from "./browser.mjs";
import { asks, followed, get, makeAccount, secretShown, signedIn } from "./console.mjs";
import { startService } from "./service.mjs";

let service;
let browser;
before(async () => {
  service = await startService();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await service?.stop();
});

// The console, signed in.
const console_ = (t, options) => signedIn(t, browser, service, options);

const SIZES = [
  ["desktop, light", DESKTOP],
  ["desktop, dark", { ...DESKTOP, colorScheme: "dark" }],
  ["phone, light", PHONE],
  ["phone, dark", { ...PHONE, colorScheme: "dark" }],
];

for (const [size, options] of SIZES) {
  test(`every page is without serious faults and fits: ${size}`, async (t) => {
    const page = await console_(t, { options });
    const id = (await page.evaluate(async () => (await fetch("/console/api/keys", { headers: { "Petstore-Console": "1" } })).json())).keys[0].id;
    const paths = ["", "/accounts", "/accounts/first", "/keys", "/keys?unusedFor=30d&expiringWithin=7d", `/keys/${id}`, "/find-keys", "/bans", "/refusals", "/refusals?subject=first", "/audit", "/operators"];
    for (const path of paths) {
      await page.goto(`/console${path}`);
      await page.locator("h1").waitFor();
      assert.deepEqual(await page.getByRole("alert").filter({ hasText: /\S/ }).allTextContents(), [], path);
      assert.deepEqual(await seriousFaults(page), [], path);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} scrolls sideways`);
      await screenshot(page, `console${path.replaceAll(/[^a-z]+/g, "-")}-${size.replace(", ", "-")}`, { fullPage: true });
    }
    await page.goto("/console/accounts/first");
    await page.getByRole("button", { name: "Change plan" }).click();
    assert.deepEqual(await seriousFaults(page), []);
  });
}

test("a viewer sees no buttons that change things, and the server refuses them too", async (t) => {
  const admin = await console_(t, { path: "/console/operators" });
  await admin.getByRole("button", { name: "New operator" }).click();
  await admin.getByRole("dialog").getByLabel("Name").fill("auditor");
  await admin.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  const token = await secretShown(admin);
  assert.match(token, /^pet_op_/);

  const page = await console_(t, { token });
  await page.getByText("auditor (viewer)").waitFor();
  const { keys } = await asks(page, "GET", "keys");
  for (const path of ["", "/accounts", "/accounts/first", `/keys/${keys[0].id}`, "/bans", "/operators"]) {
    await page.goto(`/console${path}`);
    await page.locator("h1").waitFor();
    const buttons = await page.getByRole("button").allTextContents();
    assert.deepEqual(buttons.filter((name) => !/^(Sign out|Show|More|.* \(CSV\))$/.test(name)), [], path);
  }
  for (const [method, path] of [["POST", "accounts/first/suspend"], ["POST", `keys/${keys[0].id}/revoke`], ["POST", `keys/${keys[0].id}/rotate`], ["DELETE", `keys/${keys[0].id}/ban`], ["POST", "operators/auditor/revoke"]]) {
    assert.equal((await asks(page, method, path)).code, "OPERATOR_NOT_PERMITTED", path);
  }

  // The viewer's token is revoked: the session ends with it.
  await admin.getByRole("button", { name: "Revoke auditor" }).click();
  await admin.getByRole("dialog").getByRole("button", { name: "Revoke auditor" }).click();
  await admin.getByRole("status").filter({ hasText: "revoked" }).waitFor();
  await page.goto("/console/accounts");
  await page.getByLabel("Operator token").waitFor();
  await page.getByLabel("Operator token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("This is not the valid token of an operator").waitFor();
});

test("names, labels and reasons are text, whatever they hold", async (t) => {
  const page = await console_(t);
  const nasty = `<img src=x onerror="document.title='hit'">`;
  await makeAccount(page, "xss", { label: nasty });
  await page.getByRole("link", { name: nasty }).click();
  await page.getByRole("heading", { name: `Key ${nasty}` }).waitFor();
  await page.getByRole("button", { name: "Ban", exact: true }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill(`${nasty}</p><script>document.title='hit'</script>`);
  await page.getByRole("dialog").getByRole("button", { name: /^Ban / }).click();
  await page.getByText(/Banned until .* \(by an operator\)/).waitFor();
  for (const path of ["/accounts/xss", "/bans", "/audit?account=xss", "/keys", `/refusals?subject=${encodeURIComponent("xss")}`, `/accounts/${encodeURIComponent(nasty)}`, `/refusals?subject=${encodeURIComponent(nasty)}`]) {
    await page.goto(`/console${path}`);
    await page.locator("main > *").first().waitFor();
    assert.equal(await page.locator("main img, main script").count(), 0, path);
    assert.doesNotMatch(await page.title(), /^hit/);
  }
});

test("neither a token nor a key stays in the browser", async (t) => {
  const page = await console_(t);
  const key = await makeAccount(page, "secrets");
  const traces = await page.evaluate(async () => [
    document.documentElement.outerHTML,
    location.href,
    document.cookie,
    JSON.stringify([...Object.entries(localStorage), ...Object.entries(sessionStorage)]),
    JSON.stringify(await indexedDB.databases()),
    JSON.stringify(history.state),
  ]);
  for (const secret of [service.operatorToken, key]) {
    for (const trace of traces) assert.ok(!trace.includes(secret), trace.slice(0, 200));
  }
  const [cookie, ...others] = await page.context().cookies(`${service.admin}/console`);
  assert.deepEqual(others, []);
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/console"]);
  assert.ok(!cookie.value.includes("pet_op_"));
  assert.ok(cookie.expires - Date.now() / 1000 <= 8 * 3600);

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Operator token").waitFor();
  await page.context().addCookies([cookie]);
  await page.goto("/console/accounts");
  await page.getByLabel("Operator token").waitFor();
});

test("a page of another origin can do nothing with an operator's session", async (t) => {
  const page = await console_(t);
  const evil = createServer((request, response) => response.writeHead(200, { "Content-Type": "text/html" }).end("<p>hello</p>"));
  await new Promise((listening) => evil.listen(0, "127.0.0.1", listening));
  t.after(() => {
    evil.closeAllConnections();
    evil.close();
  });
  // It has the same host, so it is the same site: SameSite alone would let its requests carry the cookie.
  const other = await page.context().browser().newContext({ storageState: await page.context().storageState() });
  t.after(() => other.close());
  const stranger = await other.newPage();
  await stranger.goto(`http://127.0.0.1:${evil.address().port}/`);
  const outcomes = await stranger.evaluate(async (admin) => {
    const tried = [
      [`${admin}/console/api/accounts/first/suspend`, { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }],
      [`${admin}/console/api/accounts/first/suspend`, { method: "POST", credentials: "include", headers: { "Petstore-Console": "1" }, body: "{}" }],
      [`${admin}/console/api/accounts`, { credentials: "include", headers: { "Petstore-Console": "1" } }],
      [`${admin}/console/session`, { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }],
    ];
    return Promise.all(tried.map(([url, init]) => fetch(url, init).then((answer) => answer.type, () => "refused")));
  }, service.admin);
  assert.deepEqual(outcomes, ["opaque", "refused", "refused", "opaque"]);
  assert.equal((await asks(page, "GET", "accounts/first")).suspendTime, undefined);
});

test("the keyboard is enough, and Escape changes nothing", async (t) => {
  const page = await openPage(t, browser, service.admin);
  await page.goto("/console/accounts/first");
  await page.getByLabel("Operator token").waitFor();
  assert.equal(await page.locator(":focus").getAttribute("id"), "token");
  await page.keyboard.type(service.operatorToken);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "first", level: 1 }).waitFor();
  const suspend = page.getByRole("button", { name: "Suspend" });
  for (let presses = 0; presses < 10 && !(await suspend.evaluate((node) => node === document.activeElement)); presses++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Suspend first?" }).waitFor();
  assert.equal(await page.locator(":focus").getAttribute("name"), "reason");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.ok(await suspend.evaluate((node) => node === document.activeElement), "the focus is where it was");
  assert.equal((await asks(page, "GET", "accounts/first")).suspendTime, undefined);
});

test("a suspended account is refused with the reason, until it is resumed", async (t) => {
  const page = await console_(t);
  const key = await makeAccount(page, "late-payer");
  await followed(service, key, 200);
  await page.getByRole("button", { name: "Suspend" }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("The bill of October");
  await page.getByRole("dialog").getByRole("button", { name: "Suspend late-payer" }).click();
  await page.getByText("The bill of October").waitFor();
  await followed(service, key, 403);
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
  await page.getByRole("status").filter({ hasText: "resumed" }).waitFor();
  await followed(service, key, 200);
});

test("Back shows nothing after signing out", async (t) => {
  const page = await console_(t);
  await page.addInitScript(() => addEventListener("pageshow", ({ persisted }) => (globalThis.wasKept = persisted)));
  await page.goto("/console/accounts/first");
  await page.getByRole("heading", { name: "first", level: 1 }).waitFor();
  await page.getByRole("link", { name: "Audit", exact: true }).click();
  await page.getByRole("heading", { name: "Audit" }).waitFor();
  await page.goBack({ waitUntil: "commit" });
  await page.getByRole("heading", { name: "first", level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => globalThis.wasKept), true, "Chromium keeps whole pages");
  await page.goForward({ waitUntil: "commit" });
  await page.getByRole("heading", { name: "Audit" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Operator token").waitFor();
  await page.goBack({ waitUntil: "commit" });
  await page.getByLabel("Operator token").waitFor();
  assert.doesNotMatch(await page.locator("main").textContent(), /first|Free/);
});

test("signing out in one window shows nothing in the others", async (t) => {
  const page = await console_(t);
  const other = await page.context().newPage();
  await other.goto("/console/accounts");
  await other.getByRole("link", { name: "first" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await other.getByText("You signed out in another window.").waitFor();
  assert.equal(await other.getByRole("link", { name: "first" }).count(), 0);
});

test("an ended session says why, and leads back to its page", async (t) => {
  const page = await console_(t);
  await page.clock.install();
  await page.goto("/console/audit?operator=first");
  await page.getByRole("heading", { name: "Audit" }).waitFor();
  await asks(page, "DELETE", "../session");
  await page.reload();
  await page.getByText(/Your session has ended before its 8 hours: its operator's token was revoked/).waitFor();
  await page.clock.fastForward("08:00:01");
  await page.reload();
  await page.getByText("Your session has ended: it lasts 8 hours.").waitFor();
  await page.getByLabel("Operator token").fill(service.operatorToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Audit" }).waitFor();
  assert.equal(await page.getByLabel("Operator").inputValue(), "first");
});

test("a session that ends in a dialog loses nothing that was typed", async (t) => {
  const page = await console_(t);
  await makeAccount(page, "typed");
  await page.getByRole("button", { name: "Suspend" }).click();
  const dialog = page.getByRole("dialog", { name: "Suspend typed?" });
  await dialog.getByLabel("Reason").fill("A long explanation");
  await asks(page, "DELETE", "../session");
  await dialog.getByRole("button", { name: "Suspend typed" }).click();
  const again = page.getByRole("dialog", { name: "Sign in again" });
  await again.getByText("Your session has ended").waitFor();
  await screenshot(page, "console-signed-in-again");
  await again.getByLabel("Operator token").fill(service.operatorToken);
  await again.getByRole("button", { name: "Sign in" }).click();
  await dialog.getByText("Nothing was changed yet").waitFor();
  assert.equal(await dialog.getByLabel("Reason").inputValue(), "A long explanation");
  assert.equal((await asks(page, "GET", "accounts/typed")).suspendTime, undefined);
  await dialog.getByRole("button", { name: "Suspend typed" }).click();
  await page.getByText(/Suspended since .*: A long explanation/).waitFor();
});

test("an address that leads nowhere has a heading and links that lead on", async (t) => {
  const page = await console_(t);
  await makeAccount(page, "before");
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByRole("dialog").getByLabel("New name").fill("afterwards");
  await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
  await page.getByRole("heading", { name: "afterwards", level: 1 }).waitFor();
  for (const [path, heading, link] of [
    ["/accounts/before", "There is no account before", "afterwards"],
    ["/accounts/nobody", "There is no account nobody", "All accounts"],
    ["/accounts/a%20b", "There is no account a b", "All accounts"],
    ["/accounts/%FF", "There is no account %FF", "All accounts"],
    ["/keys/00000000-0000-4000-8000-000000000000", "There is no such key", "All keys"],
    ["/keys/x", "There is no such key", "All keys"],
    ["/nosuch", "There is no such page", "Go to the overview"],
    ["/a/b/c", "There is no such page", "Go to the overview"],
    ["/", "Overview", "Refusals"],
  ]) {
    await page.goto(`/console${path}`);
    await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
    await page.getByRole("main").getByRole("link", { name: link }).waitFor();
    await page.getByRole("navigation").getByRole("link", { name: "Accounts" }).waitFor();
    assert.deepEqual(await page.getByRole("alert").filter({ hasText: /\S/ }).allTextContents(), [], path);
  }
  await page.goto("/");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
});

test("64 characters without a space fit at 1280 px", async (t) => {
  const page = await console_(t, { options: { ...DESKTOP, viewport: { width: 1280, height: 900 } } });
  const [account, label] = ["W".repeat(64), "M".repeat(64)];
  await makeAccount(page, account, { label });
  const { keys } = await asks(page, "GET", `keys?account=${account}`);
  const paths = ["", "/accounts", `/accounts/${account}`, "/keys", `/keys/${keys[0].id}`, "/audit", `/refusals?subject=${account}`];
  for (const path of paths) {
    await page.goto(`/console${path}`);
    await page.locator("h1").waitFor();
    const tooWide = await page.evaluate(() => [...document.querySelectorAll("body *")].filter((each) => each.getBoundingClientRect().right > innerWidth && !each.closest(".unseen, .skip")).map((each) => each.outerHTML.slice(0, 80)));
    assert.deepEqual(tooWide, [], path);
  }
  await page.goto(`/console/keys/${keys[0].id}`);
  await page.getByRole("button", { name: "Revoke" }).click();
  const dialog = page.getByRole("dialog");
  assert.ok(await dialog.evaluate((each) => each.scrollWidth <= each.clientWidth), "the dialog scrolls sideways");
});

test("the overview updates by itself, and says as of when", async (t) => {
  const page = await console_(t);
  await page.clock.install({ time: new Date("2030-01-01T12:00:00Z") });
  await page.goto("/console");
  const banned = page.getByRole("region", { name: "Bans in force" });
  await page.getByText("As of 12:00:0").waitFor();
  assert.equal(await banned.getByRole("link", { name: "first" }).count(), 0);
  const { keys } = await asks(page, "GET", "keys?account=first");
  const body = { method: "POST", headers: { "Petstore-Console": "1", "Content-Type": "application/json" }, body: '{"duration":"60s"}' };
  assert.equal(await page.evaluate(async ([id, body]) => (await fetch(`/console/api/keys/${id}/ban`, body)).status, [keys[0].id, body]), 201);
  await page.clock.runFor(11_000);
  await banned.getByRole("link", { name: "first" }).waitFor();
  await page.getByText("As of 12:00:1").waitFor();
  for (const path of ["/accounts", "/accounts/first"]) {
    await page.goto(`/console${path}`);
    await page.getByText("1 key banned").first().waitFor();
  }
  assert.equal((await asks(page, "DELETE", `keys/${keys[0].id}/ban`)).code, undefined);
});

test("an account's page shows by day and by key how it leaves getPet, and the overview lists it", async (t) => {
  const page = await console_(t);
  const key = await makeAccount(page, "moving");
  const calls = page.getByRole("region", { name: "Calls of deprecated operations" });
  assert.equal(await calls.count(), 0, "it calls none");
  assert.equal((await get(service.origin, key, "/v1/pets/999999")).status, 404);
  assert.equal((await get(service.origin, key)).status, 200);
  const cells = (row) => row.getByRole("cell").allTextContents();
  const first = calls.getByRole("row").nth(1);
  const uses = async () => (await asks(page, "GET", "deprecated-use?account=moving")).uses;
  for (const until = performance.now() + 20_000; (await uses())[0]?.otherRequests !== 1; ) {
    assert.ok(performance.now() < until, "the gateway reports every few seconds");
    await page.waitForTimeout(200);
  }
  await page.reload();
  await calls.waitFor();
  assert.deepEqual(await cells(first), ["1", "1"]);
  const { keys } = await asks(page, "GET", "keys?account=moving");
  const ofKey = calls.getByRole("row").filter({ has: page.locator(`a[href="/console/keys/${keys[0].id}"]`) });
  assert.deepEqual(await cells(ofKey), ["1", "1"]);
  assert.deepEqual(await seriousFaults(page), []);
  await page.goto("/console");
  const row = calls.getByRole("row").filter({ hasText: "moving" });
  await row.waitFor();
  assert.deepEqual((await cells(row)).slice(0, 4), ["getPet", "1", "1", "1"]);
});

test("what shuts operators out is confirmed twice, and a new token brings them back", async (t) => {
  const page = await console_(t, { path: "/console/operators" });
  await page.getByRole("button", { name: "Revoke first" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke first" }).click();
  const second = page.getByRole("dialog", { name: "Revoke your own token?" });
  await second.getByText("first is the last admin").waitFor();
  assert.doesNotMatch(await second.textContent(), /force/);
  await screenshot(page, "console-second-confirmation");
  await second.getByRole("button", { name: "Cancel" }).click();
  await asks(page, "GET", "operators/current").then(({ name }) => assert.equal(name, "first"));

  await page.getByRole("button", { name: "New operator" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("deputy");
  await page.getByRole("dialog").getByLabel("Role").selectOption("admin");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  const token = await secretShown(page);
  const deputy = await console_(t, { token, path: "/console/operators" });
  await deputy.getByRole("button", { name: "Revoke deputy" }).click();
  await deputy.getByRole("dialog").getByRole("button", { name: "Revoke deputy" }).click();
  await deputy.getByRole("button", { name: "Revoke deputy anyway" }).click();
  await deputy.getByText("Your session has ended before its 8 hours").waitFor();

  await page.reload();
  await page.getByRole("button", { name: "New token for deputy" }).click();
  await page.getByRole("dialog").getByText("deputy may then act again").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Create token" }).click();
  await deputy.getByLabel("Operator token").fill(await secretShown(page));
  await deputy.getByRole("button", { name: "Sign in" }).click();
  await deputy.getByRole("heading", { name: "Operators" }).waitFor();

  await asks(page, "POST", "operators", { name: "guest", role: "viewer", ttl: "3600s" });
  await page.reload();
  await page.getByRole("button", { name: "New token for guest" }).click();
  await page.getByRole("dialog").getByLabel("The new token expires").selectOption("in 30 days");
  await page.getByRole("dialog").getByRole("button", { name: "Create token" }).click();
  await secretShown(page);
  const { operators } = await asks(page, "GET", "operators");
  const { expireTime } = operators.find(({ name }) => name === "guest");
  assert.equal(Math.round((new Date(expireTime) - Date.now()) / 86_400_000), 30);
});

test("a new key in the place of another lasts as long, unless it is chosen otherwise", async (t) => {
  const page = await console_(t);
  await makeAccount(page, "tenant");
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("dialog").getByLabel("Label").fill("monthly");
  await page.getByRole("dialog").getByLabel("Expires").selectOption("in 30 days");
  await page.getByRole("button", { name: "Create key" }).click();
  await secretShown(page);
  const daysLeft = async () => {
    const { keys } = await asks(page, "GET", "keys?account=tenant");
    return keys[0].expireTime && Math.round((new Date(keys[0].expireTime) - Date.now()) / 86_400_000);
  };
  assert.equal(await daysLeft(), 30);
  await page.getByRole("link", { name: "monthly" }).click();
  for (const [choice, days] of [[null, 30], ["in 90 days", 90], ["never", undefined]]) {
    await page.getByRole("button", { name: "Rotate" }).click();
    const expires = page.getByRole("dialog").getByLabel("The new key expires");
    assert.match(await expires.locator("option:checked").textContent(), /^on \d+ \w+ \d{4}: the lifetime of the old one$/);
    if (choice) await expires.selectOption(choice);
    await page.getByRole("dialog").getByLabel("The old key keeps working for").selectOption("7 days");
    await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
    await secretShown(page);
    assert.equal(await daysLeft(), days, String(choice));
  }
});

// The last test, because its address is refused afterwards.
test("guesses of tokens get a time to wait", async (t) => {
  const page = await openPage(t, browser, service.admin);
  await page.goto("/console");
  await page.getByLabel("Operator token").waitFor();
  const statuses = await page.evaluate(async () => {
    const seen = [];
    for (let attempt = 0; attempt < 1_000 && seen.at(-1) !== 429; attempt++) {
      const headers = { "Petstore-Console": "1", "Content-Type": "application/json" };
      const token = `pet_op_${"0".repeat(36 - String(attempt).length)}${attempt}`;
      seen.push((await fetch("/console/session", { method: "POST", headers, body: JSON.stringify({ token }) })).status);
    }
    return seen;
  });
  assert.equal(statuses.at(-1), 429);
  assert.ok(statuses.slice(0, -1).every((status) => status === 401), statuses.slice(0, 5).join());
  await page.getByLabel("Operator token").fill(`pet_op_${"1".repeat(36)}`);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").filter({ hasText: /wait|later|many/i }).waitFor();
});
