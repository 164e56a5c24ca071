// An operator's day in the console: in one process, and in a split deployment behind a load balancer, where every request
// of the browser reaches the gateway that did not serve the previous one.

import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";

import { DESKTOP, PHONE, launch, screenshot } from "./browser.mjs";
import { followed, get, go, makeAccount, secretShown, signedIn } from "./console.mjs";
import { startDeployment } from "./deployment.mjs";
import { startService } from "./service.mjs";

const PLACES = [
  ["one process", startService, [["phone, dark", { ...PHONE, colorScheme: "dark" }]]],
  ["two gateways", startDeployment, [["desktop, light", DESKTOP], ["phone, light", PHONE]]],
];

for (const [place, startUp, sizes] of PLACES) {
  suite(place, () => {
    let service;
    let browser;
    before(async () => {
      service = await startUp();
      browser = await launch();
    });
    after(async () => {
      await browser?.close();
      await service?.stop();
    });
    for (const [size, options] of sizes) {
      test(`an operator's day: ${size}`, (t) => operatorsDay(t, { service, browser, size, options }));
    }
  });
}

async function operatorsDay(t, { service, browser, size, options }) {
  const name = `zoo-${size.replace(", ", "-")}`;
  const shot = (what) => screenshot(page, `console-${what}-${size.replace(", ", "-")}`, { fullPage: true });
  const page = await signedIn(t, browser, service, { options });
  const key = await makeAccount(page, name, { label: "shop front" });
  await followed(service, key, 200);

  // The customer sends too many requests, and asks the operator why they are refused.
  let refused;
  for (let requests = 0; requests <= 130 && refused?.status !== 429; requests++) {
    refused = await get(service.origins[requests % service.origins.length], key);
  }
  assert.equal(refused.status, 429);
  await go(page, "Refusals");
  await page.getByLabel("Account, key or request identifier").fill(name);
  await page.getByRole("button", { name: "Show" }).click();
  const answer = page.getByRole("article").filter({ hasText: "RATE_LIMITED" }).first();
  await reloadedUntil(page, `/console/refusals?subject=${name}`, answer);
  assert.match(await answer.locator(".because").textContent(), /60/);
  await answer.getByText("in force").waitFor();
  assert.match(await answer.textContent(), /What to do/);
  await shot("refusal");

  // The request itself is found by its identifier as soon as its gateway has reported it, with the number of refusals.
  const requestId = refused.headers.get("x-request-id");
  await reloadedUntil(page, `/console/refusals?subject=${requestId}`, page.getByRole("article").filter({ hasText: requestId }));
  await page.getByRole("article").getByText("RATE_LIMITED", { exact: true }).waitFor();
  await reloadedUntil(page, "/console", page.getByRole("row").filter({ hasText: name }).getByRole("link", { name: "Refusals" }));
  await page.getByRole("img", { name: /^Requests by minute, UTC: \d+ requests, of which [1-9]/ }).waitFor();
  const health = page.getByRole("region", { name: "Health of this gateway" });
  await health.getByText("Core: ok").waitFor(); // through the proxy, too
  await page.getByText("Over the account’s limit per minute RATE_LIMITED").waitFor();
  assert.deepEqual(await page.getByRole("alert").filter({ hasText: /\S/ }).allTextContents(), []);
  await shot("overview");
  await page.getByRole("row").filter({ hasText: name }).getByRole("link", { name: "Refusals" }).click();

  // The plan is raised, and the next request passes.
  await answer.getByRole("link", { name }).click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  const meter = page.getByRole("meter", { name: "This minute: requests used" });
  assert.equal(await meter.getAttribute("aria-valuemax"), "60");
  assert.equal(await meter.getAttribute("aria-valuenow"), "60");
  await shot("account");
  await page.getByRole("button", { name: "Change plan" }).click();
  await page.getByRole("dialog").getByLabel("Plan").selectOption("business");
  await shot("change-plan");
  await page.getByRole("dialog").getByRole("button", { name: "Change plan" }).click();
  await page.getByRole("status").filter({ hasText: "on plan business" }).waitFor();
  await followed(service, key, 200);

  // The key is rotated: the old one keeps working for a day.
  await page.getByRole("link", { name: "shop front" }).click();
  await page.getByRole("button", { name: "Rotate" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
  const newKey = await secretShown(page);
  assert.notEqual(newKey, key);
  await followed(service, newKey, 200);
  assert.equal((await get(service.origin, key)).status, 200);

  // It is banned, and the ban is lifted.
  await page.getByRole("button", { name: "Ban", exact: true }).click();
  await page.getByRole("dialog").getByLabel("Reason").fill("Scrapes the catalogue");
  await page.getByRole("dialog").getByRole("button", { name: "Ban shop front" }).click();
  await page.getByText(/Banned until .* \(by an operator\): Scrapes the catalogue/).waitFor();
  await followed(service, key, 429, "API_KEY_BANNED", "Scrapes the catalogue");
  await shot("key");
  await go(page, "Bans");
  await page.getByText("Scrapes the catalogue").waitFor();
  await page.getByRole("main").getByRole("link", { name: /^…[0-9a-f]{12}$/ }).first().click();
  await page.getByRole("button", { name: "Lift ban" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Lift ban" }).click();
  await page.getByRole("status").filter({ hasText: "lifted" }).waitFor();
  await followed(service, key, 200);

  // All changes are in the audit log, newest first, without keys.
  await go(page, "Audit");
  await page.getByLabel("Account").fill(name);
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByText("Lift ban").waitFor();
  const actions = await page.locator("td[data-label=What]").allTextContents();
  assert.deepEqual(actions, ["Lift ban", "Create ban", "Rotate key", "Update account", "Create key", "Create account"]);
  const whole = await page.locator("main").textContent();
  assert.match(whole, /free.*→.*business/);
  for (const secret of [key, newKey]) assert.ok(!whole.includes(secret) && !whole.includes(secret.slice(9, 40)));
  await shot("audit");
}

// Loads the page until it shows that: gateways report what they count every 5 seconds.
async function reloadedUntil(page, path, shown) {
  const until = performance.now() + 15_000;
  do {
    await page.goto(path);
    await page.locator("h1").waitFor();
    if ((await shown.count()) > 0) return;
    await new Promise((done) => setTimeout(done, 250));
  } while (performance.now() < until);
  assert.fail(`${path} does not show ${shown}`);
}
