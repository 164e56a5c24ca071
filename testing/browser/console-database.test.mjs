// Tests of the operator console while PostgreSQL is away, and the core that uses it runs.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP, launch, screenshot, seriousFaults } from "./browser.mjs";
import { makeAccount, shownInTime, signedIn } from "./console.mjs";
import { startApart } from "./service.mjs";

let service;
let browser;
before(async () => {
  service = await startApart({ onPostgres: true });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await service?.stop();
});

const expected = /^Failed to load resource: the server responded with a status of [45]/;
const FAILURES = { ...DESKTOP, expected };
const PATHS = [
  ["/accounts/zoo", "Account zoo"],
  ["/keys", "Keys"],
  ["/refusals?subject=zoo", "Why was a request refused?"],
  ["/operators", "Operators"],
];
// Texts that blame the core, or leave open what is away.
const BLAMES_THE_CORE = /The core (or|is|fails|lacks|can)|No core/;
const AWAY = "The database is unavailable. Until it is back, its data can be neither shown nor changed.";

test("without PostgreSQL pages blame the database, not the core, and come back by themselves", async (t) => {
  const page = await signedIn(t, browser, service, { options: FAILURES });
  await makeAccount(page, "zoo");
  await page.clock.install();
  await page.goto("/console");
  const main = page.getByRole("main");
  const health = page.getByRole("region", { name: "Health of this gateway" });
  await health.getByText("Core: ok").waitFor();
  const blame = async () => (await main.innerText()).match(BLAMES_THE_CORE)?.[0];
  await service.stopDatabase();

  // The open page; then each page that is opened now.
  await shownInTime(page, health.getByText("Core: degraded The core answers, but its database does not: "));
  await shownInTime(page, main.getByText(AWAY).first());
  assert.equal(await blame(), undefined);
  await screenshot(page, "console-database-away", { fullPage: true });
  for (const [path, heading] of PATHS) {
    await page.goto(`/console${path}`);
    await page.getByRole("heading", { name: heading, level: 1, exact: true }).waitFor();
    await page.getByRole("alert").getByText(AWAY).waitFor();
    assert.equal(await blame(), undefined, path);
    assert.deepEqual(await seriousFaults(page), [], path);
  }

  await page.goto("/console/accounts/zoo");
  await page.getByText("Last tried at").waitFor();
  await service.startDatabase();
  await shownInTime(page, page.getByRole("heading", { name: "zoo", level: 1, exact: true }));
  assert.equal(await page.getByText("is unavailable").count(), 0);
  await page.goto("/console");
  await shownInTime(page, health.getByText("Core: ok"));
});

test("without PostgreSQL a dialog and the sign-in form blame the database, too", async (t) => {
  const page = await signedIn(t, browser, service, { options: FAILURES });
  await makeAccount(page, "typed");
  await page.clock.install();
  await page.getByRole("button", { name: "Suspend" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("The bill of October");
  await service.stopDatabase();
  const other = await page.context().newPage();
  await other.clock.install();
  await other.goto("/console");
  await shownInTime(other, other.getByText("but its database does not"));
  await dialog.getByRole("button", { name: "Suspend typed" }).click();
  await dialog.getByRole("alert").getByText(AWAY).waitFor();
  assert.equal(await dialog.getByLabel("Reason").inputValue(), "The bill of October");

  await page.context().clearCookies();
  await page.reload();
  const notice = page.getByText(/^The core answers, but its database does not.* Signing in may fail/);
  await notice.waitFor();
  await page.getByLabel("Operator token").fill(service.operatorToken);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText(AWAY).waitFor();
  assert.doesNotMatch(await page.getByRole("main").innerText(), BLAMES_THE_CORE);
  await service.startDatabase();
  await shownInTime(page, page.getByRole("status").filter({ hasText: "You can sign in again." }));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "typed", level: 1, exact: true }).waitFor();
});

test("while PostgreSQL takes no writes a dialog says so, and pages are shown", async (t) => {
  const page = await signedIn(t, browser, service, { options: FAILURES });
  await makeAccount(page, "read");
  await page.clock.install();
  await service.takeWrites(false);
  await page.goto("/console");
  const health = page.getByRole("region", { name: "Health of this gateway" });
  await shownInTime(page, health.getByText(/Core: degraded .* takes no writes/));
  await page.goto("/console/accounts/read");
  await page.getByRole("heading", { name: "read", level: 1, exact: true }).waitFor();
  await page.getByRole("button", { name: "Suspend" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Reason").fill("The bill of October");
  await dialog.getByRole("button", { name: "Suspend read" }).click();
  const refusal = "The database takes no writes. Until it does, nothing can be changed.";
  await dialog.getByRole("alert").getByText(refusal).waitFor();
  await service.takeWrites(true);
  await page.goto("/console");
  await shownInTime(page, health.getByText("Core: ok"));
});
