// The words of the operator console: one for one thing, on every page.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP, launch, screenshot } from "./browser.mjs";
import { asks, eventually, get, signedIn } from "./console.mjs";
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

const UNKNOWN_KEY = `pet_live_${"0".repeat(36)}`;
const DAY = "86400s";

// Creates an account with a key: { apiKey, key }.
async function customer(page, name, options = {}) {
  await asks(page, "POST", "accounts", { name, plan: "free" });
  return asks(page, "POST", `accounts/${name}/keys`, options);
}

// Sends requests until one has this code. Returns how many were answered with each status.
async function sendUntil(code, key, path) {
  const statuses = {};
  for (const until = performance.now() + 20_000; ; ) {
    const answer = await get(service.origin, key, path);
    statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
    if ((await answer.json()).code === code) return statuses;
    assert.ok(performance.now() < until, `no request was refused with ${code}: ${JSON.stringify(statuses)}`);
  }
}

// Opens a page of the console.
async function open(page, path) {
  await page.goto(`/console${path}`);
  await page.locator("h1").waitFor();
}

// Everything that a page says, with what only screen readers and pointers get, and what is folded.
const said = (page) => page.getByRole("main").evaluate((main) => {
  const attributes = ["aria-label", "title", "placeholder", "aria-valuetext"];
  const all = [...main.querySelectorAll("*")];
  const hidden = all.flatMap((each) => attributes.map((name) => each.getAttribute(name)));
  const texts = [];
  const nodes = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) texts.push(nodes.currentNode.data);
  return [document.title, ...texts, ...hidden].filter(Boolean).join("\n");
});

// The tags in an element, each with its colour.
const tags = (locator) => locator.locator(".tag").evaluateAll((all) => {
  return all.map((each) => [each.textContent, getComputedStyle(each).color]);
});
const row = (page, text) => page.getByRole("main").locator("tbody tr").filter({ hasText: text });
const heading = (page) => page.locator(".head").filter({ has: page.locator("h1") });

// Other words for a refusal.
const OTHER_WORDS = /\b(reject|den(y|ie[sd]|ial)|block|throttl|forbid|disallow|declin|turned away)\w*/i;

test("a refusal has one name, and a state the same words in lists, headings and reasons", async (t) => {
  const page = await console_(t);
  const late = await customer(page, "late");
  const shop = await customer(page, "shop");
  const loop = await customer(page, "loop");
  await asks(page, "POST", "accounts/late/suspend", { reason: "unpaid" });
  await asks(page, "POST", `keys/${shop.key.id}/ban`, { duration: "3600s" });
  await sendUntil("ACCOUNT_SUSPENDED", late.apiKey);
  await sendUntil("API_KEY_BANNED", shop.apiKey);
  const statuses = await sendUntil("API_KEY_BANNED", loop.apiKey);
  await get(service.origin, UNKNOWN_KEY);
  const reported = async () => (await asks(page, "GET", "overview")).refusals ?? [];
  await eventually("every reason is reported", async () => (await reported()).length >= 5);

  // The words for refusals.
  const ids = [shop.key.id, loop.key.id];
  const lists = ["", "/accounts", "/keys", "/bans", "/find-keys", "/audit", "/operators", "/refusals"];
  const names = ["late", "shop", "loop"];
  const ofAccounts = names.flatMap((name) => [`/accounts/${name}`, `/refusals?subject=${name}`]);
  for (const path of [...lists, ...ofAccounts, ...ids.map((id) => `/keys/${id}`)]) {
    await open(page, path);
    assert.equal((await said(page)).match(OTHER_WORDS)?.[0], undefined, path);
  }

  // A suspended account, and a banned key and its account, look the same in lists and headings.
  const RED = "rgb(163, 32, 27)";
  const red = (word) => [word, RED];
  for (const [account, word] of [["late", "suspended"], ["shop", "1 key banned"], ["loop", "1 key banned"]]) {
    await open(page, "/accounts");
    const [, ...listed] = await tags(row(page, account));
    await open(page, `/accounts/${account}`);
    const [, ...headed] = await tags(heading(page));
    assert.deepEqual({ listed, headed }, { listed: [red(word)], headed: [red(word)] }, account);
  }
  for (const [account, { apiKey, key }] of [["shop", shop], ["loop", loop]]) {
    for (const path of ["/keys", `/accounts/${account}`]) {
      await open(page, path);
      assert.deepEqual(await tags(row(page, key.lastFour)), [red("banned")], path);
    }
    await open(page, `/keys/${key.id}`);
    assert.deepEqual(await tags(heading(page)), [red("banned")]);
    await open(page, "/find-keys");
    await page.getByLabel("Text with keys").fill(apiKey);
    await page.getByRole("button", { name: "Find" }).click();
    await row(page, key.lastFour).waitFor();
    assert.deepEqual(await tags(row(page, key.lastFour)), [red("banned")]);
  }

  // Why a key is banned, and an account suspended.
  await open(page, "/refusals?subject=late");
  await page.getByText("Account late: suspended").waitFor();
  await open(page, "");
  await screenshot(page, "console-refusals-in-words", { fullPage: true });
  const reasons = (code) => row(page, code).locator("th").allTextContents();
  assert.deepEqual(await reasons("ACCOUNT_SUSPENDED"), ["Account suspended ACCOUNT_SUSPENDED"]);
  const bans = (await reasons("API_KEY_BANNED")).toSorted();
  for (const [index, [account, { key }, adverb, why]] of [
    ["loop", loop, "automatically: ", "it kept sending after 429"],
    ["shop", shop, "", "by an operator"],
  ].entries()) {
    assert.equal(bans[index], `Key banned ${adverb}${why} API_KEY_BANNED`);
    await open(page, "/bans");
    const imposed = await row(page, account).locator("[data-label=Imposed]").allTextContents();
    assert.deepEqual(imposed, [adverb + why]);
    await open(page, `/keys/${key.id}`);
    await page.getByText(`(${adverb}${why})`).waitFor();
    await open(page, `/refusals?subject=${account}`);
    const explained = page.getByRole("article").filter({ hasText: "API_KEY_BANNED" }).locator(".because");
    assert.ok((await explained.textContent()).includes(why), `${account}: ${await explained.textContent()}`);
  }

  // How many requests were refused with 429 is the same number on each page.
  const refused = statuses[429].toLocaleString("en-US");
  await open(page, "");
  const panel = page.getByRole("region", { name: "Refusals of the last hour" });
  const counted = panel.getByRole("row").filter({ hasText: /^loop/ }).locator("[data-label=Requests]");
  assert.equal(await counted.textContent(), refused);
  for (const path of ["/accounts/loop", `/keys/${loop.key.id}`]) {
    await open(page, path);
    await page.getByRole("img", { name: `requests, of which ${refused} were refused with 429` }).waitFor();
  }
});

test("two keys of one account differ in what is shown of them, wherever they are listed", async (t) => {
  const page = await console_(t);
  // They are made together, and expire together: two have the same label, as after a rotation, and two none.
  const made = [await customer(page, "twins", { label: "shop", ttl: DAY })];
  for (const label of ["shop", "", ""]) {
    made.push(await asks(page, "POST", "accounts/twins/keys", { label, ttl: DAY }));
  }
  for (const { apiKey, key } of made) {
    assert.equal((await get(service.origin, apiKey, "/v1/pets/1")).status, 404);
    await asks(page, "POST", `keys/${key.id}/ban`, { duration: "3600s" });
  }
  const uses = async () => (await asks(page, "GET", "deprecated-use?account=twins&by=key")).uses ?? [];
  await eventually("the use of every key is reported", async () => (await uses()).length === made.length);

  // Every page that lists them has the same names for them.
  const names = made.map(({ key: { id, label } }) => [label, `…${id.slice(-12)}`].filter(Boolean).join(" "));
  const ids = made.map(({ key: { id } }) => `…${id.slice(-12)}`);
  for (const [path, region, expected] of [
    ["", "Keys that expire within 7 days", names],
    ["", "Bans in force", ids],
    ["/bans", "Bans in force", ids],
    ["/keys?account=twins", "Keys found", names],
    ["/accounts/twins", "Keys", names],
    ["/accounts/twins", "Calls of deprecated operations", ids],
    ["/audit?account=twins", "Events found", ids],
  ]) {
    await open(page, path);
    const links = page.getByRole("region", { name: region, exact: true }).locator("tbody a[href^='/console/keys/']");
    const shown = new Set(await links.allTextContents());
    for (const name of expected) assert.ok(shown.has(name), `${path}: ${region}: ${name} is not among ${[...shown].join(", ")}`);
  }

  // The page of a key, and the question before it is revoked.
  const [headings, titles] = [[], []];
  for (const { key } of made) {
    await open(page, `/keys/${key.id}`);
    headings.push(await heading(page).innerText());
    await page.getByRole("button", { name: "Revoke" }).click();
    titles.push(await page.getByRole("dialog").getByRole("heading").textContent());
  }
  for (const [index, name] of names.entries()) assert.ok(headings[index].startsWith(`Key ${name}`), headings[index]);
  assert.deepEqual([...new Set(headings)], headings);
  assert.deepEqual([...new Set(titles)], titles);
});

test("getPet’s calls include refused ones, and each table of them says so", async (t) => {
  const page = await console_(t);
  const { apiKey } = await customer(page, "mover");
  const statuses = await sendUntil("RATE_LIMITED", apiKey, "/v1/pets/1");
  assert.deepEqual(statuses, { 404: 60, 429: 1 });
  const uses = async () => (await asks(page, "GET", "deprecated-use?account=mover")).uses ?? [];
  await eventually("every call is reported", async () => Number((await uses())[0]?.calls) === 61);
  const calls = page.getByRole("region", { name: "Calls of deprecated operations" });
  for (const path of ["", "/accounts/mover"]) {
    await open(page, path);
    await calls.getByText("Every call counts, even one that was refused with 429 or failed.").waitFor();
  }
  const numbers = await calls.getByRole("cell").allTextContents();
  assert.deepEqual(numbers, ["61", "0", "61", "0"], "by day, and by key");
  const chart = page.getByRole("region", { name: "The last 30 days" });
  await chart.getByRole("img", { name: "61 requests, of which 1 were refused with 429" }).waitFor();
  await open(page, "");
  const cells = await calls.getByRole("row").filter({ hasText: "mover" }).getByRole("cell").allTextContents();
  assert.deepEqual(cells.slice(0, 3), ["getPet", "61", "61"]);
});

// The first of the numbers is the sum of the others.
function assertSum(texts, where) {
  const [all, ...parts] = texts.map((text) => Number(text.replaceAll(",", "")));
  assert.equal(parts.reduce((sum, part) => sum + part, 0), all, `${where}: ${texts.join(" ")}`);
}

test("4xx means the same wherever it stands: every such status except 429", async (t) => {
  const page = await console_(t);
  const { apiKey, key } = await customer(page, "mistaken");
  assert.equal((await get(service.origin, apiKey, "/v1/pets?limit=0")).status, 400);
  assert.equal((await get(service.origin, apiKey)).status, 200);
  const statuses = await sendUntil("RATE_LIMITED", apiKey, "/v1/pets/1");
  assert.deepEqual(statuses, { 404: 58, 429: 1 });
  const usage = async () => (await asks(page, "GET", "usage?account=mistaken&interval=day")).periods ?? [];
  await eventually("every request is reported", async () => Number((await usage())[0]?.counts.refused) === 1);

  for (const path of ["", "/accounts/mistaken", `/keys/${key.id}`]) {
    await open(page, path);
    const uses = (await said(page)).match(/\b4xx\b.{0,11}/g);
    assert.ok(uses.length >= 3, path);
    for (const use of uses) assert.equal(use, "4xx except 429", path);
    // In each row of numbers, no request is counted twice.
    const rows = await page.locator("details tbody tr").evaluateAll((all) => {
      return all.map(({ cells: [, ...numbers] }) => numbers.map((each) => each.textContent));
    });
    assert.ok(rows.length >= 30, path);
    for (const row of rows) assertSum(row, path);
  }
  for (const path of ["/accounts/mistaken", `/keys/${key.id}`]) {
    await open(page, path);
    await page.getByText("As a table").click();
    const newest = page.locator("details tbody tr").first();
    assert.deepEqual(await newest.locator("td").allTextContents(), ["61", "1", "59", "1", "0"], path);
  }
});
