// Prints the name of every pet that can be bought.
const query = new URLSearchParams({ limit: "100", status: "available" });
for (;;) {
  const response = await fetch(`${process.env.PETSTORE_URL}/pets?${query}`, {
    headers: { Authorization: `Bearer ${process.env.PETSTORE_API_KEY}` },
    signal: AbortSignal.timeout(10_000),
  });
  if (!response.ok) throw new Error(await response.text());
  for (const pet of await response.json()) console.log(pet.name);
  const cursor = response.headers.get("X-Next-Cursor");
  if (cursor === null) break;
  query.set("cursor", cursor);
}
