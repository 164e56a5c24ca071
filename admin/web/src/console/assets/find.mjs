// Whose key is this? Finds the owners of the keys in a text.

import { findKeys } from "./api.mjs";
import { element } from "./element.mjs";
import { moment } from "./format.mjs";
import { accountLink, head, keyEnds, keyLink, keyStateTag, problem, table } from "./view.mjs";

// Only what has the form of a key leaves the browser, even where two overlap; the gateway checks the rest.
const CANDIDATE = /(?=(pet_(?:live|test)_[0-9A-Za-z]{36}))/g;
const MOST = 1_000; // candidates in a request, whose body has at most 64 KiB

const UNKNOWN = { unknown: "unknown here", other_environment: "of the other environment" };

export function findPage() {
  const text = element("textarea", { id: "leaked", name: "text", rows: "8", required: true, autocomplete: "off", spellcheck: "false", "aria-describedby": "leaked-note" });
  const result = element("section", { class: "panel", "aria-label": "Keys found", hidden: true });
  const button = element("button", { type: "submit", class: "primary" }, "Find");
  const form = element(
    "form",
    { autocomplete: "off" },
    element("div", { class: "field" }, element("label", { for: "leaked" }, "Text with keys"), text, element("p", { class: "note", id: "leaked-note" }, "Any text, such as a leaked file. Its keys are neither stored nor logged.")),
    element("div", { class: "actions" }, button),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault(); // the content policy forbids submitting forms
    button.disabled = true;
    try {
      result.replaceChildren(shown(await findAll(text.value)));
      text.value = "";
    } catch (error) {
      result.replaceChildren(problem(error));
    }
    result.hidden = false;
    button.disabled = false;
  });
  return [head("Whose key is this?"), form, result];
}

async function findAll(text) {
  // Between the letters of a text that was UTF-16 there may be zeros.
  const texts = [text, text.replaceAll("\0", "")];
  const candidates = [...new Set(texts.flatMap((it) => [...it.matchAll(CANDIDATE)].map(([, key]) => key)))];
  const found = [];
  for (let start = 0; start < candidates.length; start += MOST) {
    const { keys = [] } = await findKeys(candidates.slice(start, start + MOST).join("\n"));
    found.push(...keys);
  }
  return found;
}

function shown(findings) {
  if (findings.length === 0) return element("p", { class: "nothing", role: "status" }, "The text has no whole key.");
  const columns = [
    ["Begins and ends with", keyEnds],
    ["Key", ({ key }) => key && keyLink(key.id, key.label)],
    ["Account", ({ key, finding }) => (key ? accountLink(key.account) : UNKNOWN[finding])],
    ["State", ({ key }) => key && keyStateTag(key)],
    ["Last used", ({ key }) => key && moment(key.lastUseTime)],
    ["To revoke it", ({ revokeCommand }) => revokeCommand && element("code", {}, revokeCommand)],
  ];
  return table(columns, findings);
}
