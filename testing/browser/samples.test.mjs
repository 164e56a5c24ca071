// The programs of the documentation: each does what the page says, in every language.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

import { ApiDocument } from "../../rest-gateway/src/docs/assets/document.mjs";
import { requestOf } from "../../rest-gateway/src/docs/assets/request.mjs";
import { LANGUAGES } from "../../rest-gateway/src/docs/assets/samples.mjs";
import { startService } from "./service.mjs";

const run = promisify(execFile);
const PAGES = new URL("../../rest-gateway/src/docs/samples/", import.meta.url);
const EXTENSIONS = { curl: "sh", python: "py", javascript: "mjs", go: "go" };
const INTERPRETERS = { curl: "sh", python: "python3", javascript: "node" };

let service;
let api;
let folder;
before(async () => {
  service = await startService();
  folder = await mkdtemp(join(tmpdir(), "petstore-samples-"));
  await writeFile(join(folder, "go.mod"), "module samples\n\ngo 1.19\n");
  await service.run("account", "set-plan", "first", "--plan", "business");
  const pets = Array.from({ length: 150 }, (_, index) => JSON.stringify({ name: `Pet ${index}.`, categoryId: 1, status: "available" }));
  await writeFile(join(folder, "pets.ndjson"), pets.join("\n"));
  await service.run("import", join(folder, "pets.ndjson"));
  globalThis.location = { origin: service.origin };
  api = new ApiDocument(await (await fetch(`${service.origin}/openapi.json`)).json(), "/v1");
});
after(async () => {
  await service?.stop();
  await rm(folder, { recursive: true, force: true });
});

const environment = (origin) => ({
  ...process.env,
  PETSTORE_URL: `${origin}/v1`,
  PETSTORE_API_KEY: service.key,
  GOCACHE: resolve(process.env.CARGO_TARGET_DIR ?? "target", "go-cache"),
  GO111MODULE: "on",
  GOFLAGS: "-mod=mod",
});

// Returns a function that runs a program. Go programs are vetted, and must be formatted by gofmt.
async function prepared(language, program, name) {
  const options = (origin) => ({ cwd: folder, env: environment(origin), timeout: 60_000 });
  if (language !== "go") {
    const file = `${name}.${EXTENSIONS[language]}`;
    await writeFile(join(folder, file), program);
    return (origin) => run(INTERPRETERS[language], [file], options(origin));
  }
  await mkdir(join(folder, name));
  await writeFile(join(folder, name, "main.go"), program + "\n");
  assert.equal((await run("gofmt", ["-l", name], options(""))).stdout, "", `${name} is not formatted`);
  await run("go", ["vet", `./${name}`], options(""));
  await run("go", ["build", "-o", `${name}/program`, `./${name}`], options(""));
  return (origin) => run(join(folder, name, "program"), [], options(origin));
}

// Returns the output of a program.
const output = async (language, program, name, origin) => (await (await prepared(language, program, name))(origin)).stdout;

// The request that the form of an operation sends if nothing is changed in it.
function prefilled(operation) {
  const values = Object.fromEntries(operation.parameters.map(({ name, example }) => [name, example === undefined ? "" : String(example)]));
  return requestOf(operation, values, operation.body ? JSON.stringify(operation.body.examples[0][1], null, 2) : undefined);
}

for (const [language, title, programOf] of LANGUAGES) {
  test(`${title}: the program of every operation is answered as the operation says`, async () => {
    const operations = api.operations();
    assert.ok(operations.length >= 5);
    for (const operation of operations) {
      const program = programOf(prefilled(operation), service.origin);
      assert.ok(!program.includes(service.key));
      const printed = await output(language, program, `of-${operation.id}`, service.origin);
      assert.match(printed, operation.method === "POST" ? /\b201\b/ : /\b200\b/, `${operation.id}: ${printed}`);
      assert.match(printed, /[[{]/, operation.id);
    }
  });

  test(`${title}: whatever a field holds is sent as it is`, async (t) => {
    const received = [];
    const origin = await stub(t, (request, response) => {
      received.push(request);
      response.end("{}");
    });
    const body = '{"name":"O\'Neill \\"$HOME\\" `id` %s \\\\ \u2028\u0007 🐈",\n\t"categoryId": 9223372036854775807}';
    const headers = { "Content-Type": "application/json", "Idempotency-Key": `a'b"c$d\`e\\f!%41` };
    await output(language, programOf({ method: "POST", path: "/v1/pets?limit=1&cursor=a%26b", headers, body }, origin), "hostile", origin);
    const [{ method, url, headers: fields, text }] = received;
    assert.equal(received.length, 1);
    assert.deepEqual([method, url, text], ["POST", "/v1/pets?limit=1&cursor=a%26b", body]);
    assert.equal(fields["idempotency-key"], headers["Idempotency-Key"]);
    assert.equal(fields["content-type"], "application/json");
    assert.equal(fields.authorization, `Bearer ${service.key}`);
  });

  test(`${title}: the page about paging reads a whole list`, async () => {
    const printed = await output(language, await page("paging", language), "paging", service.origin);
    for (let pet = 0; pet < 150; pet++) assert.equal(printed.split(`Pet ${pet}.`).length, 2, `Pet ${pet} is not there once`);
  });

  test(`${title}: the page about idempotency sends the same key until there is an answer`, async (t) => {
    const program = await page("idempotency", language);
    assert.match(await output(language, program, "idempotency", service.origin), /"name":\s*"Rex"/);
    const keys = [];
    const origin = await stub(t, (request, response) => {
      keys.push(request.headers["idempotency-key"]);
      if (keys.length === 1) return response.socket.destroy(); // the answer is lost
      if (keys.length === 2) return response.writeHead(503).end("{}");
      if (keys.length === 3) return response.writeHead(409, { "Retry-After": "1" }).end("{}"); // the first is in progress
      response.writeHead(201).end('{"id":1}');
    });
    assert.match(await output(language, program, "idempotency-lost", origin), /"id":1/);
    assert.equal(keys.length, 4);
    assert.equal(new Set(keys).size, 1);
    assert.match(keys[0], /^[!-~]{16,255}$/);
  });

  test(`${title}: the page about backoff waits as long as it is told`, async (t) => {
    const program = await page("backoff", language);
    assert.match(await output(language, program, "backoff", service.origin), /Pet 0/);
    const times = [];
    const origin = await stub(t, (request, response) => {
      times.push(performance.now());
      if (times.length === 1) return response.writeHead(429, { "Retry-After": "2" }).end("{}");
      if (times.length === 2) return response.writeHead(500).end("{}");
      if (times.length === 5) return response.end("[]");
      if (times.length === 3) return response.socket.destroy(); // no answer
      response.writeHead(200, { "Content-Length": "100" }).write("["); // half of one
      setTimeout(() => response.socket.destroy(), 50);
    });
    assert.match(await output(language, program, "backoff-told", origin), /\[\]/);
    assert.equal(times.length, 5);
    assert.ok(times[1] - times[0] >= 1990, `it came again after ${times[1] - times[0]} ms`);
  });

  for (const name of ["backoff", "idempotency", "paging"]) {
    test(`${title}: the page about ${name} repeats what may pass, as often as it says, and nothing else`, async (t) => {
      const quick = withoutSleep(language, await page(name, language));
      const program = await prepared(language, quick, `${name}-of-each-status`);
      for (const [status, retryAfter, mayPass] of RESPONSES) {
        const what = `${status}${retryAfter ? ` with Retry-After: ${retryAfter}` : ""}`;
        let requests = 0;
        const origin = await stub(t, (request, response) => {
          requests += 1;
          if (status === 0) return response.socket.destroy();
          response.writeHead(status, retryAfter && { "Retry-After": String(retryAfter) }).end('{"code":"X"}');
        });
        const { stderr } = await program(origin).then(() => assert.fail(`${what}: it succeeded`), (error) => error);
        const sleeps = [...stderr.matchAll(/slept ([\d.]+)/g)].map(([, seconds]) => Number(seconds));
        const repeats = mayPass && name !== "paging" ? 5 : 0;
        assert.equal(requests, 1 + repeats, what);
        assert.equal(sleeps.length, repeats, what);
        for (const [index, slept] of sleeps.entries()) {
          const least = Math.max(2 ** index, retryAfter ?? 0);
          assert.ok(slept >= least && slept <= least + 1, `${what}: pause ${index + 1} is ${slept} s`);
        }
      }
    });
  }

  test(`${title}: the program of an operation sends one request, whatever the status`, async (t) => {
    const operation = api.operations().find(({ id }) => id === "listPets");
    for (const [status, retryAfter] of [[400], [429, 1], [503, 1], [0]]) {
      let requests = 0;
      const origin = await stub(t, (request, response) => {
        requests += 1;
        if (status === 0) return response.socket.destroy();
        response.writeHead(status, retryAfter && { "Retry-After": String(retryAfter) }).end("{}");
      });
      const program = await prepared(language, programOf(prefilled(operation), origin), `operation-${status}-${retryAfter}`);
      await program(origin).catch(() => {});
      assert.equal(requests, 1, `${status}`);
    }
  });
}

// Failures: status (0 is a connection that breaks), Retry-After, and whether the same request may pass a little later.
const RESPONSES = [
  [400], [401], [403], [404], [409], [410], [413], [415], [422], [429], [501],
  [408, null, true], [500, null, true], [502, null, true], [503, null, true], [504, null, true], [0, null, true],
  [409, 1, true], [429, 3, true], [503, 7, true], [429, 120, true],
  [429, 121], [429, 26_000], [503, 26_000],
];

// Returns the program with words in place of its pauses.
function withoutSleep(language, program) {
  const [pause, words] = {
    curl: [/sleep (".*")$/m, "echo slept $1 >&2"],
    python: [/time\.sleep\((.*)\)$/m, 'print("slept", $1, file=sys.stderr)'],
    javascript: [/await wait\(1000 \* (.*)\);$/m, 'console.error("slept", $1);'],
    go: [/time\.Sleep\((.*)\)$/m, 'log.Println("slept", ($1).Seconds())'],
  }[language];
  return program.replace(pause, words);
}

function page(name, language) {
  return readFile(new URL(`${name}.${EXTENSIONS[language]}`, PAGES), "utf8").then((text) => text.trimEnd());
}

// A server that answers as the test says; its requests have their body as `text`.
async function stub(t, answer) {
  const server = createServer(async (request, response) => {
    const chunks = await request.toArray();
    request.text = Buffer.concat(chunks).toString();
    answer(request, response);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}
