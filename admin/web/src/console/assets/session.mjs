// The sign-in form, and the reason why a session has ended.

import { getHealth, signIn } from "./api.mjs";
import { element } from "./element.mjs";
import { capitalized } from "./format.mjs";
import { announce } from "./view.mjs";

const LASTS_MS = 8 * 3_600_000;
const OPENED = "petstore-console-session"; // when this browser opened its session: a moment, no secret
const HEALTH_INTERVAL_MS = 5_000;

const FAILURES = {
  401: "This is not the valid token of an operator: it may have expired, or been revoked or replaced. Ask another admin for a new one.",
  429: "There were too many failed attempts from your address. Wait a minute, and try again.",
};

// Returns the reason why there is no session, which a request with this error found; empty if this browser had none.
export function whyEnded(error) {
  if (error?.code === "SEVERAL_SESSIONS") return error.message;
  const opened = Number(kept());
  if (!opened) return "";
  if (Date.now() - opened >= LASTS_MS) return "Your session has ended: it lasts 8 hours. Sign in to continue where you were.";
  return "Your session has ended before its 8 hours: its operator's token was revoked or has expired, it was not used for an hour, an admin ended it, you signed out in another window, or 50 newer sessions were opened. Sign in to continue where you were.";
}

export function forgetSession() {
  keep(null);
}

// The form; `signedIn(operator)` is called when it has succeeded.
export function signInForm({ because, cancel, signedIn }) {
  const id = `token${document.querySelectorAll("dialog").length || ""}`;
  const input = element("input", { id, type: "password", autocomplete: "current-password", spellcheck: "false", required: true, placeholder: "pet_op_…", "aria-describedby": `${id}-note` });
  const problem = element("p", { class: "problem", role: "alert" });
  const button = element("button", { type: "submit", class: "primary" }, "Sign in");
  const form = element(
    "form",
    {},
    because && element("p", { class: "callout warning", role: "status" }, element("span", {}, because)),
    coreNotice(),
    element("input", { type: "text", autocomplete: "username", value: "operator", hidden: true }), // for password managers
    element(
      "div",
      { class: "field" },
      element("label", { for: id }, "Operator token"),
      input,
      element("p", { class: "note", id: `${id}-note` }, "An admin creates it, on the page Operators or with ", element("code", {}, "petstore operator create"), ". It is sent to this gateway only, and the browser does not keep it. A session lasts 8 hours, and ends after an hour without use."),
    ),
    problem,
    element("div", { class: "actions" }, cancel, button),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault(); // the content policy forbids submitting forms
    button.disabled = true;
    try {
      const operator = await signIn(input.value.trim());
      input.value = "";
      keep(Date.now());
      signedIn(operator);
    } catch (error) {
      problem.textContent = FAILURES[error.status] ?? error.message;
      input.focus();
    }
    button.disabled = false;
  });
  return form;
}

// A warning while no session can be opened. It appears and disappears automatically.
function coreNotice() {
  const text = element("span");
  const notice = element("p", { class: "callout warning", role: "status", hidden: true }, text);
  const look = async () => {
    const obstacle = await obstacleToSignIn();
    if (!notice.hidden && !obstacle) announce("You can sign in again.");
    notice.hidden = !obstacle;
    const shown = obstacle && `${obstacle} Signing in may fail until then. This page looks again every 5 seconds.`;
    if (text.textContent !== shown) text.textContent = shown; // a screen reader hears it once
    setTimeout(() => notice.isConnected && look(), HEALTH_INTERVAL_MS);
  };
  look();
  return notice;
}

// Returns why opening a session may fail now; empty if nothing is known to be wrong. The database is a part only of a
// gateway in one process with its core.
async function obstacleToSignIn() {
  try {
    const { parts = {}, causes = {} } = await getHealth();
    const part = ["core", "database"].find((each) => (parts[each] ?? "ok") !== "ok");
    return part ? (causes[part]?.message ?? `${capitalized(part)}: ${parts[part]}.`) : "";
  } catch (error) {
    return error.status === 404 ? "" : error.message; // a gateway of 1.0.0 does not say
  }
}

// With blocked storage there is no reason to show, but signing in works.
function kept() {
  try {
    return localStorage.getItem(OPENED);
  } catch {
    return null;
  }
}

function keep(opened) {
  try {
    if (opened === null) localStorage.removeItem(OPENED);
    else localStorage.setItem(OPENED, String(opened));
  } catch {
    // storage is blocked
  }
}
