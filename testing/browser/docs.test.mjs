// The documentation page as its readers use it: in a browser, against the running service.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP, PHONE, launch, openPage, screenshot, seriousFaults } from "./browser.mjs";
import { startService } from "./service.mjs";

const RATE_HEADERS = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];
const LARGEST = "9223372036854775807"; // of int64; a double would make it …6000

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

// The page, loaded, with the key pasted.
async function docs(t, options) {
  const page = await openPage(t, browser, service.origin, options);
  await page.goto("/docs");
  await page.locator("article.operation").first().waitFor();
  await page.getByLabel("API key").fill(service.key);
  return page;
}

// Sends the form in `part` and returns its answer: status, header fields and the body's text.
async function send(part) {
  const answer = part.locator(".answer");
  await part.locator("form").evaluate((form) => form.querySelector(".answer").replaceChildren());
  await part.locator("button[type=submit]").click();
  return read(answer);
}

async function read(answer) {
  await answer.locator(".status").waitFor();
  const names = await answer.locator("dt").allTextContents();
  const values = await answer.locator("dd").evaluateAll((nodes) => nodes.map((node) => node.firstChild.textContent));
  return {
    status: await answer.locator(".badge").textContent(),
    headers: Object.fromEntries(names.map((name, index) => [name, values[index]])),
    body: await answer.locator("pre").textContent(),
  };
}

function assertRateHeaders({ headers }, limit) {
  for (const name of [...RATE_HEADERS, "RateLimit", "RateLimit-Policy", "X-Request-Id"]) assert.ok(headers[name], `${name} is missing`);
  assert.equal(headers["X-RateLimit-Limit"], limit);
  assert.match(headers["X-RateLimit-Remaining"], /^\d+$/);
  assert.ok(Number(headers["X-RateLimit-Reset"]) > 1_700_000_000);
}

test("a newcomer makes an authenticated call with nothing but the page", async (t) => {
  const page = await openPage(t, browser, service.origin);
  await page.goto("/docs");
  const first = page.getByRole("region", { name: "Your first call" });
  await first.getByText("Ask the operator of this service for a key").waitFor();
  await first.getByLabel("API key").fill(service.key);
  await first.getByText("Ready.").waitFor();
  const answer = await send(first);
  assert.equal(answer.status, "200 OK");
  assertRateHeaders(answer, "60");
  assert.equal(answer.body, "[]");
  await first.getByRole("meter", { name: "Requests left this minute" }).waitFor();
  await screenshot(page, "first-call");
});

test("without JavaScript the page lists every operation with its parameters and errors", async (t) => {
  const page = await openPage(t, browser, service.origin, { ...DESKTOP, javaScriptEnabled: false });
  await page.goto("/docs");
  for (const id of ["listPets", "createPet", "getPet", "listOrders", "getUsage"]) {
    const operation = page.locator(`section#${id}`);
    await operation.getByText("RATE_LIMITED").first().waitFor();
  }
  await screenshot(page, "without-javascript", { fullPage: true });
});

test("the search box finds pages, operations and data types", async (t) => {
  const page = await openPage(t, browser, service.origin);
  await page.goto("/docs/paging");
  const box = page.getByRole("searchbox", { name: "Search the documentation" });
  const found = page.getByRole("search").getByRole("link");
  for (const [words, title, path] of [
    ["rate_limited", "RATE_LIMITED page", "/docs/errors/RATE_LIMITED"],
    ["lost answer", "Idempotency page", "/docs/idempotency"],
    ["listorders", "List orders operation", "/docs#listOrders"],
    ["usagewindow", "UsageWindow data type", "/docs#UsageWindow"],
    ["grpc reflection", "gRPC page", "/docs/grpc"],
    ["deleting pets", "What the API cannot do page", "/docs/what-the-api-cannot-do"],
    ["rotate a key", "operation", null],
  ]) {
    await box.fill(words);
    const link = found.filter({ hasText: title }).first();
    if (path === null) await link.waitFor();
    else assert.equal(await link.evaluate(({ pathname, hash }) => pathname + hash), path, words);
  }
  assert.deepEqual(await seriousFaults(page), []);
  await screenshot(page, "search");
  await box.fill("quagga");
  await page.getByText("No results").waitFor();
  await box.fill("rate_limited 429");
  await box.press("Enter");
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.waitForURL(/\/docs\//);
});

const WIDTHS = [320, 360, 390, 430, 600, 768, 820, 900, 1024, 1025, 1100, 1280, 1366, 1440];

test("what the search finds is in sight at every width, and the header has no row for one control alone", async (t) => {
  const page = await openPage(t, browser, service.origin);
  for (const path of ["/docs/paging", "/docs/errors/RATE_LIMITED", "/docs"]) {
    await page.goto(path);
    const box = page.getByRole("searchbox", { name: "Search the documentation" });
    await box.fill("delete a pet");
    await page.locator("#found a", { hasText: "What the API cannot do" }).waitFor();
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 800 });
      const { left, right, boxes } = await page.evaluate(() => {
        const { left, right } = document.getElementById("found").getBoundingClientRect();
        const parts = document.querySelectorAll(".brand img, .site nav, #search input, #theme select");
        return { left, right, boxes: [...parts].map((part) => part.getBoundingClientRect().toJSON()) };
      });
      assert.ok(left >= 0 && right <= width, `${path} at ${width} px: the results are from ${left} to ${right}`);
      const [brand, nav, search, theme] = boxes.map(({ top, bottom }) => (top + bottom) / 2);
      const isBeside = (part) => Math.abs(part - brand) <= 6;
      assert.ok(isBeside(search) && isBeside(theme), `${path} at ${width} px: a control is alone in its row`);
      assert.equal(isBeside(nav), width > 1024, `${path} at ${width} px`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} at ${width} px scrolls sideways`);
    }
    await page.setViewportSize({ width: 390, height: 800 });
    await screenshot(page, "search-on-a-phone");
  }
});

test("the key is kept nowhere but in the memory of the page", async (t) => {
  const page = await docs(t);
  await send(page.locator("#first-call"));
  const traces = await page.evaluate(async () => [
    document.documentElement.outerHTML,
    location.href,
    document.cookie,
    JSON.stringify(Object.entries(localStorage)),
    JSON.stringify(Object.entries(sessionStorage)),
    JSON.stringify(await indexedDB.databases()),
    JSON.stringify(history.state),
  ]);
  for (const trace of traces) assert.ok(!trace.includes(service.key), trace.slice(0, 200));
  assert.deepEqual(await page.context().cookies(), []);
  assert.match(traces[0], /Authorization: Bearer \$PETSTORE_API_KEY/);
  await page.reload();
  await page.locator("article.operation").first().waitFor();
  assert.equal(await page.getByLabel("API key").inputValue(), "");
});

for (const [size, options] of Object.entries({ desktop: DESKTOP, phone: { ...PHONE, colorScheme: "dark" } })) {
  test(`every operation can be tried at ${size} size`, async (t) => {
    const page = await docs(t, options);
    const described = await page.evaluate(async () => {
      const { paths } = await (await fetch("/openapi.json")).json();
      return Object.values(paths).flatMap((item) => Object.values(item).map(({ operationId }) => operationId));
    });
    const shown = await page.locator("article.operation").evaluateAll((nodes) => nodes.map(({ id }) => id));
    assert.deepEqual(shown, described);

    // Required fields are prefilled with an example, so every form can be sent as it is. Pets come first.
    const creating = shown.filter((id) => id === "createPet");
    for (const id of [...creating, ...shown.filter((id) => id !== "createPet")]) {
      const operation = page.locator(`#${id}`);
      const answer = await send(operation);
      assert.match(answer.status, /^20[01] /, id);
      assertRateHeaders(answer, "60");
      assert.match(await operation.locator(".stability").first().textContent(), /^(stable|beta|experimental|deprecated)$/);
    }
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page scrolls sideways");
    await screenshot(page, `operations-${size}`, { fullPage: true });
  });
}

test("64-bit integers are sent and shown exactly", async (t) => {
  const page = await docs(t);
  const create = page.locator("#createPet");
  await create.getByRole("textbox", { name: "Body" }).fill(`{"name":"O'Neill","categoryId":${LARGEST}}`);
  const answer = await send(create);
  assert.equal(answer.status, "201 Created");
  assert.match(answer.body, new RegExp(`"categoryId": ${LARGEST}\\b`));
  assert.match(answer.headers.Location, /^\/v1\/pets\/\d+$/);
  assert.match(await create.locator("[data-language=curl] code").textContent(), /--data-raw '\{"name":"O'\\''Neill"/);
});

test("the next page is a press away", async (t) => {
  const page = await docs(t);
  const list = page.locator("#listPets");
  for (let pets = 0; pets < 2; pets++) await send(page.locator("#createPet"));
  await list.getByLabel("limit").fill("1");
  const first = await send(list);
  assert.match(first.headers.Link, /rel="next"/);
  await list.getByRole("button", { name: "Next page" }).click();
  await page.waitForFunction((body) => document.querySelector("#listPets .answer pre").textContent !== body, first.body);
  const second = await read(list.locator(".answer"));
  assert.equal(second.status, "200 OK");
  assert.match(await list.locator("[data-language=curl] code").textContent(), /limit=1&cursor=/);
});

test("the deprecated operation says until when and what replaces it", async (t) => {
  const page = await docs(t);
  const notice = await page.locator("#getPet").getByRole("complementary", { name: "Deprecation" }).textContent();
  assert.match(notice, /removed on 5 December 2030/);
  assert.match(notice, /GET \/v1\/pets\?status=available/);
  const answer = await send(page.locator("#getPet"));
  assert.equal(answer.headers.Sunset, "Thu, 05 Dec 2030 00:00:00 GMT");
  assert.equal(answer.headers.Deprecation, "@1764892800");
});

test("what an operation answers is described, and every operation leads there", async (t) => {
  const page = await docs(t);
  for (const [id, type] of [["listPets", "Pet"], ["createPet", "Pet"], ["getPet", "Pet"], ["listOrders", "Order"], ["getUsage", "Usage"]]) {
    const link = page.locator(`#${id} .response[open]`).getByRole("link", { name: type, exact: true });
    assert.equal(await link.getAttribute("href"), `#${type}`);
  }
  await page.locator("#common-errors .response").first().locator("summary").click();
  await page.locator("#common-errors").getByRole("link", { name: "Error", exact: true }).first().click();
  const described = await page.evaluate(async () => (await (await fetch("/openapi.json")).json()).components.schemas);
  for (const type of ["Pet", "Order", "Usage", "UsageWindow", "UsageDay", "Error"]) {
    const text = await page.locator(`#${type}`).textContent();
    assert.ok(text.includes(described[type].description), type);
    for (const [member, { description }] of Object.entries(described[type].properties)) {
      assert.ok(text.includes(member) && text.includes((description ?? "").replaceAll("`", "")), `${member} of ${type}`);
    }
  }
  assert.match(await page.locator("#UsageDay").textContent(), /succeeded.*integer.*Success/s);
});

test("an error that every operation may answer is described once", async (t) => {
  const page = await docs(t);
  for (const status of ["401", "429", "503"]) {
    assert.equal(await page.locator("#common-errors summary", { hasText: status }).count(), 1);
    assert.equal(await page.locator("article.operation summary", { hasText: status }).count(), 0);
  }
  assert.equal(await page.locator("#common-errors .response[open]").count(), 0);
  await page.locator("#listOrders").getByRole("link", { name: "common errors" }).click();
  assert.match(page.url(), /#common-errors$/);
});

test("the navigation marks where the reader is, and headings have addresses", async (t) => {
  const page = await docs(t);
  const marked = () => page.locator(".contents [aria-current=location]").allTextContents();
  assert.deepEqual(await marked(), ["Your first call"]);
  for (const id of ["getPet", "Order", "plans"]) {
    const link = page.locator(`.contents a[href="#${id}"]`);
    const entry = await link.textContent();
    await link.click();
    await page.waitForFunction((text) => document.querySelector(".contents [aria-current]").textContent === text, entry);
    assert.deepEqual(await marked(), [entry]);
  }
  await page.getByRole("link", { name: "Unknown input" }).last().click();
  assert.match(page.url(), /#unknown-input$/);
  await page.goto("/docs#Order");
  await page.locator("#Order").waitFor();
  await page.waitForFunction(() => Math.abs(document.getElementById("Order").getBoundingClientRect().top) < 60);
});

for (const [size, options, isFirst] of [["a phone", PHONE, true], ["a desktop", DESKTOP, false]]) {
  test(`on ${size} trying comes ${isFirst ? "before" : "beside"} the reference`, async (t) => {
    const page = await docs(t, options);
    const [trial, reference] = [await page.locator("#listPets .trial").boundingBox(), await page.locator("#listPets .reference").boundingBox()];
    if (isFirst) assert.ok(trial.y + trial.height <= reference.y);
    else assert.ok(trial.x >= reference.x + reference.width);
  });
}

test("the theme is the system's until the reader chooses one, and the choice stays", async (t) => {
  const page = await openPage(t, browser, service.origin, { ...DESKTOP, colorScheme: "dark" });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.goto("/docs");
  const dark = await ground();
  await page.getByLabel("Theme").selectOption("light");
  const light = await ground();
  assert.notEqual(light, dark);
  for (const path of ["/docs/errors", "/docs/limits"]) {
    await page.goto(path);
    assert.equal(await ground(), light, path);
    assert.equal(await page.getByLabel("Theme").inputValue(), "light");
  }
  await page.getByLabel("Theme").selectOption("system");
  assert.equal(await ground(), dark);
  assert.equal(await page.evaluate(() => localStorage.length), 0);
});

test("a browser that keeps nothing can still switch the theme", async (t) => {
  const page = await openPage(t, browser, service.origin);
  await page.addInitScript(() => {
    Object.defineProperty(window, "localStorage", { get: () => { throw new DOMException("blocked", "SecurityError"); } });
  });
  await page.goto("/docs/paging");
  await page.getByLabel("Theme").selectOption("dark");
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "dark");
});

test("a press makes an Idempotency-Key, and a second addition with it adds nothing", async (t) => {
  const page = await docs(t);
  const create = page.locator("#createPet");
  await create.getByRole("button", { name: "Generate" }).click();
  const key = await create.getByLabel("Idempotency-Key", { exact: true }).inputValue();
  assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  const first = await send(create);
  assert.equal(first.status, "201 Created");
  const second = await send(create);
  assert.equal(second.headers["Idempotency-Replayed"], "true");
  assert.equal(second.body, first.body);
  await create.getByRole("button", { name: "Generate" }).click();
  assert.notEqual(await create.getByLabel("Idempotency-Key", { exact: true }).inputValue(), key);
});

test("the language of programs is chosen once for the page", async (t) => {
  const page = await docs(t);
  const shown = (id) => page.locator(`#${id} .sample pre:visible`).evaluateAll((nodes) => nodes.map((node) => node.dataset.language));
  assert.deepEqual(await shown("createPet"), ["curl"]);
  await page.locator("#listPets").getByRole("radio", { name: "Go" }).check();
  for (const id of ["listPets", "createPet", "getUsage", "first-call"]) assert.deepEqual(await shown(id), ["go"], id);
  await page.goto("/docs/paging");
  await page.getByRole("radio", { name: "Python" }).check();
  assert.deepEqual(await page.locator(".sample pre:visible").evaluateAll((nodes) => nodes.map((node) => node.dataset.language)), ["python"]);
});

test("faults are answered, shown and explained", async (t) => {
  const page = await docs(t);
  await page.locator("#listPets").getByLabel("limit").fill("0");
  const refused = await send(page.locator("#listPets"));
  assert.equal(refused.status, "400 Bad Request");
  assert.match(refused.body, /"code": "INVALID_PARAMETER"/);
  await page.getByRole("button", { name: "Forget" }).click();
  const stranger = await send(page.locator("#first-call"));
  assert.equal(stranger.status, "401 Unauthorized");
  assertRateHeaders(stranger, "600");
  assert.match(stranger.headers["WWW-Authenticate"], /^Bearer/);
  await page.locator("#first-call").getByRole("link", { name: "What MISSING_API_KEY means" }).click();
  await page.waitForURL("**/docs/errors/MISSING_API_KEY");
  assert.equal(await page.locator("h1").textContent(), "MISSING_API_KEY");
});

test("the keyboard is enough", async (t) => {
  const page = await openPage(t, browser, service.origin);
  await page.goto("/docs");
  await page.locator("article.operation").first().waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await page.locator(":focus").textContent(), "Skip to the content");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  assert.equal(await page.locator(":focus").getAttribute("id"), "api-key");
  await page.keyboard.type(service.key);
  const reached = async () => page.locator("#first-call button[type=submit]").evaluate((button) => button === document.activeElement);
  for (let presses = 0; presses < 5 && !(await reached()); presses++) await page.keyboard.press("Tab");
  assert.notEqual(await page.locator(":focus").evaluate((node) => getComputedStyle(node).outlineStyle), "none");
  await page.keyboard.press("Enter");
  assert.equal((await read(page.locator("#first-call .answer"))).status, "200 OK");
});

for (const colorScheme of ["light", "dark"]) {
  test(`axe-core finds nothing serious in the ${colorScheme} scheme`, async (t) => {
    const page = await docs(t, { ...(colorScheme === "light" ? DESKTOP : PHONE), colorScheme });
    await send(page.locator("#listPets"));
    await page.locator("#getPet-petId").fill("999999");
    await send(page.locator("#getPet"));
    await page.locator("details").evaluateAll((nodes) => nodes.forEach((node) => (node.open = true)));
    assert.deepEqual(await seriousFaults(page), []);
    for (const path of ["/docs/limits", "/docs/paging", "/docs/idempotency", "/docs/clients", "/docs/grpc", "/docs/errors", "/docs/errors/RATE_LIMITED", "/docs/errors/NO_SUCH_CODE"]) {
      await page.goto(path);
      assert.deepEqual(await seriousFaults(page), [], path);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${path} scrolls sideways`);
      await screenshot(page, `${path.split("/").at(-1)}-${colorScheme}`, { fullPage: true });
    }
  });
}

// The last test, because it uses up the quota that the others need.
test("after the sixtieth request of a minute the page shows 429, explains the wait and keeps to it", async (t) => {
  const page = await docs(t);
  const list = page.locator("#listPets");
  let answer;
  // Twice the limit: the window may end on the way. Once more if it ends before the page can be looked at.
  for (let windows = 0; windows < 3 && !(answer?.headers["Retry-After"] >= 15); windows++) {
    if (answer) await new Promise((done) => setTimeout(done, (Number(answer.headers["Retry-After"]) + 1) * 1_000));
    answer = await send(list);
    for (let requests = 0; requests <= 120 && !answer.status.startsWith("429"); requests++) answer = await send(list);
  }
  assert.equal(answer.status, "429 Too Many Requests");
  assertRateHeaders(answer, "60");
  assert.equal(answer.headers["X-RateLimit-Remaining"], "0");
  const wait = Number(answer.headers["Retry-After"]);
  assert.ok(wait >= 1 && wait <= 60, answer.headers["Retry-After"]);
  await list.getByText(`Wait ${wait} s`, { exact: true }).first().waitFor();
  const button = list.locator("button[type=submit]");
  assert.match(await button.textContent(), /^Wait \d+ s$/);
  await screenshot(page, "rate-limited", { fullPage: true });

  const sent = [];
  page.on("request", (request) => sent.push(request.url()));
  // A button with aria-disabled can only be clicked with `force`.
  await button.click({ force: true });
  await page.locator("#createPet button[type=submit]").click({ force: true });
  assert.deepEqual(sent, []);

  await list.getByRole("link", { name: "What RATE_LIMITED means" }).click();
  await page.waitForURL("**/docs/errors/RATE_LIMITED");
  await page.getByRole("heading", { name: "What to do" }).waitFor();
  assert.match(await page.locator("main").textContent(), /Retry-After/);
});
