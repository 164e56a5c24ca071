// Processes that the tests start, each of which prints its address.

import { spawn } from "node:child_process";
import { once } from "node:events";

const START_LIMIT_MS = 30_000;
const LOG_LENGTH = 10_000;

// Starts a program; resolves to { child, match } once what it has printed matches, rejects with its log if it ends first.
export function start(program, args, { until, ...options }) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  let out = "";
  let log = "";
  return new Promise((resolve, reject) => {
    const fail = (reason) => {
      clearTimeout(timer);
      child.kill("SIGKILL");
      reject(new Error(`${program} ${args[0] ?? ""} did not start: ${reason}\n${out}\n${log}`));
    };
    const timer = setTimeout(() => fail("it took too long"), START_LIMIT_MS);
    const ended = (code, signal) => fail(`exit ${code ?? signal}`);
    const look = () => {
      const match = `${out}\n${log}`.match(until);
      if (!match) return;
      clearTimeout(timer);
      child.off("exit", ended);
      resolve({ child, match });
    };
    // Read to the end, so that no program waits for a reader.
    child.stdout.on("data", (chunk) => {
      out = (out + chunk).slice(-LOG_LENGTH);
      look();
    });
    child.stderr.on("data", (chunk) => {
      log = (log + chunk).slice(-LOG_LENGTH);
      look();
    });
    child.on("error", (error) => fail(error.message));
    child.on("exit", ended);
  });
}

// Ends a process that was started here, and waits for its end.
export async function stop(child, signal = "SIGTERM") {
  if (child.exitCode !== null || child.signalCode !== null || !child.pid) return;
  child.kill(signal);
  await once(child, "exit");
}
