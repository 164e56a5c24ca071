// Operators' actions in the console, as functions for the tests.

import assert from "node:assert/strict";

import { DESKTOP, openPage } from "./browser.mjs";

// Time within which gateways follow operators' changes.
const FOLLOW_MS = 5_000;
// Time within which everything that gateways count is in reports.
const REPORTED_MS = 20_000;
// Time within which a page notices an outage, or its end.
const SHOWN_MS = 30_000;

// A request of a customer, at a gateway.
export const get = (origin, key, path = "/v1/pets") => fetch(origin + path, { headers: { Authorization: `Bearer ${key}` } });

// Waits until a customer's request has that status at every gateway, no longer than gateways may take to follow.
export function followed({ origins }, key, status, code, message = "") {
  const until = performance.now() + FOLLOW_MS;
  const follows = async (origin) => {
    for (;;) {
      const answer = await get(origin, key);
      const body = await answer.json();
      if (answer.status === status && (!code || body.code === code) && (!message || body.message.includes(message))) return;
      assert.ok(performance.now() < until, `${origin}: it is still ${answer.status} ${JSON.stringify(body).slice(0, 200)}, not ${status} ${message}`);
      await new Promise((done) => setTimeout(done, 100));
    }
  };
  return Promise.all(origins.map(follows));
}

// The console, signed in.
export async function signedIn(t, browser, service, { options = DESKTOP, token = service.operatorToken, path = "/console" } = {}) {
  const page = await openPage(t, browser, service.admin, options);
  const health = page.waitForResponse("**/console/health");
  await page.goto(path);
  await (await health).finished();
  await page.getByLabel("Operator token").fill(token);
  assert.equal(await page.getByText("Signing in may fail").count(), 0, "nothing is wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await shown(page, page.getByRole("button", { name: "Sign out" }));
  await page.locator("h1").waitFor();
  return page;
}

// Waits for something, unless the page says that it failed.
async function shown(page, locator) {
  const problem = page.getByRole("alert").filter({ hasText: /\S/ });
  await locator.or(problem).first().waitFor();
  assert.deepEqual(await problem.allTextContents(), []);
}

export const go = (page, name) => page.getByRole("navigation").getByRole("link", { name, exact: true }).click();

// Creates an account with a key. Returns the key.
export async function makeAccount(page, name, { label = "" } = {}) {
  await go(page, "Accounts");
  await page.getByRole("button", { name: "New account" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill(name);
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  return makeKey(page, label);
}

async function makeKey(page, label) {
  await page.getByRole("button", { name: "New key" }).click();
  await page.getByRole("dialog").getByLabel("Label").fill(label);
  await page.getByRole("button", { name: "Create key" }).click();
  return secretShown(page);
}

// Returns the secret that a dialog shows, and closes the dialog.
export async function secretShown(page) {
  const code = page.getByRole("dialog").locator("code.secret");
  await shown(page, code);
  const secret = await code.textContent();
  await page.getByRole("button", { name: "I’ve saved it" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  return secret;
}

// Returns the API's response to a request from the page.
export function asks(page, method, path, body = {}) {
  return page.evaluate(
    async ([method, path, body]) => {
      const init = method === "GET" || method === "DELETE" ? {} : { body: JSON.stringify(body) };
      const headers = { "Petstore-Console": "1", "Content-Type": "application/json" };
      const text = await (await fetch(`/console/api/${path}`, { method, headers, ...init })).text();
      return text === "" ? {} : JSON.parse(text);
    },
    [method, path, body],
  );
}

// Waits until `check` returns something true, and returns it: gateways report what they count every 5 s.
export async function eventually(what, check) {
  for (const until = performance.now() + REPORTED_MS; ; await new Promise((done) => setTimeout(done, 200))) {
    const found = await check();
    if (found) return found;
    assert.ok(performance.now() < until, `not within ${REPORTED_MS / 1000} seconds: ${what}`);
  }
}

// Lets the page's own clock run until it shows that, but not while it waits for an answer.
export async function shownInTime(page, locator) {
  for (const until = performance.now() + SHOWN_MS; !(await locator.isVisible()); ) {
    assert.ok(performance.now() < until, `not shown within ${SHOWN_MS / 1000} seconds: ${locator}`);
    if ((await page.locator("main[aria-busy]").count()) === 0) await page.clock.runFor(5_000);
    await new Promise((done) => setTimeout(done, 100));
  }
}
