// What the operator console looks like: measured in Chromium.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP, PHONE, launch, openPage, screenshot } from "./browser.mjs";
import { asks, eventually, get, makeAccount, secretShown, signedIn } from "./console.mjs";
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

const NARROW_DESKTOP = { ...DESKTOP, viewport: { width: 1280, height: 900 } };

// Returns the largest rectangle of `main` without content, in pixels. The end of a panel that is stretched is
// empty, too: only headings, text, rows and pictures count. Runs in the page.
function largestGap(main) {
  const CELL = 10;
  const content = [...main.querySelectorAll("h1, h2, h3, p, li, dt, dd, tr, svg, summary, button")];
  const boxes = content.filter((each) => each.checkVisibility()).map((each) => each.getBoundingClientRect());
  const edge = (side, outermost) => outermost(...boxes.map((box) => box[side]));
  const [left, top] = [edge("left", Math.min), edge("top", Math.min)];
  const columns = Math.floor((edge("right", Math.max) - left) / CELL);
  const rows = Math.floor((edge("bottom", Math.max) - top) / CELL);
  const isIn = (box, x, y) => box.left < x + CELL && box.right > x && box.top < y + CELL && box.bottom > y;
  const isCovered = (x, y) => boxes.some((box) => isIn(box, x, y));
  const free = Array.from({ length: columns }, () => 0); // cells above each other up to this row
  let best = { width: 0, height: 0 };
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      free[column] = isCovered(left + column * CELL, top + row * CELL) ? 0 : free[column] + 1;
    }
    for (let from = 0; from < columns; from++) {
      for (let [to, height] = [from, free[from]]; to < columns && free[to] > 0; to++) {
        height = Math.min(height, free[to]);
        const found = { width: (to - from + 1) * CELL, height: height * CELL };
        if (found.width * found.height <= best.width * best.height) continue;
        best = { ...found, left: left + from * CELL, bottom: top + (row + 1) * CELL };
      }
    }
  }
  return best;
}

async function assertFilled(page, state) {
  const gap = await page.getByRole("main").evaluate(largestGap);
  const { width, height } = page.viewportSize();
  const share = (gap.width * gap.height) / (width * height);
  const found = `${(100 * share).toFixed()} % of a view is empty: ${JSON.stringify(gap)}`;
  assert.ok(share < 1 / 4, `${state}: ${found}`);
}

test("the overview at 1280 px has no empty quadrant, on a quiet and on a busy day", async (t) => {
  const page = await console_(t, { options: NARROW_DESKTOP });
  assert.equal(await page.locator(".panels .panel").count(), 7);
  await assertFilled(page, "nothing has happened");

  // Some accounts that are over their limits, and a key that is banned and expires.
  const limits = { perMinute: 10, perDay: 10 };
  for (let count = 1; count <= 12; count++) {
    const account = `customer-${count}`;
    await asks(page, "POST", "accounts", { name: account, plan: "enterprise", limits });
    const { apiKey, key } = await asks(page, "POST", `accounts/${account}/keys`, { ttl: "86400s" });
    for (let requests = 0; requests < 12; requests++) await get(service.origin, apiKey, `/v1/pets/${count}`);
    if (count <= 3) await asks(page, "POST", `keys/${key.id}/ban`, { duration: "3600s" });
    await get(service.origin, apiKey);
  }
  const refused = async () => (await asks(page, "GET", "overview")).refusedAccounts ?? [];
  await eventually("as many refused accounts as are shown", async () => (await refused()).length >= 10);
  await page.reload();
  const near = page.getByRole("region", { name: "Accounts near their limit of today" });
  await near.getByText("customer-12").waitFor();
  await screenshot(page, "console-overview-busy", { fullPage: true });
  await assertFilled(page, "12 accounts are refused");
});

test("at 390 px every page and Sign out are in sight", async (t) => {
  const page = await console_(t, { options: PHONE });
  // An operator with the longest name, too.
  const { token } = await asks(page, "POST", "operators", { name: "W".repeat(64), role: "viewer" });
  const viewer = await console_(t, { options: PHONE, token });
  for (const shown of [page, viewer]) {
    for (const width of [320, 390]) {
      await shown.setViewportSize({ ...PHONE.viewport, width });
      await shown.goto("/console/audit");
      await shown.locator("h1").waitFor();
      const links = shown.getByRole("navigation").getByRole("link");
      assert.deepEqual(await links.allTextContents(), PAGES);
      for (const inSight of [...(await links.all()), shown.getByRole("button", { name: "Sign out" })]) {
        const box = await inSight.boundingBox();
        assert.ok(box.x >= 0 && box.x + box.width <= width, `${await inSight.textContent()} begins at ${box.x} of ${width} px`);
      }
      const { height } = await shown.locator("header.site").boundingBox();
      assert.ok(height <= 150, `the header is ${height} px tall`);
    }
  }
});

const PAGES = ["Overview", "Accounts", "Keys", "Bans", "Refusals", "Audit", "Operators"];

test("in a table no key breaks, no comma stands alone, and a window that has not begun has no end", async (t) => {
  const page = await console_(t, { options: NARROW_DESKTOP });
  await makeAccount(page, "idle");
  await page.goto("/console/accounts/idle");
  await page.getByText("This minute: 0 of 60 used, 60 left begins with the next request").waitFor();
  for (const path of ["/keys", "/accounts/idle", "/audit", "/bans"]) {
    await page.goto(`/console${path}`);
    await page.locator("h1").waitFor();
    const rows = await page.locator("code.whole").evaluateAll((all) => all.map((code) => code.getClientRects().length));
    assert.ok(rows.every((count) => count === 1), path);
    assert.doesNotMatch(await page.getByRole("main").innerText(), /(^|\n)\s*,|\s,/, path);
  }
});

// How many changes an event shows; the others unfold.
const SHOWN_CHANGES = 4;

test("at 390 px the audit log is cards no taller than the view, and they count what they fold", async (t) => {
  const page = await console_(t, { options: PHONE });
  await makeAccount(page, "audited");
  // A key with everything, each as long as it may be; and a rotation, which changes two keys.
  const addresses = Array.from({ length: 16 }, (_, index) => `2001:db8:${"ffff:".repeat(5)}${1000 + index}`);
  const whole = { label: "M".repeat(64), ttl: "86400s", access: "read", allowedAddresses: addresses };
  const { key } = await asks(page, "POST", "accounts/audited/keys", whole);
  await asks(page, "POST", `keys/${key.id}/rotate`, { grace: "3600s" });
  await asks(page, "POST", "accounts/audited/suspend", { reason: "W".repeat(200) });

  await page.goto("/console/audit?account=audited");
  const cards = page.locator("tbody tr");
  await cards.first().waitFor();
  await screenshot(page, "console-audit-cards", { fullPage: true });
  const seen = await cards.evaluateAll((all) => all.map((card) => {
    const cells = [...card.children].filter((each) => each.checkVisibility());
    const boxes = cells.map((each) => each.getBoundingClientRect());
    const isBelow = (box, above) => !above || (box.left === above.left && box.top >= above.bottom);
    const changes = [...card.querySelectorAll("li")];
    return {
      isStacked: boxes.every((box, index) => isBelow(box, boxes[index - 1])),
      height: card.getBoundingClientRect().height,
      what: card.querySelector("[data-label=What]").textContent,
      shown: changes.filter((each) => each.checkVisibility()).length,
      all: changes.length,
      folded: card.querySelector("summary")?.textContent ?? null,
    };
  }));
  const whats = ["Suspend account", "Rotate key", "Create key", "Create key", "Create account"];
  assert.deepEqual(seen.map(({ what }) => what), whats);
  for (const { isStacked, height, what, shown, all, folded } of seen) {
    assert.ok(isStacked, `${what}: its parts are one below the other`);
    assert.ok(height <= PHONE.viewport.height, `${what} is ${height} px tall`);
    assert.equal(shown, Math.min(all, SHOWN_CHANGES), what);
    assert.equal(folded, all > SHOWN_CHANGES ? `${all - SHOWN_CHANGES} more` : null, what);
  }
  assert.deepEqual(seen.map(({ all }) => all), [2, 9, 5, 1, 4]);

  const rotation = cards.nth(1);
  await rotation.getByText("5 more").click();
  assert.equal(await rotation.locator("li:visible").count(), 9);
});
