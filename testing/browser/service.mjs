// Starts the service for the tests, on free ports, with a new store in a new folder.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

import { startPostgres } from "./postgres.mjs";
import { start, stop } from "./process.mjs";

export const ANY_PORT = "127.0.0.1:0";
export const BINARY = resolve(process.env.PETSTORE_BINARY ?? "target/debug/petstore");

// { origin, origins, admin, key, operatorToken, folder, run, stop }: where REST and the admin port are, the first key of
// the store and its first operator's token, where its data is, commands of `petstore` on that store, and how to end it
// all. `origins` are the REST ports of all gateways; here there is one.
export async function startService() {
  const folder = await mkdtemp(join(tmpdir(), "petstore-browser-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  const args = ["serve", "--http-addr", ANY_PORT, "--grpc-addr", ANY_PORT, "--admin-addr", ANY_PORT];
  try {
    const { child, match } = await start(BINARY, args, { cwd: folder, until: SERVES });
    const { origin, admin } = match.groups;
    const secret = async (name) => (await readFile(join(folder, "data", name), "utf8")).trim();
    return {
      origin,
      origins: [origin],
      admin,
      key: await secret("first-api-key"),
      operatorToken: await secret("first-operator-token"),
      folder,
      run: (...command) => promisify(execFile)(BINARY, command, { cwd: folder }),
      stop: () => stop(child).then(remove),
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

// Starts a core and a gateway as two processes: { admin, operatorToken, startCore, stopCore, stop }. On
// PostgreSQL, if wanted: then also { startDatabase, stopDatabase, takeWrites }.
export async function startApart({ onPostgres = false } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "petstore-apart-"));
  const here = (args, until) => start(BINARY, args, { cwd: folder, until });
  const socket = `unix://${join(folder, "core.sock")}`;
  let [postgres, core, gateway] = [null, null, null];
  const end = async () => {
    for (const child of [gateway, core].filter(Boolean)) await stop(child);
    await postgres?.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    postgres = onPostgres ? await startPostgres(folder) : null;
    const database = ["--database-url", postgres?.url ?? "sqlite://petstore.db"];
    const startCore = async () => {
      const flags = [...database, "--grpc-addr", socket, "--admin-addr", ANY_PORT];
      core = (await here(["core", ...flags], /^admin /m)).child;
    };
    await startCore();
    const create = ["operator", "create", "first", "--role", "admin", "--output", "json"];
    const operator = await promisify(execFile)(BINARY, [...create, ...database], { cwd: folder });
    const addresses = ["--core-url", socket, "--http-addr", ANY_PORT, "--admin-addr", ANY_PORT];
    const { child, match } = await here(["gateway", ...addresses], /^admin +(?<admin>http:\S+)$/m);
    gateway = child;
    const { admin } = match.groups;
    while (!(await fetch(`${admin}/readyz`)).ok) await new Promise((done) => setTimeout(done, 50));
    return {
      admin,
      operatorToken: JSON.parse(operator.stdout).token,
      startCore,
      stopCore: () => stop(core),
      startDatabase: postgres?.start,
      stopDatabase: postgres?.stop,
      takeWrites: postgres?.takeWrites,
      stop: end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}

// The lines with the addresses, once everything listens: the line with the store is the last that every start prints.
const SERVES = /^REST +(?<origin>http:\/\/\S+)\/v1$[\s\S]*^admin +(?<admin>http:\/\/\S+)$[\s\S]*^store .*$/m;
