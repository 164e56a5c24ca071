// The reference of one operation, with its form.

import { errorLink } from "./answer.mjs";
import { code, element, heading, listed, prose } from "./element.mjs";
import { responsesView } from "./response.mjs";
import { entry, members, typeView } from "./schema.mjs";
import { tryIt } from "./try-it.mjs";

export function operationView(api, operation) {
  const { id, method, path, base, summary, description, parameters, body } = operation;
  return element(
    "article",
    { class: "operation", id, "aria-labelledby": `${id}-title` },
    element(
      "header",
      {},
      heading("h3", id, summary),
      element("p", { class: "route" }, methodBadge(method), code(base + path), badges(operation)),
    ),
    operation.deprecated && deprecationNotice(api, operation),
    description && element("p", { class: "about" }, prose(description)),
    element(
      "div",
      { class: "columns" },
      // First, because on a phone it is above the reference. On a wide screen it is beside it.
      element("section", { class: "trial", "aria-labelledby": `${id}-try` }, element("h4", { id: `${id}-try` }, "Try it"), tryIt(api, operation)),
      element(
        "div",
        { class: "reference" },
        parameters.length > 0 && [
          element("h4", {}, "Parameters"),
          element(
            "ul",
            { class: "entries" },
            parameters.map((each) => entry(api, { ...each, place: each.in })),
          ),
        ],
        body && [
          element("h4", {}, "Body"),
          element("p", {}, "JSON: ", typeView(api, body.schema), ". ", prose(body.schema.description ?? "")),
          members(api, body.schema),
        ],
        element("h4", {}, "Responses"),
        responsesView(api, operation),
      ),
    ),
  );
}

export function methodBadge(method) {
  return element("span", { class: `method ${method.toLowerCase()}` }, method);
}

function badges({ stability, deprecated }) {
  if (deprecated) return element("span", { class: "stability deprecated" }, "deprecated");
  return element("span", { class: `stability ${stability}`, title: MEANING_OF_STABILITY[stability] }, stability);
}

const MEANING_OF_STABILITY = {
  stable: "Changes only by addition",
  beta: "Meant to stay, but may still change incompatibly",
  experimental: "May change or be removed at any time",
};

// Removal date and replacement are the document's: x-sunset, and the first Link field that every response carries.
function deprecationNotice(api, operation) {
  const sunset = operation["x-sunset"];
  const link = api.resolve(operation.responses[0]?.headers?.Link).example ?? "";
  const [, target, relation] = link.match(/^<([^>]+)>; rel="([^"]+)"/) ?? [];
  const date = sunset && new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" }).format(new Date(sunset));
  return element(
    "aside",
    { class: "callout warning deprecation", "aria-label": "Deprecation" },
    element("p", {}, element("strong", {}, "Deprecated."), date && [" It is removed on ", element("time", { datetime: sunset }, date), ": from that day on it returns 410 ", errorLink("OPERATION_REMOVED"), "."]),
    relation === "successor-version" && element("p", {}, "Use ", code(`GET ${target}`), " instead. Every response says so in ", listed([code("Deprecation"), code("Sunset"), code("Link")]), ". ", element("a", { href: new URL("../deprecation", import.meta.url) }, "How to live without it"), "."),
  );
}
