// PostgreSQL for the tests: a new server on a free port, with its data in a folder of the test.

import { execFile } from "node:child_process";
import { once } from "node:events";
import { chown, readFile, readdir } from "node:fs/promises";
import { createServer as listenOn } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";

import { start as startProgram, stop as stopProgram } from "./process.mjs";

// Starts a server: { url, start, stop, takeWrites }. `stop` ends the connections too, `start` brings it back as it was;
// `takeWrites(false)` makes it read-only, as an operator may.
// As root it uses the account that Debian's package created, which gets the folder.
export async function startPostgres(folder) {
  const [newest] = (await readdir("/usr/lib/postgresql")).sort((a, b) => b - a);
  const programs = `/usr/lib/postgresql/${newest}/bin`;
  const account = process.getuid() === 0 ? await accountOf("postgres") : {};
  if (account.uid) await chown(folder, account.uid, account.gid);
  const options = { cwd: folder, ...account };
  const data = join(folder, "postgres");
  const made = ["--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync", "--auth=trust"];
  await promisify(execFile)(`${programs}/initdb`, ["--pgdata", data, ...made], options);
  const port = await freePort();
  const settings = {
    listen_addresses: "127.0.0.1", port, unix_socket_directories: "", fsync: "off", shared_buffers: "16MB",
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  let server;
  const start = async () => {
    const until = /ready to accept connections/;
    const started = await startProgram(`${programs}/postgres`, ["-D", data, ...flags], { until, ...options });
    server = started.child;
  };
  await start();
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
  const takeWrites = async (takes) => {
    const change = `ALTER SYSTEM SET default_transaction_read_only = ${takes ? "off" : "on"}`;
    const env = { ...process.env, PGOPTIONS: "-c default_transaction_read_only=off" };
    await promisify(execFile)(`${programs}/psql`, [url, "-c", change, "-c", "SELECT pg_reload_conf()"], { env });
  };
  return {
    url,
    start,
    takeWrites,
    stop: () => stopProgram(server, "SIGINT"),
  };
}

async function accountOf(user) {
  const lines = (await readFile("/etc/passwd", "utf8")).split("\n");
  const line = lines.find((each) => each.startsWith(`${user}:`));
  const [, , uid, gid] = line.split(":");
  return { uid: Number(uid), gid: Number(gid) };
}

// For servers that cannot choose a port themselves.
export async function freePort() {
  const server = listenOn().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return String(port);
}
