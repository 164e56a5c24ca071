// Creates a pet, exactly one, however often the request has to be sent.
import { randomUUID } from "node:crypto";
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
      // The response was lost: was the pet created? The key makes it safe
      // to ask again.
      if (isLast) throw noAnswer;
    }
    if (body !== undefined) {
      if (response.ok) return body;
      const retryAfter = response.headers.get("Retry-After");
      const mayPass = retryAfter !== null
        || [408, 500, 502, 503, 504].includes(response.status);
      pause = Math.max(pause, Number(retryAfter) || 0);
      if (isLast || !mayPass || pause > 120) throw new Error(`${response.status} ${body}`);
    }
    await wait(1000 * (pause + Math.random()));
  }
}

// Once for the pet, not once for each attempt. If your program may restart,
// store the key with the pet first.
const key = randomUUID();
const pet = await send(`${process.env.PETSTORE_URL}/pets`, {
  method: "POST",
  body: JSON.stringify({ name: "Rex", categoryId: 7, status: "available" }),
  headers: {
    Authorization: `Bearer ${process.env.PETSTORE_API_KEY}`,
    "Content-Type": "application/json",
    "Idempotency-Key": key,
  },
});
console.log(pet);
