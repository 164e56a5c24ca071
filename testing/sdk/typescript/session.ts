// A small session with the generated TypeScript client. That it compiles is half of the test: every use is typed by the
// OpenAPI document, and each `@ts-expect-error` fails the compilation if the types would let that mistake pass.

import assert from "node:assert/strict";

import createClient from "openapi-fetch";

import type { components, paths } from "./petstore.js";

type Pet = components["schemas"]["Pet"];
type NewPet = components["schemas"]["NewPet"];
type PetStatus = components["schemas"]["PetStatus"];
type ApiError = components["schemas"]["Error"];

const baseUrl = process.env["PETSTORE_BASE_URL"];
const key = process.env["PETSTORE_API_KEY"];
assert.ok(baseUrl && key, "PETSTORE_BASE_URL and PETSTORE_API_KEY are needed");

const clientWith = (token: string) => createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
const client = clientWith(key);
const PER_MINUTE = 20; // of the account that testing/sdk/run makes
const PAGE = 2; // pets on a page
const LARGEST = "9223372036854775807"; // of int64

function assertRateHeaders(response: Response): void {
  assert.equal(response.headers.get("X-RateLimit-Limit"), String(PER_MINUTE));
  assert.match(response.headers.get("X-RateLimit-Remaining") ?? "", /^\d+$/);
  assert.ok(Number(response.headers.get("X-RateLimit-Reset")) > Date.now() / 1000 - 1);
}

function assertError(error: ApiError | undefined, status: number, code: string): void {
  assert.ok(error, `${code} was expected`);
  assert.equal(error.status, status);
  assert.equal(error.code, code);
  assert.ok(error.message.length > 0);
}

async function create(name: string, categoryId: number, status?: PetStatus): Promise<Pet> {
  const { data, error, response } = await client.POST("/pets", {
    body: status === undefined ? { name, categoryId } : { name, categoryId, status },
  });
  assert.ok(data, JSON.stringify(error));
  assert.equal(response.status, 201);
  assertRateHeaders(response);
  return data;
}

// Add three pets and fetch one.
const rex = await create("Rex", 7, "available");
const mia = await create("Mia 🐈", 3);
const tom = await create("Tom", 3, "sold");
assert.deepEqual(mia, { id: mia.id, name: "Mia 🐈", categoryId: 3 });
const fetched = await client.GET("/pets/{petId}", { params: { path: { petId: rex.id } } });
assert.deepEqual(fetched.data, rex);

// Walk through the pages: the header X-Next-Cursor leads to the next one, and is absent on the last.
const pets: Pet[] = [];
let cursor: string | null = null;
do {
  const query: { limit: number; cursor?: string } = cursor === null ? { limit: PAGE } : { limit: PAGE, cursor };
  const { data, error, response } = await client.GET("/pets", { params: { query } });
  if (error) throw new Error(error.message);
  pets.push(...data);
  cursor = response.headers.get("X-Next-Cursor");
} while (cursor !== null);
assert.deepEqual(pets, [rex, mia, tom]);
const sold = await client.GET("/pets", { params: { query: { status: "sold" } } });
assert.deepEqual(sold.data, [tom]);

// Errors have a type, whatever the status.
const blank = await client.POST("/pets", { body: { name: " ", categoryId: 1 } });
assertError(blank.error, 400, "VALIDATION_FAILED");
const tooMany = await client.GET("/pets", { params: { query: { limit: 101 } } });
assertError(tooMany.error, 400, "INVALID_PARAMETER");
const stranger = await clientWith("not-a-key").GET("/pets");
assertError(stranger.error, 401, "INVALID_API_KEY");
assert.match(stranger.response.headers.get("WWW-Authenticate") ?? "", /^Bearer /);
const absent = await client.GET("/pets/{petId}", { params: { path: { petId: 999_999 } } });
assertError(absent.error, 404, "PET_NOT_FOUND");

// Beyond 2^53 a JavaScript number is not exact, and the generated types say number. Read and write such bodies as text,
// with a JSON parser that supports bigint.
const large = await client.POST("/pets", {
  body: { name: "Large", categoryId: Number.NaN },
  bodySerializer: (body) => `{"name":${JSON.stringify(body.name)},"categoryId":${LARGEST}}`,
  parseAs: "text",
});
assert.equal(large.response.status, 201);
assert.match(String(large.data), new RegExp(`"categoryId":${LARGEST}\\b`));

// Over the limit, the response says how long to wait.
let refused = await client.GET("/pets");
for (let calls = 1; refused.response.ok && calls <= PER_MINUTE; calls++) refused = await client.GET("/pets");
assertError(refused.error, 429, "RATE_LIMITED");
assertRateHeaders(refused.response);
assert.equal(refused.response.headers.get("X-RateLimit-Remaining"), "0");
const wait = Number(refused.response.headers.get("Retry-After"));
assert.ok(wait >= 1 && wait <= 60, `Retry-After is ${wait}`);

// Never called: mistakes that the compiler must refuse.
export const refusedByTheCompiler = () => [
  // @ts-expect-error a status that does not exist
  client.GET("/pets", { params: { query: { status: "lost" } } }),
  // @ts-expect-error a path that does not exist
  client.GET("/cats"),
  // @ts-expect-error a required member is missing
  client.POST("/pets", { body: { name: "Rex" } }),
  // @ts-expect-error a member is misspelled
  client.POST("/pets", { body: { name: "Rex", categoryId: 1, stauts: "sold" } satisfies NewPet }),
];
console.log("the TypeScript client: a whole session, typed");
