// Signs the operator in, and shows the page that belongs to the path.

import { accountPage } from "./account.mjs";
import { accountsPage } from "./accounts.mjs";
import { currentOperator, signIn, signOut } from "./api.mjs";
import { auditPage } from "./audit.mjs";
import { element, present } from "./element.mjs";
import { word } from "./format.mjs";
import { keyPage } from "./key.mjs";
import { bansPage, keysPage } from "./keys.mjs";
import { operatorsPage } from "./operators.mjs";
import { overviewPage } from "./overview.mjs";
import { refusalsPage } from "./refusals.mjs";
import { announce, problem } from "./view.mjs";

// [pattern of the path, page, title in the navigation]. What the pattern captures is the page's first argument.
const PAGES = [
  [/^\/console$/, overviewPage, "Overview", "/console"],
  [/^\/console\/accounts$/, accountsPage, "Accounts", "/console/accounts"],
  [/^\/console\/accounts\/([^/]+)$/, accountPage],
  [/^\/console\/keys$/, keysPage, "Keys", "/console/keys"],
  [/^\/console\/keys\/([^/]+)$/, keyPage],
  [/^\/console\/bans$/, bansPage, "Bans", "/console/bans"],
  [/^\/console\/refusals$/, refusalsPage, "Why refused?", "/console/refusals"],
  [/^\/console\/audit$/, auditPage, "Audit", "/console/audit"],
  [/^\/console\/operators$/, operatorsPage, "Operators", "/console/operators"],
];

const place = (id) => document.getElementById(id);
const content = place("content");

start();

async function start() {
  try {
    const operator = await currentOperator();
    showFrame(operator);
    await showPage(operator);
  } catch (error) {
    if (error.status === 401) showSignIn();
    else content.replaceChildren(problem(error));
  }
}

// The page; drawn anew by `again`, which every page gets to call after a change.
async function showPage(operator) {
  const [pattern, page] = PAGES.find(([each]) => each.test(location.pathname)) ?? PAGES[0];
  const subject = decodeURIComponent(location.pathname.match(pattern)?.[1] ?? "");
  const isAdmin = word(operator.role, "ROLE") === "admin";
  const draw = async () => {
    content.setAttribute("aria-busy", "true");
    try {
      const view = await page({ subject, isAdmin, operator, again, parameters: new URLSearchParams(location.search) });
      content.replaceChildren(...present([view]));
    } catch (error) {
      if (error.status === 401) return showSignIn("Your session has ended. Sign in again.");
      content.replaceChildren(problem(error));
    } finally {
      content.removeAttribute("aria-busy");
    }
  };
  const again = async (told) => {
    await draw();
    if (told) announce(told);
    content.focus({ preventScroll: true });
  };
  await draw();
}

function showFrame(operator) {
  const navigation = place("navigation");
  navigation.replaceChildren(
    ...PAGES.filter(([, , title]) => title).map(([pattern, , title, href]) => {
      const isHere = pattern.test(location.pathname) || (href !== "/console" && location.pathname.startsWith(`${href}/`));
      return element("a", { href, "aria-current": isHere ? "page" : null }, title);
    }),
  );
  navigation.hidden = false;
  const leave = async () => {
    const failure = await signOut().then(() => null, (error) => error);
    showSignIn(failure ? `You are signed out of this browser, but the session could not be ended: ${failure.message} It ends by itself within 8 hours.` : "");
  };
  place("session").replaceChildren(
    element("span", {}, operator.name, isViewer(operator) ? " (viewer)" : ""),
    element("button", { type: "button", class: "quiet", onclick: leave }, "Sign out"),
  );
}

const isViewer = (operator) => word(operator.role, "ROLE") === "viewer";

const SIGN_IN_REFUSALS = {
  401: "This is not the token of an operator, or it was revoked.",
  429: "There were too many failed attempts from your address. Wait a minute, and try again.",
};

function showSignIn(because = "") {
  document.title = "Sign in · Operator console";
  place("navigation").hidden = true;
  place("session").replaceChildren();
  const input = element("input", { id: "token", type: "password", autocomplete: "current-password", spellcheck: "false", required: true, placeholder: "pet_op_…", "aria-describedby": "token-note" });
  const told = element("p", { class: "problem", role: "alert" }, because);
  const button = element("button", { type: "submit", class: "primary" }, "Sign in");
  const form = element(
    "form",
    {},
    element("input", { type: "text", autocomplete: "username", value: "operator", hidden: true }), // for password managers
    element(
      "div",
      { class: "field" },
      element("label", { for: "token" }, "Operator token"),
      input,
      element("p", { class: "note", id: "token-note" }, "It is sent to this gateway only, and not kept by the browser. A session lasts 8 hours."),
    ),
    told,
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault(); // the content policy lets no form be sent
    button.disabled = true;
    try {
      await signIn(input.value.trim());
      input.value = "";
      await start();
      content.focus({ preventScroll: true });
    } catch (error) {
      told.textContent = SIGN_IN_REFUSALS[error.status] ?? error.message;
      input.focus();
    }
    button.disabled = false;
  });
  content.replaceChildren(element("section", { class: "panel sign-in", "aria-labelledby": "sign-in" }, element("h1", { id: "sign-in" }, "Sign in"), form));
  input.focus();
}
