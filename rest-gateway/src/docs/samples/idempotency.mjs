// Adds a pet, exactly one, however often the request has to be sent.
import { randomUUID } from "node:crypto";
import { setTimeout as wait } from "node:timers/promises";

const key = randomUUID(); // once for the pet, not once for each attempt
for (let attempt = 0; ; attempt++) {
  if (attempt === 6) throw new Error("There is no answer.");
  if (attempt > 0) await wait(1000 * 2 ** (attempt - 1));
  let response;
  try {
    response = await fetch(`${process.env.PETSTORE_URL}/pets`, {
      method: "POST",
      body: JSON.stringify({ name: "Rex", categoryId: 7, status: "available" }),
      headers: {
        Authorization: `Bearer ${process.env.PETSTORE_API_KEY}`,
        "Content-Type": "application/json",
        "Idempotency-Key": key,
      },
      signal: AbortSignal.timeout(10_000),
    });
  } catch {
    continue; // the answer was lost: was the pet added? The key makes it safe to ask again
  }
  if (response.status >= 500) continue;
  if (!response.ok) throw new Error(await response.text());
  console.log(await response.text());
  break;
}
