// The responses of an operation, and the failures that every operation may return.

import { errorLink, json } from "./answer.mjs";
import { block, code, element, listed, prose } from "./element.mjs";
import { typeView } from "./schema.mjs";

// The responses of one operation. Failures that every operation has are not repeated.
export function responsesView(api, operation) {
  const common = new Set(api.commonFailures().map(({ status }) => status));
  return [
    operation.responses.filter(({ status }) => !common.has(status)).map((response) => responseView(api, response)),
    element("p", { class: "common" }, "Plus the ", element("a", { href: "#common-errors" }, "common errors"), ": ", [...common].join(", "), "."),
  ];
}

// The failures that every operation has, each folded.
export function commonFailuresView(api) {
  return api.commonFailures().map((response) => responseView(api, response));
}

function responseView(api, { status, description, headers, content, "x-error-codes": codes }) {
  const media = content?.["application/json"];
  const example = media && !codes && api.examples(media)[0];
  return element(
    "details",
    { class: "response", open: !codes },
    element("summary", {}, element("span", { class: `badge s${status[0]}` }, status), element("span", {}, description)),
    media && element("p", {}, "Body: ", typeView(api, media.schema)),
    codes && element("p", {}, "Codes: ", listed(codes.map(errorLink))),
    example && block(`Example of a ${status} body`, json(JSON.stringify(example[1]))),
    headerList(api, ownHeaders(api, headers)),
  );
}

// The header fields that not every response has.
function ownHeaders(api, headers) {
  const common = new Set(api.commonHeaders().map(([name]) => name));
  return Object.entries(headers ?? {}).filter(([name]) => !common.has(name));
}

// Lists header fields with their meaning, given as [name, header].
export function headerList(api, headers) {
  if (headers.length === 0) return null;
  return element("ul", { class: "entries headers-of" }, headers.map(([name, header]) => headerEntry(api, name, header)));
}

function headerEntry(api, name, header) {
  const { description } = api.resolve(header);
  return element("li", {}, element("p", {}, code(name), " ", prose(description ?? "")));
}
