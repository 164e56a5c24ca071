// Starts a split deployment for the tests: PostgreSQL, Redis, a core, two gateways, and a load balancer in front of their
// admin ports that alternates between the gateways with every request.

import { execFile } from "node:child_process";
import { once } from "node:events";
import { chown, mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { createServer, request } from "node:http";
import { createServer as listenOn } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { start, stop } from "./process.mjs";
import { ANY_PORT, BINARY } from "./service.mjs";

const run = promisify(execFile);
const SERVES = /^(?:REST +(?<rest>http:\/\/\S+)\/v1$[\s\S]*)?(?:^gRPC +(?<grpc>\S+)$[\s\S]*)?^admin +(?<admin>http:\/\/\S+)$/m;

// Like `startService`: `admin` is the load balancer, `origin` the first gateway, and there is no first key.
export async function startDeployment() {
  const folder = await mkdtemp(join(tmpdir(), "petstore-split-"));
  const ends = [() => rm(folder, { recursive: true, force: true })];
  const end = async () => {
    for (const each of ends.reverse()) await each();
  };
  const startHere = async (program, args, until, { signal, ...options } = {}) => {
    const { child, match } = await start(program, args, { cwd: folder, until, ...options });
    ends.push(() => stop(child, signal));
    return match.groups ?? {};
  };
  try {
    const database = await startPostgres(folder, startHere);
    const redisPort = await freePort();
    await startHere("redis-server", ["--port", redisPort, "--bind", "127.0.0.1", "--save", "", "--dir", folder], /Ready to accept connections/);
    const core = await startHere(BINARY, ["core", "--database-url", database, "--grpc-addr", ANY_PORT, "--admin-addr", ANY_PORT], SERVES);
    const petstore = (...command) => run(BINARY, [...command, "--database-url", database], { cwd: folder });
    const operator = JSON.parse((await petstore("operator", "create", "first", "--role", "admin", "--output", "json")).stdout);
    const gateways = [];
    for (let count = 0; count < 2; count++) {
      const flags = ["--core-url", `http://${core.grpc}`, "--redis-url", `redis://127.0.0.1:${redisPort}`, "--gateways", "2"];
      gateways.push(await startHere(BINARY, ["gateway", ...flags, "--http-addr", ANY_PORT, "--admin-addr", ANY_PORT], SERVES));
    }
    for (const { admin } of [core, ...gateways]) await ready(admin);
    const balancer = await balance(gateways.map(({ admin }) => admin));
    ends.push(balancer.stop);
    const origins = gateways.map(({ rest }) => rest);
    return { origin: origins[0], origins, admin: balancer.origin, operatorToken: operator.token, folder, run: petstore, stop: end };
  } catch (error) {
    await end();
    throw error;
  }
}

// Starts a new server. Returns the URL of its database. As root it uses the account that Debian's package created.
async function startPostgres(folder, startHere) {
  const [newest] = (await readdir("/usr/lib/postgresql")).sort((a, b) => b - a);
  const programs = `/usr/lib/postgresql/${newest}/bin`;
  const account = process.getuid() === 0 ? await accountOf("postgres") : {};
  if (account.uid) await chown(folder, account.uid, account.gid);
  const data = join(folder, "postgres");
  await run(`${programs}/initdb`, ["--pgdata", data, "--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync", "--auth=trust"], { cwd: folder, ...account });
  const port = await freePort();
  const settings = { listen_addresses: "127.0.0.1", port, unix_socket_directories: "", fsync: "off", shared_buffers: "16MB" };
  const args = ["-D", data, ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])];
  await startHere(`${programs}/postgres`, args, /ready to accept connections/, { signal: "SIGINT", ...account });
  return `postgres://postgres@127.0.0.1:${port}/postgres`;
}

async function accountOf(user) {
  const line = (await readFile("/etc/passwd", "utf8")).split("\n").find((each) => each.startsWith(`${user}:`));
  const [, , uid, gid] = line.split(":");
  return { uid: Number(uid), gid: Number(gid) };
}

// A gateway listens before it has reached the core, and the core before its store has answered.
async function ready(admin) {
  while (!(await fetch(`${admin}/readyz`)).ok) await new Promise((done) => setTimeout(done, 50));
}

// For servers that cannot choose a port themselves.
async function freePort() {
  const server = listenOn().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return String(port);
}

// Sends each request to the next of the targets in turn.
async function balance(targets) {
  let count = 0;
  const server = createServer((incoming, answer) => {
    const { hostname, port } = new URL(targets[count++ % targets.length]);
    const { method, url: path, headers } = incoming;
    const outgoing = request({ hostname, port, method, path, headers, agent: false }, (response) => {
      answer.writeHead(response.statusCode, response.rawHeaders);
      response.pipe(answer);
    });
    outgoing.on("error", () => answer.destroy());
    incoming.pipe(outgoing);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const end = async () => {
    server.close();
    server.closeAllConnections();
  };
  return { origin: `http://127.0.0.1:${server.address().port}`, stop: end };
}
