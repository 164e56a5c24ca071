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
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean).map(stem);
  const entries = await (loading ??= load());
  const has = (text) => words.every((word) => text.toLowerCase().includes(word));
  const found = entries.filter(({ title, text }) => has(`${title} ${text}`)).sort((a, b) => has(b.title) - has(a.title)).slice(0, MAX_FOUND);
  list.replaceChildren(...found.map(({ title, path, kind }) => element("li", {}, element("a", { href: new URL(`../..${path}`, import.meta.url) }, title, " ", element("span", {}, kind)))));
  if (found.length === 0) list.append(element("li", { class: "note" }, "No results"));
  list.hidden = words.length === 0;
  status.textContent = words.length === 0 ? "" : `${found.length} found`;
}

// Without its ending, so that "deleting" finds "deleted".
const stem = (word) => word.replace(/(?<=.{3})(ing|ed|es|e|s)$/, "");

// Pages and operations are in the index. Types are from the OpenAPI document.
async function load() {
  const [entries, { components }] = await Promise.all(["search.json", "../../openapi.json"].map(async (path) => (await fetch(new URL(path, import.meta.url), { credentials: "omit" })).json()));
  const types = Object.entries(components.schemas).filter(([, { type }]) => type === "object").map(([name, { description = "" }]) => ({ title: name, path: `/docs#${name}`, kind: "data type", text: description }));
  return [...entries, ...types];
}
