// Types and constraints in words.

import { code, element, listed, present, prose } from "./element.mjs";

// Such as "integer (int64)" or "array of Pet".
export function typeOf(api, value) {
  const schema = api.resolve(value);
  if (schema.type === "array") return `array of ${api.resolve(schema.items).name ?? typeOf(api, schema.items)}`;
  const types = [schema.type ?? "any"].flat().join(" or ");
  return schema.format ? `${types} (${schema.format})` : types;
}

// Such as "1 to 100" and "default 20"; nodes, to be separated.
export function constraintsOf(api, value) {
  const schema = api.resolve(value);
  return present([
    schema.enum && ["one of ", listed(schema.enum.map((each) => code(String(each))))],
    "const" in schema && ["always ", code(String(schema.const))],
    range(schema.minimum, schema.maximum, ""),
    schema.minLength === 1 && schema.maxLength === undefined ? "not empty" : range(schema.minLength, schema.maxLength, " characters"),
    schema.default !== undefined && ["default ", code(String(schema.default))],
  ]
    .filter(Boolean)
    .map((constraint) => element("span", {}, constraint)));
}

function range(least, most, unit) {
  if (least === undefined && most === undefined) return null;
  if (least === undefined) return `at most ${most}${unit}`;
  if (most === undefined) return `at least ${least}${unit}`;
  return `${least} to ${most}${unit}`;
}

// A named value with what is known of it: a parameter or a member.
export function entry(api, { name, place, required, schema, description }) {
  return element(
    "li",
    {},
    element(
      "p",
      { class: "signature" },
      code(name),
      element("span", {}, typeOf(api, schema)),
      place && element("span", {}, `in the ${place}`),
      required ? element("span", { class: "required" }, "required") : element("span", {}, "optional"),
      constraintsOf(api, schema),
    ),
    description && element("p", {}, prose(description)),
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
