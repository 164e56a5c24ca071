import { setTimeout as wait } from "node:timers/promises";

// Sends a request that may be repeated, and waits as the service says.
async function send(url, options, attempts = 6) {
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(url, { ...options, signal: AbortSignal.timeout(10_000) });
    const retryAfter = response.headers.get("Retry-After");
    const mayHelp = retryAfter !== null || response.status >= 500;
    if (!mayHelp || attempt === attempts - 1) return response;
    // At least what was asked for, and not all clients at the same moment.
    await wait(1000 * (Number(retryAfter ?? 2 ** attempt) + Math.random()));
  }
}

const response = await send(`${process.env.PETSTORE_URL}/pets`, {
  headers: { Authorization: `Bearer ${process.env.PETSTORE_API_KEY}` },
});
if (!response.ok) throw new Error(await response.text());
console.log(await response.text());
