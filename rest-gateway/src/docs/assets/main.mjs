// Builds the page from /openapi.json. Until then, and without this script, the server's list of operations is shown.

import { mount as mountKey } from "./api-key.mjs";
import { ApiDocument } from "./document.mjs";
import { showContents } from "./contents.mjs";
import { code, element, heading, prose } from "./element.mjs";
import { operationView } from "./operation.mjs";
import { commonFailuresView, headerList } from "./response.mjs";
import { typeDescription } from "./schema.mjs";
import { tryIt } from "./try-it.mjs";

const place = (id) => document.getElementById(id);

mountKey();
try {
  show(await ApiDocument.load());
} catch (error) {
  place("operations").prepend(
    element("p", { class: "callout error", role: "alert" }, `The OpenAPI document could not be loaded: ${error.message}. Reload the page to try operations.`),
  );
}

function show(api) {
  const operations = api.operations();
  showOpening(api);
  showFirstTry(api, operations);
  const topics = showGuide(api);
  place("operations").replaceChildren(
    element("h2", {}, "Operations"),
    ...operations.map((operation) => operationView(api, operation)),
  );
  const types = api.types();
  place("types").replaceChildren(element("h2", {}, "Data types"), ...types.map((type) => typeDescription(api, type)));
  showContents({ topics, operations, types: types.map(({ name }) => name) });
  // The target of the address exists only now.
  if (location.hash) place(location.hash.slice(1))?.scrollIntoView({ behavior: "instant" });
}

function showOpening(api) {
  const { title, summary } = api.info;
  document.title = title;
  place("summary").textContent = summary ? `${summary}.` : "";
  place("facts").replaceChildren(
    element("span", {}, "Base address ", code(location.origin + api.base)),
  );
}

// Returns the simplest operation: one that reads and needs no input.
function showFirstTry(api, operations) {
  const first = operations.find(({ method, deprecated, parameters }) => method === "GET" && !deprecated && parameters.every(({ required }) => !required));
  if (!first) return;
  place("first-try").replaceChildren(
    element("p", {}, "This lists the pets: an array, which is empty in a new store."),
    tryIt(api, { ...first, parameters: [] }, { idPrefix: "first", sendLabel: first.summary }),
  );
}

// The description's paragraphs, each a section: **A topic.** and its text. A topic that has a page of its own is not
// repeated, and neither is the summary.
function showGuide(api) {
  const topics = [];
  const about = (id, topic, ...content) => {
    topics.push({ id, topic });
    place("guide").append(element("section", { id, "aria-labelledby": `${id}-title` }, heading("h2", id, topic), ...content));
  };
  const ownPages = [...place("contents").querySelectorAll("a")].map((link) => link.textContent);
  for (const paragraph of (api.info.description ?? "").split(/\n{2,}/)) {
    const [, topic, text] = paragraph.match(/^\*\*([^*]+?)\.?\*\*\s*(.*)$/s) ?? [];
    if (topic && !ownPages.includes(topic)) about(topic.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-"), topic, element("p", {}, prose(text)));
  }
  const [always, sometimes] = [true, false].map((isRequired) => api.commonHeaders().filter(([, header]) => Boolean(api.resolve(header).required) === isRequired));
  about("headers", "Headers", element("p", {}, "Every response has these:"), headerList(api, always), element("p", {}, "Some have these:"), headerList(api, sometimes));
  about("common-errors", "Errors of every operation", element("p", {}, "Every operation may return these errors. Further ones are listed with each operation."), ...commonFailuresView(api));
  return topics;
}
