// Debian's Chromium, and pages in it that fail their test if anything goes wrong in the background.

import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

import { chromium } from "playwright-core";

// Without animations, because tests check the position after scrolling.
export const DESKTOP = { viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" };
export const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true, reducedMotion: "reduce" };

const SCREENSHOTS = resolve(process.env.CARGO_TARGET_DIR ?? "target", "browser");
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

// Each launch has a new profile in a temporary folder. Playwright turns off the back/forward cache of whole pages, which
// users' browsers have.
export function launch() {
  return chromium.launch({
    ignoreDefaultArgs: ["--disable-back-forward-cache"],
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    args: [
      "--no-sandbox", // tests run as root in containers, where Chromium's sandbox does not
      "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync",
    ],
  });
}

// A new page for one test. When the test ends, there must have been no script error, no violation of the content policy
// and no request to another host.
// Chromium also logs every response of 400 and above, which tests cause on purpose: `expected` matches what may be logged.
export async function openPage(t, browser, origin, { expected = /^Failed to load resource: the server responded with a status of 4/, ...options } = DESKTOP) {
  const context = await browser.newContext({ baseURL: origin, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(`script error: ${error}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !expected.test(message.text())) problems.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== origin) problems.push(`request to ${request.url()}`);
  });
  t.after(async () => {
    await context.close();
    assert.deepEqual(problems, []);
  });
  return page;
}

// Kept for inspection; under target/, so never committed.
export async function screenshot(page, name, options = {}) {
  await mkdir(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), animations: "disabled", ...options });
}

// Returns the serious and critical findings of axe-core on the page, in words.
export async function seriousFaults(page) {
  await page.evaluate(await readFile(AXE, "utf8"));
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, help, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${help}: ${target}: ${failureSummary}`));
}
