// Types and constraints in words.

import { json } from "./answer.mjs";
import { block, code, element, heading, listed, present, prose } from "./element.mjs";

// Such as "integer (int64)" or "array of Pet"; types that are described on the page are links to their description.
export function typeView(api, value) {
  const schema = api.resolve(value);
  if (api.isDescribed(schema.name)) return [element("a", { href: `#${schema.name}` }, code(schema.name))];
  if (schema.type === "array") return ["array of ", typeView(api, schema.items)];
  const types = [schema.type ?? "any"].flat().join(" or ");
  return [schema.format ? `${types} (${schema.format})` : types];
}

// Such as "1 to 100" and "default 20"; nodes, to be separated.
function constraintsOf(api, value) {
  const schema = api.resolve(value);
  return present([
    schema.enum && ["one of ", listed(schema.enum.map((each) => code(String(each))))],
    schema["x-extensible-enum"] && known(schema["x-extensible-enum"]),
    "const" in schema && ["always ", code(String(schema.const))],
    range(schema.minimum, schema.maximum, ""),
    schema.minLength === 1 && schema.maxLength === undefined ? "not empty" : range(schema.minLength, schema.maxLength, " characters"),
    range(schema.minItems, schema.maxItems, " items"),
    schema.default !== undefined && ["default ", code(String(schema.default))],
  ]
    .filter(Boolean)
    .map((constraint) => element("span", {}, constraint)));
}

// The known values. Long lists are left out: they are error codes, which have separate pages.
function known(values) {
  return values.length > 10
    ? ["one of the ", element("a", { href: new URL("../errors", import.meta.url) }, "error codes"), "; others may be added"]
    : ["one of ", listed(values.map(code)), "; others may be added"];
}

function range(least, most, unit) {
  if (least === undefined && most === undefined) return null;
  if (least === most) return `${least}${unit}`;
  if (least === undefined) return `at most ${most}${unit}`;
  if (most === undefined) return `at least ${least}${unit}`;
  return `${least} to ${most}${unit}`;
}

// A named value with its description: a parameter or a member. An object without a name shows its own members.
export function entry(api, { name, place, required, schema, description }) {
  const resolved = api.resolve(schema);
  return element(
    "li",
    {},
    element(
      "p",
      { class: "signature" },
      code(name),
      element("span", {}, typeView(api, schema)),
      place && element("span", {}, `in the ${place}`),
      required ? element("span", { class: "required" }, "required") : element("span", {}, "optional"),
      constraintsOf(api, schema),
    ),
    description && element("p", {}, prose(description)),
    resolved.properties && !api.isDescribed(resolved.name) && members(api, resolved),
  );
}

// The members of an object.
export function members(api, schema) {
  const required = new Set(schema.required);
  return element(
    "ul",
    { class: "entries" },
    Object.entries(schema.properties ?? {}).map(([name, member]) =>
      entry(api, { name, required: required.has(name), schema: member, description: api.resolve(member).description }),
    ),
  );
}

// The description of a type that has a name.
export function typeDescription(api, schema) {
  const users = api.usersOf(schema.name);
  return element(
    "article",
    { class: "type", id: schema.name, "aria-labelledby": `${schema.name}-title` },
    heading("h3", schema.name, code(schema.name)),
    element("p", {}, prose(schema.description ?? "")),
    users.length > 0 && element("p", { class: "users" }, "In: ", listed(users.map(({ id, summary }) => element("a", { href: `#${id}` }, summary)))),
    members(api, schema),
    schema.example && block(`Example of ${schema.name}`, json(JSON.stringify(schema.example))),
  );
}
