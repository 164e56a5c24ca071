// Starts a split deployment for the tests: PostgreSQL, Redis, a core, two gateways, and in front of them HAProxy with the
// file of deploy/, which alternates between the gateways with every request to their admin ports.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { freePort, startPostgres } from "./postgres.mjs";
import { start, stop } from "./process.mjs";
import { ANY_PORT, BINARY } from "./service.mjs";

const run = promisify(execFile);
const SERVES = /^(?:REST +(?<rest>http:\/\/\S+)\/v1$[\s\S]*)?(?:^gRPC +(?<grpc>\S+)$[\s\S]*)?^admin +(?<admin>http:\/\/\S+)$/m;

// Like `startService`: `admin` is the proxy, `origin` the first gateway, and there is no first key.
export async function startDeployment() {
  const folder = await mkdtemp(join(tmpdir(), "petstore-split-"));
  const ends = [() => rm(folder, { recursive: true, force: true })];
  const end = async () => {
    for (const each of ends.reverse()) await each();
  };
  const startHere = async (program, args, until) => {
    const { child, match } = await start(program, args, { cwd: folder, until });
    ends.push(() => stop(child));
    return match.groups ?? {};
  };
  try {
    const { url: database, stop: stopDatabase } = await startPostgres(folder);
    ends.push(stopDatabase);
    const redisPort = await freePort();
    await startHere("redis-server", ["--port", redisPort, "--bind", "127.0.0.1", "--save", "", "--dir", folder], /Ready to accept connections/);
    const core = await startHere(BINARY, ["core", "--database-url", database, "--grpc-addr", ANY_PORT, "--admin-addr", ANY_PORT], SERVES);
    const petstore = (...command) => run(BINARY, [...command, "--database-url", database], { cwd: folder });
    const operator = JSON.parse((await petstore("operator", "create", "first", "--role", "admin", "--output", "json")).stdout);
    const gateways = [];
    for (let count = 0; count < 2; count++) {
      const flags = ["--core-url", `http://${core.grpc}`, "--redis-url", `redis://127.0.0.1:${redisPort}`, "--gateways", "2", "--trusted-proxy", "127.0.0.1"];
      gateways.push(await startHere(BINARY, ["gateway", ...flags, "--http-addr", ANY_PORT, "--admin-addr", ANY_PORT], SERVES));
    }
    for (const { admin } of [core, ...gateways]) await ready(admin);
    const admin = await startProxy(folder, core, gateways, startHere);
    const origins = gateways.map(({ rest }) => rest);
    return { origin: origins[0], origins, admin, operatorToken: operator.token, folder, run: petstore, stop: end };
  } catch (error) {
    await end();
    throw error;
  }
}

// A gateway listens before it has reached the core, and the core before its store has answered.
async function ready(admin) {
  while (!(await fetch(`${admin}/readyz`)).ok) await new Promise((done) => setTimeout(done, 50));
}

// Starts HAProxy with the shipped file, in which only names and ports are replaced. Returns the address of its admin port.
async function startProxy(folder, core, gateways, startHere) {
  const port = (address) => new URL(address.includes("//") ? address : `http://${address}`).port;
  let file = await readFile(new URL("../../deploy/compose/haproxy.cfg", import.meta.url), "utf8");
  const replace = (pattern, replacement) => {
    const replaced = file.replaceAll(pattern, replacement);
    assert.notEqual(replaced, file, `haproxy.cfg has no ${pattern}`);
    file = replaced;
  };
  replace("parse-resolv-conf", "nameserver none 127.0.0.1:53"); // addresses need none
  const binds = {};
  for (const bound of [8080, 9090, 50051]) replace(`bind :${bound}`, `bind 127.0.0.1:${(binds[bound] = await freePort())}`);
  for (const [index, { rest, admin }] of gateways.entries()) {
    const name = `gateway-${index + 1}`;
    for (const [named, actual] of [[8080, rest], [9090, admin]]) {
      replace(`server ${name} ${name}:${named}`, `server ${name} 127.0.0.1:${port(actual)} port ${port(admin)}`);
    }
  }
  for (const name of ["core-1", "core-2"]) replace(`server ${name} ${name}:50051`, `server ${name} 127.0.0.1:${port(core.grpc)} port ${port(core.admin)}`);
  await writeFile(join(folder, "haproxy.cfg"), file);
  const proxy = `http://127.0.0.1:${binds[9090]}`;
  await startHere("haproxy", ["-f", join(folder, "haproxy.cfg"), "-db", "-V"], /Available filters/);
  const isReady = () => fetch(`${proxy}/console`).then(({ ok }) => ok, () => false);
  while (!(await isReady())) await new Promise((done) => setTimeout(done, 50));
  return proxy;
}
