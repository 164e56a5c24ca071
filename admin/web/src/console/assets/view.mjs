// Parts of the pages.

import { element, present } from "./element.mjs";
import { capitalized, isActive, keyName, number, plan, word } from "./format.mjs";

export const link = (href, ...children) => element("a", { href }, ...children);
export const accountLink = (name) => link(`/console/accounts/${encodeURIComponent(name)}`, name);

// A key by its one name on all pages.
export const keyLink = (id, label) => element("a", { href: `/console/keys/${encodeURIComponent(id)}`, title: id }, label ? `${label} ` : null, element("code", { class: "whole" }, keyName({ id })));

// The visible parts of a key, as its holder has it.
export const keyEnds = ({ prefix = "", lastFour }) => element("code", { class: "whole" }, `${prefix}…${lastFour}`);

// What the calls of a deprecated operation are.
export const callsNote = () =>
  element("p", { class: "note" }, "Every call counts, even one that was refused with 429 or failed.");

// The heading of a page, with its tags and actions.
export function head(title, { tags = [], actions = [] } = {}) {
  document.title = `${title} · Operator console`;
  return element("div", { class: "head" }, element("h1", {}, title), tags, actions.filter(Boolean).length > 0 && element("div", { class: "actions" }, actions));
}

// A part of a page. The title may be [title, button].
export function panel(title, ...children) {
  const [text, action] = [title].flat();
  const id = `panel-${text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}`;
  const heading = element("h2", { id }, text);
  return element("section", { class: "panel", "aria-labelledby": id }, action ? element("div", { class: "head" }, heading, element("div", { class: "actions" }, action)) : heading, ...children);
}

// The page of an account or a key that does not exist: a possible reason, and links.
export function missing(title, explanation, ...links) {
  return [head(title), element("p", { class: "lead" }, explanation), element("ul", {}, present(links).map((each) => element("li", {}, each)))];
}

// Pairs of name and value.
export function details(pairs, kind = "details") {
  return element("dl", { class: kind }, present(pairs).length > 0 && pairs.filter(Boolean).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

// A table; `columns` are [title, row → content, whether it is a number]. The first names the row. One of
// a few numbers is narrow: it stays a table on a phone.
export function table(columns, rows, { isNarrow = false } = {}) {
  const cell = (row) => ([title, content, isNumber], index) =>
    index === 0
      ? element("th", { scope: "row" }, content(row))
      : element("td", { "data-label": title, class: isNumber ? "number" : null }, content(row));
  return element(
    "table",
    { class: isNarrow ? "list narrow" : "list" },
    element("thead", {}, element("tr", {}, columns.map(([title, , isNumber]) => element("th", { scope: "col", class: isNumber ? "number" : null }, title)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, columns.map(cell(row))))),
  );
}

// A table that grows by a page with each click, with the total number of rows and their order above it.
// `load(pageToken)` returns { rows, next, total }; the total comes with the first page.
export async function growingTable(columns, load, { nothing, order = "newest first" }) {
  const { rows, next: second, total } = await load("");
  if (rows.length === 0) return element("p", { class: "nothing" }, nothing);
  const view = table(columns, rows);
  const more = element("button", { type: "button" }, "More");
  const count = element("p", { class: "note count" });
  const holder = element("div", {}, count, view, element("p", { class: "more" }, more));
  let next = second;
  const showCount = () => {
    const shown = view.tBodies[0].rows.length;
    const all = total === undefined ? (next ? "more" : shown) : Number(total);
    count.textContent = shown === all ? `${number(all)} in all, ${order}` : `${number(shown)} of ${typeof all === "number" ? number(all) : all}, ${order}`;
    more.hidden = !next;
  };
  showCount();
  more.addEventListener("click", async () => {
    more.disabled = true;
    try {
      const page = await load(next);
      const rows = [...table(columns, page.rows).tBodies[0].rows];
      view.tBodies[0].append(...rows);
      rows[0]?.querySelector("a")?.focus();
      next = page.next;
      showCount();
    } catch (error) {
      more.before(problem(error));
    }
    more.disabled = false;
  });
  return holder;
}

export const tag = (text, kind = "") => element("span", { class: `tag ${kind}` }, text);
export const bannedKeysTag = (count) => tag(count === 1 ? "1 key banned" : `${number(count)} keys banned`, "bad");
export const planTag = (account) => tag(capitalized(plan(account)));

// A revoked or expired key is refused anyway, so its ban is not shown.
export const isBanned = (key) => isActive(key) && Boolean(key.ban);

export function keyStateTag(key) {
  const state = word(key.state, "KEY_STATE");
  if (isBanned(key)) return tag("banned", "bad");
  return tag(state, { active: "good", revoked: "bad", expired: "warn" }[state]);
}

export function problem(error) {
  return element("p", { class: "callout error", role: "alert" }, error.message);
}

// For a part of a page: shows the failure in its place. Without a session there is no page.
export const orProblem = (part) =>
  part.catch((error) => {
    if (error.status === 401) throw error;
    return problem(error);
  });

// For the subject of an address: returns nothing if it does not exist, or if its name is not valid.
export function unlessMissing(error) {
  if (error.status !== 404 && error.status !== 400) throw error;
  return null;
}

// The used share of a window, as a bar; `end` says when it ends.
export function windowMeter(title, { limit, used, remaining }, end) {
  const [most, taken] = [Number(limit), Number(used)];
  const share = most > 0 ? Math.min(1, taken / most) : 0;
  const text = `${number(taken)} of ${number(most)} used, ${number(remaining)} left`;
  const fill = element("div", { class: "fill" });
  fill.style.width = `${share * 100}%`;
  return element(
    "div",
    { class: "meter" },
    element("p", {}, element("strong", {}, `${title}:`), ` ${text} `, element("span", {}, end)),
    element(
      "div",
      {
        class: `bar used ${share >= 1 ? "full" : share >= 0.8 ? "high" : ""}`,
        role: "meter",
        "aria-label": `${title}: requests used`,
        "aria-valuemin": "0",
        "aria-valuemax": String(most),
        "aria-valuenow": String(Math.min(taken, most)),
        "aria-valuetext": text,
      },
      fill,
    ),
  );
}

let fields = 0; // for identifiers: a dialog may have a field of the same name as the page behind it

// A labelled control in a form. Options are [value, title].
export function field(label, name, { options, hint, ...attributes } = {}) {
  const id = `field-${name}-${(fields += 1)}`;
  const hintId = hint && `${id}-hint`;
  const { value, ...others } = attributes;
  const control = options
    ? element("select", { id, name, "aria-describedby": hintId, ...others }, options.map(([each, title]) => element("option", { value: each, selected: each === value }, title)))
    : element("input", { id, name, type: "text", autocomplete: "off", spellcheck: "false", "aria-describedby": hintId, value, ...others });
  return element("div", { class: "field" }, element("label", { for: id }, label), control, hint && element("p", { class: "note", id: hintId }, hint));
}

// Announces a change to readers who do not see the page.
export function announce(text) {
  document.getElementById("announcement").textContent = text;
}
