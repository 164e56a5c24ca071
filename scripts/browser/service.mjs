// Starts the service for the tests: on ports of the system's choice, with a new store in a folder of its own.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const START_LIMIT_MS = 20_000;
const ANY_PORT = "127.0.0.1:0";
const BINARY = resolve(process.env.PETSTORE_BINARY ?? "target/debug/petstore");

// { origin, admin, key, operatorToken, folder, run, stop }: where REST and the admin port are, the first key of the store
// and its first operator's token, where its data is, commands of `petstore` on that store, and how to end it all.
export async function startService() {
  const folder = await mkdtemp(join(tmpdir(), "petstore-browser-"));
  const args = ["serve", "--http-addr", ANY_PORT, "--grpc-addr", ANY_PORT, "--admin-addr", ANY_PORT];
  const child = spawn(BINARY, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null && child.pid) {
      child.kill("SIGTERM");
      await once(child, "exit");
    }
    await rm(folder, { recursive: true, force: true });
  };
  const run = (...command) => promisify(execFile)(BINARY, command, { cwd: folder });
  try {
    const { origin, admin } = await announced(child);
    const secret = async (name) => (await readFile(join(folder, "data", name), "utf8")).trim();
    const [key, operatorToken] = [await secret("first-api-key"), await secret("first-operator-token").catch(() => null)];
    return { origin, admin, key, operatorToken, folder, run, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

// The addresses, once everything listens: the line with the store is the last that every start prints.
async function announced(child) {
  let out = "";
  let log = "";
  child.stderr.on("data", (chunk) => (log += chunk));
  return new Promise((resolve, reject) => {
    const fail = (reason) => reject(new Error(`the service did not start: ${reason}\n${log}`));
    const timer = setTimeout(() => fail("it took too long"), START_LIMIT_MS);
    child.on("error", (error) => fail(error.message));
    child.on("exit", (code, signal) => fail(`exit ${code ?? signal}`));
    child.stdout.on("data", (chunk) => {
      out += chunk;
      if (!/^store .*$/m.test(out)) return;
      clearTimeout(timer);
      resolve({ origin: out.match(/^REST +(http:\/\/.+)\/v1$/m)[1], admin: out.match(/^admin +(http:\/\/\S+)/m)[1] });
    });
  });
}
