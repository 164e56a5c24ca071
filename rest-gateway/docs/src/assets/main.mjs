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
  const { title, summary, version } = api.info;
  document.title = title;
  place("summary").textContent = summary ? `${summary}.` : "";
  place("facts").replaceChildren(
    element("span", {}, "Base address ", code(location.origin + api.base)),
    element("span", {}, "Interface version ", code(version)),
  );
}

// Returns the simplest operation: one that reads and needs no input.
function showFirstTry(api, operations) {
  const first = operations.find(({ method, deprecated, parameters }) => method === "GET" && !deprecated && parameters.every(({ required }) => !required));
  if (!first) return;
  place("first-try").replaceChildren(
    element("p", {}, "This lists the pets. A new store has none yet, so the response is an empty array, ", code("[]"), "."),
    tryIt(api, { ...first, parameters: [] }, { idPrefix: "first", sendLabel: first.summary }),
  );
}

// The description's paragraphs. One that begins with **A topic.** opens a section; those before the first introduce.
function showGuide(api) {
  const topics = [];
  let section = place("introduction");
  for (const paragraph of (api.info.description ?? "").split(/\n{2,}/)) {
    const [, topic, text] = paragraph.match(/^\*\*([^*]+?)\.?\*\*\s*(.*)$/s) ?? [null, null, paragraph];
    if (topic) {
      const id = topic.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
      topics.push({ id, topic });
      section = element("section", { id, "aria-labelledby": `${id}-title` }, heading("h2", id, topic));
      place("guide").append(section);
    }
    section.append(element("p", {}, prose(text)));
  }
  const about = (id, topic, ...content) => {
    topics.push({ id, topic });
    place("guide").append(element("section", { id, "aria-labelledby": `${id}-title` }, heading("h2", id, topic), ...content));
  };
  about("headers", "Headers of every response", headerList(api, api.commonHeaders()));
  about("common-errors", "Errors of every operation", element("p", {}, "Every operation may return these errors. Further ones are listed with each operation."), ...commonFailuresView(api));
  return topics;
}
