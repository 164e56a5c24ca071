// Shows the page that belongs to the path, to an operator who is signed in.

import { accountPage } from "./account.mjs";
import { accountsPage } from "./accounts.mjs";
import { currentOperator, signOut } from "./api.mjs";
import { auditPage } from "./audit.mjs";
import { element, present } from "./element.mjs";
import { time, word } from "./format.mjs";
import { findPage } from "./find.mjs";
import { keyPage } from "./key.mjs";
import { bansPage, keysPage } from "./keys.mjs";
import { operatorsPage } from "./operators.mjs";
import { overviewPage } from "./overview.mjs";
import { refusalsPage } from "./refusals.mjs";
import { forgetSession, signInForm, whyEnded } from "./session.mjs";
import { announce, head, link } from "./view.mjs";

// By the pattern of the path; what it captures is the subject of the page. Those with `href` are in the navigation. A live
// page is drawn again by itself, and shows what it can while the core is away.
const PAGES = [
  { pattern: /^\/console\/?$/, page: overviewPage, title: "Overview", href: "/console", isLive: true },
  { pattern: /^\/console\/accounts$/, page: accountsPage, title: "Accounts", href: "/console/accounts" },
  { pattern: /^\/console\/accounts\/([^/]+)$/, page: accountPage, title: "Account" },
  { pattern: /^\/console\/keys$/, page: keysPage, title: "Keys", href: "/console/keys" },
  { pattern: /^\/console\/find-keys$/, page: findPage, title: "Whose key is this?" },
  { pattern: /^\/console\/keys\/([^/]+)$/, page: keyPage, title: "Key" },
  { pattern: /^\/console\/bans$/, page: bansPage, title: "Bans in force", href: "/console/bans", inNavigation: "Bans" },
  { pattern: /^\/console\/refusals$/, page: refusalsPage, title: "Why was a request refused?", href: "/console/refusals", inNavigation: "Refusals" },
  { pattern: /^\/console\/audit$/, page: auditPage, title: "Audit", href: "/console/audit" },
  { pattern: /^\/console\/operators$/, page: operatorsPage, title: "Operators", href: "/console/operators" },
];
const NO_PAGE = { pattern: /^/, page: missingPage, title: "There is no such page" };

const REFRESH_MS = 10_000;
const RETRY_MS = 5_000;

const place = (id) => document.getElementById(id);
const content = place("content");
const otherWindows = new BroadcastChannel("petstore-console");

let operator = null; // unknown until the core has answered
let isShown = false; // whether `content` has the page of this path
let drawing = 0; // the number of the last drawing: one that was overtaken shows nothing
let timer;

otherWindows.addEventListener("message", () => showSignIn("You signed out in another window."));
// Chromium keeps whole pages for Back and Forward. They leave without what they show, and are drawn anew: so Back shows
// nothing to a person who has signed out.
addEventListener("pagehide", () => {
  clearTimeout(timer);
  drawing += 1;
  clear();
});
addEventListener("pageshow", ({ persisted }) => persisted && draw());
draw();

function clear() {
  operator = null;
  isShown = false;
  document.querySelectorAll("dialog").forEach((dialog) => dialog.remove());
  content.replaceChildren();
  place("session").replaceChildren();
}

// Draws the page, for the first time or again.
async function draw() {
  clearTimeout(timer);
  const mine = (drawing += 1);
  const here = PAGES.find(({ pattern }) => pattern.test(location.pathname)) ?? NO_PAGE;
  content.setAttribute("aria-busy", "true");
  let [view, failure] = [null, null];
  try {
    operator = await currentOperator().catch((error) => {
      if (error.status === 401 || !here.isLive) throw error;
      return operator;
    });
    view = await here.page({ subject: subjectOf(here), isAdmin: isAdmin(), operator, again, parameters: new URLSearchParams(location.search) });
  } catch (error) {
    failure = error;
  }
  if (mine !== drawing) return;
  content.removeAttribute("aria-busy");
  if (failure?.status === 401) return showSignIn(whyEnded(failure));
  showFrame(here);
  if (failure) showFailure(here, failure);
  else {
    if (isShown) replaceInPlace(view);
    else content.replaceChildren(...present([view]));
    isShown = true;
  }
  if (failure || here.isLive) drawIn(failure ? RETRY_MS : REFRESH_MS);
}

// Hidden windows send no requests.
function drawIn(delay) {
  timer = setTimeout(() => (document.hidden || isInUse() ? drawIn(delay) : draw()), delay);
}

const isInUse = () => document.querySelector("dialog") !== null || (!getSelection().isCollapsed && content.contains(getSelection().anchorNode));

// Draws the page after a change, and announces the change.
async function again(change) {
  await draw();
  if (change) announce(change);
  content.focus({ preventScroll: true });
}

// Replaces the old view by the new one, and keeps the focus and what was unfolded.
function replaceInPlace(view) {
  const parts = (selector) => [...content.querySelectorAll(selector)];
  const FOCUSABLE = "a[href], button, input, select, summary, [tabindex]";
  const focused = parts(FOCUSABLE).indexOf(document.activeElement);
  const unfolded = parts("details").map((each) => each.open);
  content.replaceChildren(...present([view]));
  parts("details").forEach((each, index) => (each.open = unfolded[index] ?? false));
  if (focused >= 0) parts(FOCUSABLE)[focused]?.focus({ preventScroll: true });
}

// Shows the failure, the time of the last attempt, and that the page tries again. The previous content stays.
function showFailure(here, { message }) {
  const tried = `Last tried at ${time(new Date())}. This page tries again every 5 seconds.`;
  const shown = content.querySelector(".failure");
  if (shown?.querySelector("[role=alert]").textContent === message) {
    shown.querySelector(".note").textContent = tried; // a screen reader hears the failure once
    return;
  }
  shown?.remove();
  const notice = element(
    "div",
    { class: "callout error failure" },
    element("p", { role: "alert" }, message),
    element("p", { class: "note" }, tried),
    element("button", { type: "button", onclick: draw }, "Try now"),
  );
  if (isShown) content.prepend(notice);
  else content.replaceChildren(head(heading(here)), notice);
}

const heading = (here) => [here.title, subjectOf(here)].filter(Boolean).join(" ");

function subjectOf({ pattern }) {
  const written = location.pathname.match(pattern)?.[1] ?? "";
  try {
    return decodeURIComponent(written);
  } catch {
    return written; // no text: no account and no key has it as its name
  }
}

function missingPage() {
  return [
    head(NO_PAGE.title),
    element("p", { class: "lead" }, "The console has no page at ", element("code", {}, location.pathname), ". The address may be misspelt, or belong to another release."),
    element("p", {}, link("/console", "Go to the overview")),
  ];
}

const isAdmin = () => word(operator?.role, "ROLE") === "admin";

function showFrame(here) {
  const navigation = place("navigation");
  if (navigation.hidden) {
    const isHere = (href) => here.href === href || (href !== "/console" && location.pathname.startsWith(`${href}/`));
    const links = PAGES.filter(({ href }) => href);
    navigation.replaceChildren(...links.map(({ href, title, inNavigation }) => element("a", { href, "aria-current": isHere(href) ? "page" : null }, inNavigation ?? title)));
    navigation.hidden = false;
  }
  if (place("session").dataset.of === operator?.name && place("session").firstChild) return;
  place("session").dataset.of = operator?.name ?? "";
  place("session").replaceChildren(
    ...present([
      operator && element("span", {}, operator.name, !isAdmin() && " (viewer)"),
      element("button", { type: "button", class: "quiet", onclick: leave }, "Sign out"),
    ]),
  );
}

async function leave() {
  const failure = await signOut().then(() => null, (error) => error);
  forgetSession();
  otherWindows.postMessage("signed out");
  showSignIn(failure ? `This browser is signed out, but the session itself could not be ended: ${failure.message} It ends by itself within 8 hours.` : "");
}

function showSignIn(because) {
  clearTimeout(timer);
  drawing += 1;
  clear();
  document.title = "Sign in · Operator console";
  place("navigation").hidden = true;
  const signedIn = async () => {
    await draw();
    content.focus({ preventScroll: true });
  };
  const form = signInForm({ because, signedIn });
  content.replaceChildren(element("section", { class: "panel sign-in", "aria-labelledby": "sign-in" }, element("h1", { id: "sign-in" }, "Sign in"), form));
  form.querySelector("[type=password]").focus();
}
