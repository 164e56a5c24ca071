import { setTimeout as wait } from "node:timers/promises";

// Sends a request that may be repeated, and waits as the service says.
async function send(url, options, attempts = 6) {
  for (let attempt = 0; ; attempt++) {
    const isLast = attempt === attempts - 1;
    let pause = 2 ** attempt;
    try {
      const response = await fetch(url, { ...options, signal: AbortSignal.timeout(10_000) });
      const retryAfter = response.headers.get("Retry-After");
      const mayHelp = retryAfter !== null || [408, 500, 502, 504].includes(response.status);
      if (!mayHelp || isLast) return response;
      pause = Number(retryAfter ?? pause);
    } catch (noAnswer) {
      if (isLast) throw noAnswer;
    }
    // At least what was asked for, and not all clients at the same moment.
    await wait(1000 * (pause + Math.random()));
  }
}

const response = await send(`${process.env.PETSTORE_URL}/pets`, {
  headers: { Authorization: `Bearer ${process.env.PETSTORE_API_KEY}` },
});
if (!response.ok) throw new Error(await response.text());
console.log(await response.text());
