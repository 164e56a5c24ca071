// A search box over pages, operations and data types. Every word must occur; titles count before texts.

import { element } from "./element.mjs";

const MAX_FOUND = 8;

const input = element("input", { type: "search", placeholder: "Search", "aria-label": "Search the documentation", autocomplete: "off", spellcheck: "false", "aria-controls": "found" });
const list = element("ul", { id: "found", hidden: true });
const status = element("p", { class: "unseen", role: "status" });
let loading;

input.addEventListener("focus", () => (loading ??= load()));
input.addEventListener("input", show);
input.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") close();
  if (key === "Enter") list.querySelector("a")?.click();
});
list.addEventListener("click", close);
list.addEventListener("keydown", ({ key }) => key === "Escape" && (close(), input.focus()));
document.addEventListener("click", ({ target }) => target.closest("#search") || close());
document.getElementById("search").replaceChildren(input, list, status);

function close() {
  list.hidden = true;
}

async function show() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const entries = await (loading ??= load());
  const has = (text) => words.every((word) => text.toLowerCase().includes(word));
  const found = entries.filter(({ title, text }) => has(`${title} ${text}`)).sort((a, b) => has(b.title) - has(a.title)).slice(0, MAX_FOUND);
  list.replaceChildren(...found.map(({ title, path, kind }) => element("li", {}, element("a", { href: path }, title, " ", element("span", {}, kind)))));
  if (found.length === 0) list.append(element("li", { class: "note" }, "No results"));
  list.hidden = words.length === 0;
  status.textContent = words.length === 0 ? "" : `${found.length} found`;
}

// Pages are in the index. Operations and types are from the OpenAPI document.
async function load() {
  const [pages, { paths, components }] = await Promise.all(["/docs/assets/search.json", "/openapi.json"].map(async (path) => (await fetch(path, { credentials: "omit" })).json()));
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.values(item).filter(({ operationId }) => operationId).map(({ operationId, summary, description }) => ({ title: summary, path: `/docs#${operationId}`, kind: "operation", text: `${path} ${operationId} ${description}` })),
  );
  const types = Object.entries(components.schemas).filter(([, { type }]) => type === "object").map(([name, { description = "" }]) => ({ title: name, path: `/docs#${name}`, kind: "data type", text: description }));
  return [...pages.map((page) => ({ ...page, kind: "page" })), ...operations, ...types];
}
