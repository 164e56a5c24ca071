// Tests of the operator console while the core is down.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP, PHONE, launch, openPage, screenshot, seriousFaults } from "./browser.mjs";
import { makeAccount, shownInTime, signedIn } from "./console.mjs";
import { startApart } from "./service.mjs";

let service;
let browser;
before(async () => {
  service = await startApart();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await service?.stop();
});

const FAILURES = { ...DESKTOP, expected: /^Failed to load resource: the server responded with a status of [45]/ };
const PATHS = [
  ["", "Overview"],
  ["/accounts", "Accounts"],
  ["/accounts/zoo", "Account zoo"],
  ["/keys", "Keys"],
  ["/bans", "Bans in force"],
  ["/refusals?subject=zoo", "Why was a request refused?"],
  ["/audit", "Audit"],
  ["/operators", "Operators"],
];

test("every page keeps heading and navigation, and comes back by itself", async (t) => {
  const page = await signedIn(t, browser, service, { options: FAILURES });
  await makeAccount(page, "zoo");
  await page.clock.install();
  await page.goto("/console");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await service.stopCore();

  // The open page, and each page that is opened now.
  await shownInTime(page, page.getByText("The core is unavailable."));
  for (const [path, heading] of PATHS) {
    await page.goto(`/console${path}`);
    await page.getByRole("heading", { name: heading, level: 1 }).waitFor();
    await page.getByText("The core is unavailable.").waitFor();
    assert.equal(await page.getByRole("navigation").getByRole("link").count(), 7, path);
    assert.deepEqual(await seriousFaults(page), [], path);
    await screenshot(page, `console-core-away${path.replaceAll(/[^a-z]+/g, "-")}`, { fullPage: true });
  }
  // The cause comes first, in sight. What was known before is not told as if it were so now.
  await page.goto("/console");
  const health = page.getByRole("region", { name: "Health of this gateway" });
  await health.getByText("Core: degraded The core is unreachable: API requests get 503 until it returns.").waitFor();
  assert.deepEqual(await page.getByRole("main").getByRole("heading").allTextContents(), ["Overview", "Health of this gateway"]);
  const { y, height } = await health.boundingBox();
  assert.ok(y + height <= DESKTOP.viewport.height, `the cause ends at ${y + height} px`);
  const banner = page.getByText("Not known now: requests of the last hour, refusals of the last hour, accounts near their limit of today, bans in force,");
  await banner.waitFor();
  assert.equal(await page.getByText(/^(None\.|Not known now\.|Nothing was refused\.)$/).count(), 0);

  await page.goto("/console/accounts/zoo");
  await page.getByText("Last tried at").waitFor();
  await service.startCore();
  await shownInTime(page, page.getByRole("heading", { name: "zoo", level: 1, exact: true }));
  assert.equal(await page.getByText("The core is unavailable.").count(), 0);
});

test("signing in says that it has to wait, and until when", async (t) => {
  await service.stopCore();
  const page = await openPage(t, browser, service.admin, { ...PHONE, expected: FAILURES.expected });
  await page.clock.install();
  await page.goto("/console/accounts");
  const notice = page.getByText(/^(The core is unreachable|No core has answered).* Signing in may fail until then\./);
  await notice.first().waitFor();
  await page.getByLabel("Operator token").fill(service.operatorToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").filter({ hasText: /The core (or its database )?is unavailable/ }).waitFor();
  await service.startCore();
  await shownInTime(page, page.getByRole("status").filter({ hasText: "You can sign in again." }));
  assert.equal(await notice.first().isVisible(), false);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Accounts" }).waitFor();
});
