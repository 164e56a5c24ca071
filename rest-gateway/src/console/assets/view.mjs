// What the pages are made of.

import { element, present } from "./element.mjs";
import { capitalized, number, plan, word } from "./format.mjs";

export const link = (href, ...children) => element("a", { href }, ...children);
export const accountLink = (name) => link(`/console/accounts/${encodeURIComponent(name)}`, name);
export const keyLink = (id, ...children) => link(`/console/keys/${encodeURIComponent(id)}`, ...(children.length > 0 ? children : [element("code", {}, id)]));

// The heading of a page, what it is about and what can be done.
export function head(title, { tags = [], actions = [] } = {}) {
  document.title = `${title} · Operator console`;
  return element("div", { class: "head" }, element("h1", {}, title), tags, actions.filter(Boolean).length > 0 && element("div", { class: "actions" }, actions));
}

export function panel(title, ...children) {
  const id = `panel-${title.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-")}`;
  return element("section", { class: "panel", "aria-labelledby": id }, element("h2", { id }, title), ...children);
}

// Pairs of name and value.
export function details(pairs, kind = "details") {
  return element("dl", { class: kind }, present(pairs).length > 0 && pairs.filter(Boolean).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

// A table; `columns` are [title, row → content, whether it is a number]. The first names the row.
export function table(columns, rows) {
  const cell = (row) => ([title, content, isNumber], index) =>
    index === 0
      ? element("th", { scope: "row" }, content(row))
      : element("td", { "data-label": title, class: isNumber ? "number" : null }, content(row));
  return element(
    "table",
    { class: "list" },
    element("thead", {}, element("tr", {}, columns.map(([title, , isNumber]) => element("th", { scope: "col", class: isNumber ? "number" : null }, title)))),
    element("tbody", {}, rows.map((row) => element("tr", {}, columns.map(cell(row))))),
  );
}

// A table that grows by a page with each press. `load(pageToken)` returns { rows, next }.
export async function growingTable(columns, load, nothing) {
  const first = await load("");
  if (first.rows.length === 0) return element("p", { class: "nothing" }, nothing);
  const view = table(columns, first.rows);
  const more = element("button", { type: "button" }, "More");
  const holder = element("div", {}, view, element("p", { class: "more" }, more));
  let next = first.next;
  more.hidden = !next;
  more.addEventListener("click", async () => {
    more.disabled = true;
    try {
      const page = await load(next);
      const rows = [...table(columns, page.rows).tBodies[0].rows];
      view.tBodies[0].append(...rows);
      rows[0]?.querySelector("a")?.focus();
      next = page.next;
      more.hidden = !next;
    } catch (error) {
      more.before(problem(error));
    }
    more.disabled = false;
  });
  return holder;
}

export const tag = (text, kind = "") => element("span", { class: `tag ${kind}` }, text);
export const planTag = (account) => tag(capitalized(plan(account)));

export function keyStateTag(key) {
  const state = word(key.state, "KEY_STATE");
  if (key.ban) return tag("banned", "bad");
  return tag(state, { active: "good", revoked: "bad", expired: "warn" }[state]);
}

export function problem(error) {
  return element("p", { class: "callout error", role: "alert" }, error.message);
}

// How much of a window is used, as a bar.
export function windowMeter(title, { limit, used, remaining, resetsAt }, until) {
  const [most, taken] = [Number(limit), Number(used)];
  const share = most > 0 ? Math.min(1, taken / most) : 0;
  const text = `${number(taken)} of ${number(most)} used, ${number(remaining)} left`;
  const fill = element("div", { class: "fill" });
  fill.style.width = `${share * 100}%`;
  return element(
    "div",
    { class: "meter" },
    element("p", {}, element("strong", {}, `${title}:`), ` ${text} `, element("span", {}, "ends ", until(resetsAt))),
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

// Says something to a reader who does not see the page change.
export function announce(text) {
  document.getElementById("announcement").textContent = text;
}
