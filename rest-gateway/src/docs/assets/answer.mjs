// The response: status, its meaning, what is left of the limits, header fields and body.

import { block, code, element, prose } from "./element.mjs";
import { laidOut } from "./json-text.mjs";
import { meters, span } from "./rate-limit.mjs";

// The header fields that are shown, in this order, if the response has them.
const SHOWN = [
  "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Scope",
  "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-Id", "Link", "X-Next-Cursor", "Location",
  "Deprecation", "Sunset", "X-Stability", "X-Api-Key-Expires", "Idempotency-Replayed", "WWW-Authenticate", "Allow", "Content-Type",
];

// Returns the response as nodes. `goTo(cursor)` is called when the reader asks for the next page.
export function answerView(answer, goTo) {
  const { status, reason, headers, text, milliseconds } = answer;
  const cursor = headers.get("X-Next-Cursor");
  return [
    element(
      "p",
      { class: "status" },
      element("strong", { class: `badge s${Math.floor(status / 100)}` }, `${status} ${reason}`.trim()),
      element("span", {}, `${milliseconds} ms`),
    ),
    explanation(answer),
    meters(headers),
    element("p", { class: "label" }, "Headers"),
    element(
      "dl",
      { class: "headers" },
      SHOWN.filter((name) => headers.has(name)).map((name) =>
        element("div", {}, element("dt", {}, name), element("dd", {}, headers.get(name), remark(name, headers.get(name)))),
      ),
    ),
    element("p", { class: "label" }, "Body"),
    text === "" ? element("p", {}, "None.") : block("Response body", json(text)),
    cursor && element("p", {}, element("button", { type: "button", onclick: () => goTo(cursor) }, "Next page")),
  ];
}

// Returns the text that is shown if there is no response.
export function failureView(error) {
  const reason = error.name === "TimeoutError" ? "No response within 15 seconds." : `The request could not be sent: ${error.message}.`;
  return [element("p", { class: "callout error" }, reason)];
}

// Returns JSON as received except for the white space between tokens, and any other text unchanged.
export function json(text) {
  return laidOut(text)?.map(({ kind, text: token }) => (kind === "space" ? token : element("span", { class: `j-${kind}` }, token))) ?? [text];
}

// Returns the path of the page about an error code.
export function errorLink(name) {
  return element("a", { href: new URL(`../errors/${name}`, import.meta.url) }, code(name));
}

function explanation({ status, headers, text }) {
  if (status < 400) return null;
  const error = errorOf(text);
  const wait = Number(headers.get("Retry-After"));
  return element(
    "div",
    { class: "callout error" },
    error && element("p", {}, error.message),
    wait > 0 && element("p", {}, ...waiting(status, wait)),
    error && element("p", {}, element("a", { href: new URL(`../errors/${error.code}`, import.meta.url) }, "What ", code(error.code), " means and what to do")),
  );
}

function waiting(status, seconds) {
  const until = clockTime(Date.now() + seconds * 1000);
  const text = `**Wait ${span(seconds)}**, until ${until}: \`Retry-After\` says so.`;
  return prose(status === 429 ? `${text} Sending on regardless may get the key banned, so this page waits too.` : text);
}

// The Error object's code and message. Numbers do not matter here, so JSON.parse may read it.
function errorOf(text) {
  try {
    const { code: name, message } = JSON.parse(text);
    return /^[A-Z][A-Z0-9_]*$/.test(name) && typeof message === "string" ? { code: name, message } : null;
  } catch {
    return null;
  }
}

// Returns the meaning of a value, for people.
function remark(name, value) {
  if (name === "X-RateLimit-Reset") return element("span", { class: "remark" }, clockTime(Number(value) * 1000));
  if (name === "Retry-After") return element("span", { class: "remark" }, "seconds");
  return null;
}

function clockTime(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString("en-GB");
}
