import { setTimeout as wait } from "node:timers/promises";

// Sends a request that may be repeated, waits as the service says, and returns
// the response's body.
async function send(url, options, attempts = 6) {
  for (let attempt = 0; ; attempt++) {
    const isLast = attempt === attempts - 1;
    let pause = 2 ** attempt;
    let response, body;
    try {
      response = await fetch(url, { ...options, signal: AbortSignal.timeout(10_000) });
      body = await response.text();
    } catch (noAnswer) {
      if (isLast) throw noAnswer;
    }
    if (body !== undefined) {
      if (response.ok) return body;
      const retryAfter = response.headers.get("Retry-After");
      const mayPass = retryAfter !== null
        || [408, 500, 502, 503, 504].includes(response.status);
      pause = Math.max(pause, Number(retryAfter) || 0);
      // The day's limit, or a ban, may last for hours: do not sleep that long.
      if (isLast || !mayPass || pause > 120) throw new Error(`${response.status} ${body}`);
    }
    // At least what was asked for, and not all clients at the same moment.
    await wait(1000 * (pause + Math.random()));
  }
}

const pets = await send(`${process.env.PETSTORE_URL}/pets`, {
  headers: { Authorization: `Bearer ${process.env.PETSTORE_API_KEY}` },
});
console.log(pets);
