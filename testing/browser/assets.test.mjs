// The parts of the page that need no browser.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";

import { laidOut } from "../../rest-gateway/src/docs/assets/json-text.mjs";
import { curlOf, quoted, requestOf } from "../../rest-gateway/src/docs/assets/request.mjs";

const shown = (json) => laidOut(json)?.map(({ text }) => text).join("") ?? null;

test("JSON is laid out without a change to any token", () => {
  assert.equal(shown('{"id":9223372036854775807,"a":[1.0,-2e+5,{}],"s":"\\u0041 \\" {,}","n":null}'),
    '{\n  "id": 9223372036854775807,\n  "a": [\n    1.0,\n    -2e+5,\n    {}\n  ],\n  "s": "\\u0041 \\" {,}",\n  "n": null\n}');
  for (const text of ["[]", "{}", "0", '"text"', "true"]) assert.equal(shown(text), text);
  assert.equal(shown(" [ 1 , 2 ] \n"), "[\n  1,\n  2\n]");
});

test("what is not JSON is left alone", () => {
  for (const text of ["", "<html>", "{", '{"a":1}}', '"open', "[1] tail"]) assert.equal(shown(text), null, text);
});

test("a shell reads a quoted text back as it was", () => {
  for (const text of ["plain", "O'Neill", "$HOME `id` \\ \" !", "two\nlines", "''", "@file"]) {
    assert.equal(execFileSync("sh", ["-c", `printf %s ${quoted(text)}`], { encoding: "utf8" }), text);
  }
});

const LIST = { method: "GET", base: "/v1", path: "/pets", parameters: [{ name: "limit", in: "query" }, { name: "cursor", in: "query" }] };
const GET = { method: "GET", base: "/v1", path: "/pets/{petId}", parameters: [{ name: "petId", in: "path" }] };
const CREATE = { method: "POST", base: "/v1", path: "/pets", parameters: [] };

test("empty parameters are left out and the others encoded", () => {
  assert.equal(requestOf(LIST, { limit: "", cursor: "" }).path, "/v1/pets");
  assert.equal(requestOf(LIST, { limit: "5", cursor: "a&b=c" }).path, "/v1/pets?limit=5&cursor=a%26b%3Dc");
  assert.equal(requestOf(GET, { petId: "1/../2?x" }).path, "/v1/pets/1%2F..%2F2%3Fx");
});

test("the curl line sends the same request and names the key's variable alone", () => {
  assert.equal(curlOf(requestOf(LIST, {}), "http://127.0.0.1:8080"),
    "curl -i 'http://127.0.0.1:8080/v1/pets' \\\n  -H \"Authorization: Bearer $PETSTORE_API_KEY\"");
  assert.equal(curlOf(requestOf(CREATE, {}, "{\"name\":\"it's\"}"), "http://[::1]"),
    "curl -i 'http://[::1]/v1/pets' \\\n  -H \"Authorization: Bearer $PETSTORE_API_KEY\" \\\n  -H 'Content-Type: application/json' \\\n  --data-raw '{\"name\":\"it'\\''s\"}'");
});
