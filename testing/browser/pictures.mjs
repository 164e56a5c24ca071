// Makes the pictures of the pages, in light and dark. Each ends below a panel. The console shows the requests of an hour,
// written into the store.
//
// Usage, after testing/browser/run has installed what it needs:
//   node testing/browser/pictures.mjs            into docs/images
//   node testing/browser/pictures.mjs FOLDER     into a folder, and fails if the pictures of docs/images show something else

import { execFile } from "node:child_process";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { launch } from "./browser.mjs";
import { get } from "./console.mjs";
import { startService } from "./service.mjs";

const IMAGES = "docs/images";
const FOLDER = process.argv[2] ?? IMAGES;
const WIDTH = 1280;
const MARGIN = 20;
// Share of pixels that may differ between two pictures of one page: those of times and of a key's identifier. A word more in
// the navigation is above it.
const TOLERANCE = 0.002;

// An hour of three accounts. One of them exceeds its limit for ten minutes, and one minute has an outage.
const HOUR = `
import math, sqlite3, sys, time
store, now = sqlite3.connect(sys.argv[1], timeout=10), int(time.time() // 60)
for account, key in zip((2, 3, 4), sys.argv[2:]):
    for ago in range(1, 60):
        wave = 90 + 25 * math.sin(ago / 7 + account) + (ago * account * 7) % 13
        refused = int(wave * 0.8) if account == 3 and 12 <= ago <= 22 else 0
        failed = 9 if ago == 41 else 0
        row = (account, now - ago, key, int(wave) - refused // 2 - failed, (ago * account) % 6, refused, failed, 0)
        store.execute("INSERT INTO usage_minutes VALUES (?,?,?,?,?,?,?,?)", row)
        if refused:
            store.execute("INSERT INTO refusal_counts VALUES (?,1,?)", (now - ago, refused))
store.commit()
`;

const run = promisify(execFile);

async function fillConsole(service) {
  const second = new Date().getUTCSeconds();
  if (second > 25) await new Promise((done) => setTimeout(done, (60 - second) * 1_000)); // all pictures within one minute
  const keys = [];
  for (const [name, plan] of [["north-zoo", "business"], ["petshop-south", "free"], ["web-catalogue", "pro"]]) {
    await service.run("account", "create", name, "--plan", plan);
    keys.push((await service.run("key", "create", "--account", name)).stdout.trim());
  }
  const ids = JSON.parse((await service.run("key", "list", "--output", "json")).stdout).keys;
  const idOf = (key) => ids.find(({ lastFour }) => key.endsWith(lastFour)).id;
  await run("python3", ["-c", HOUR, join(service.folder, "data/petstore.db"), ...keys.map(idOf)]);
  const spare = (await service.run("key", "create", "--account", "petshop-south")).stdout.trim();
  const listed = JSON.parse((await service.run("key", "list", "--account", "petshop-south", "--output", "json")).stdout).keys;
  const banned = listed.find(({ lastFour }) => spare.endsWith(lastFour)).id;
  await service.run("ban", "add", banned, "--for", "2h", "--reason", "runs in a loop");
  for (let request = 0; request < 90; request++) await get(service.origin, keys[1]);
  for (let request = 0; request < 200; request++) await get(service.origin, keys[0], "/v1/pets?limit=50");
  for (let request = 0; request < 12; request++) await get(service.origin, `pet_live_${"0".repeat(36)}`);
  await new Promise((done) => setTimeout(done, 7_000)); // a gateway reports usage every 5 seconds
}

// Shows the port that readers have instead of the one of this run. Runs in the page.
function showDefaultPort(port) {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replace(`:${port}/`, ":8080/");
}

// Saves the page, from its top to below a panel.
const SAVED = [];
async function save(page, name, panel) {
  SAVED.push(name);
  const box = await panel.boundingBox();
  const height = Math.ceil(box.y + box.height) + MARGIN;
  await page.setViewportSize({ width: WIDTH, height });
  await page.screenshot({ path: join(FOLDER, `${name}.png`), animations: "disabled", clip: { x: 0, y: 0, width: WIDTH, height } });
}

// Returns the share of pixels in which two PNG files differ visibly, 1 if they differ in size. Runs in a page.
async function difference(files) {
  const [a, b] = await Promise.all(files.map(async (base64) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${base64}`)).blob());
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  }));
  if (a.width !== b.width || a.height !== b.height) return 1;
  let different = 0;
  for (let at = 0; at < a.data.length; at += 4) {
    different += [0, 1, 2].some((color) => Math.abs(a.data[at + color] - b.data[at + color]) > 32);
  }
  return different / (a.width * a.height);
}

// Fails if a picture shows something else than the one of docs/images.
async function compare(page, name) {
  const files = [IMAGES, FOLDER].map((folder) => readFile(join(folder, `${name}.png`), "base64"));
  const share = await page.evaluate(difference, await Promise.all(files));
  console.log(`${name}: ${(share * 100).toFixed(2)} % of the pixels differ`);
  if (share > TOLERANCE) {
    console.error(`error: ${FOLDER}/${name}.png shows something else than ${IMAGES}/${name}.png: look, and copy it there`);
    process.exitCode = 1;
  }
}

await mkdir(FOLDER, { recursive: true });
const service = await startService();
const browser = await launch();
try {
  await fillConsole(service);
  for (const colorScheme of ["light", "dark"]) {
    const options = { viewport: { width: WIDTH, height: 2000 }, reducedMotion: "reduce", colorScheme };
    const overview = await (await browser.newContext({ baseURL: service.admin, ...options })).newPage();
    await overview.goto("/console");
    await overview.getByLabel("Operator token").fill(service.operatorToken);
    await overview.getByRole("button", { name: "Sign in" }).click();
    await overview.getByRole("heading", { name: "Bans in force" }).waitFor();
    await save(overview, `operator-console-${colorScheme}`, overview.locator(".panels"));

    const docs = await (await browser.newContext({ baseURL: service.origin, ...options })).newPage();
    await docs.goto("/docs");
    await docs.locator("article.operation").first().waitFor();
    await docs.evaluate(showDefaultPort, new URL(service.origin).port);
    const first = docs.getByRole("heading", { name: "Your first call" });
    await save(docs, `documentation-page-${colorScheme}`, docs.locator("section, .panel").filter({ has: first }).last());
  }
  const page = await browser.newPage();
  for (const name of FOLDER === IMAGES ? [] : SAVED) await compare(page, name);
} finally {
  await browser.close();
  await service.stop();
}
