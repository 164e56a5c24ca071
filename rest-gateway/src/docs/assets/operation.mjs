// The reference of one operation, with its form.

import { errorLink, json } from "./answer.mjs";
import { block, code, element, listed, prose } from "./element.mjs";
import { entry, members, typeOf } from "./schema.mjs";
import { tryIt } from "./try-it.mjs";

export function operationView(api, operation) {
  const { id, method, path, base, summary, description, parameters, body, responses } = operation;
  return element(
    "article",
    { class: "operation", id, "aria-labelledby": `${id}-title` },
    element(
      "header",
      {},
      element("h3", { id: `${id}-title` }, summary),
      element("p", { class: "route" }, methodBadge(method), code(base + path), badges(operation)),
    ),
    operation.deprecated && deprecationNotice(api, operation),
    element(
      "div",
      { class: "columns" },
      element(
        "div",
        { class: "reference" },
        description && element("p", {}, prose(description)),
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
          element("p", {}, "JSON: ", code(body.schema.name ?? typeOf(api, body.schema)), ". ", prose(body.schema.description ?? "")),
          members(api, body.schema),
        ],
        element("h4", {}, "Responses"),
        responses.map((response) => responseView(api, response)),
      ),
      element("section", { class: "trial", "aria-labelledby": `${id}-try` }, element("h4", { id: `${id}-try` }, "Try it"), tryIt(api, operation)),
    ),
  );
}

export function methodBadge(method) {
  return element("span", { class: `method ${method.toLowerCase()}` }, method);
}

function badges({ stability, deprecated }) {
  return [
    element("span", { class: `stability ${stability}`, title: MEANING_OF_STABILITY[stability] }, stability),
    deprecated && element("span", { class: "stability deprecated" }, "deprecated"),
  ];
}

const MEANING_OF_STABILITY = {
  stable: "Changes only by addition",
  beta: "May still change, with notice",
  experimental: "May change or go at any time",
};

// Removal date and replacement are the document's: x-sunset, and the Link field that every response carries.
function deprecationNotice(api, operation) {
  const sunset = operation["x-sunset"];
  const link = api.resolve(api.resolve(operation.responses[0]?.headers?.Link).schema).const ?? "";
  const [, target, relation] = link.match(/^<([^>]+)>; rel="([^"]+)"$/) ?? [];
  const date = sunset && new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" }).format(new Date(sunset));
  return element(
    "aside",
    { class: "callout warning deprecation", "aria-label": "Deprecation" },
    element("p", {}, element("strong", {}, "Deprecated."), date && [" It is removed on ", element("time", { datetime: sunset }, date), ": from that day on it answers 410 ", errorLink("OPERATION_REMOVED"), "."]),
    relation === "successor-version" && element("p", {}, "Use ", code(`GET ${target}`), " instead. Every response says so in ", listed([code("Deprecation"), code("Sunset"), code("Link")]), "."),
  );
}

function responseView(api, { status, description, headers, content, "x-error-codes": codes }) {
  const media = content?.["application/json"];
  const example = media && !codes && api.examples(media)[0];
  return element(
    "details",
    { class: "response" },
    element("summary", {}, element("span", { class: `badge s${status[0]}` }, status), element("span", {}, description)),
    codes && element("p", {}, "Codes: ", listed(codes.map(errorLink))),
    media && element("p", {}, "Body: ", code(typeOf(api, media.schema) === "object" ? api.resolve(media.schema).name : typeOf(api, media.schema))),
    example && block(`Example of a ${status} body`, json(JSON.stringify(example[1]))),
    headerList(api, ownHeaders(api, headers)),
  );
}

// Those that not every response has.
function ownHeaders(api, headers) {
  const common = new Set(api.commonHeaders().map(([name]) => name));
  return Object.entries(headers ?? {}).filter(([name]) => !common.has(name));
}

// Header fields and what they say, given as [name, header].
export function headerList(api, headers) {
  if (headers.length === 0) return null;
  return element("ul", { class: "entries headers-of" }, headers.map(([name, header]) => headerEntry(api, name, header)));
}

function headerEntry(api, name, header) {
  const { description } = api.resolve(header);
  return element("li", {}, element("p", {}, code(name), " ", prose(description ?? "")));
}
