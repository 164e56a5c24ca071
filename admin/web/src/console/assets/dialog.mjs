// Questions before something is changed, and secrets that are shown once.

import { copyButton, element } from "./element.mjs";
import { signInForm, whyEnded } from "./session.mjs";

// Asks before `act(values)` is called with the form's values. Stays open, with the reason, if that fails; returns what
// it returned, or undefined if the operator cancels. A session that has ended is opened again above it.
export function ask({ title, text, fields = [], confirm, isDestructive = false, act }) {
  const problem = element("p", { class: "problem", role: "alert" });
  const cancel = element("button", { type: "button" }, "Cancel");
  const submit = element("button", { type: "submit", class: isDestructive ? "primary danger" : "primary" }, confirm);
  const form = element("form", { autocomplete: "off" }, text && element("p", {}, text), fields, problem, element("div", { class: "actions" }, cancel, submit));
  const dialog = modal(title, form);
  return new Promise((done) => {
    cancel.addEventListener("click", () => remove(dialog));
    dialog.addEventListener("close", () => done(undefined));
    form.addEventListener("submit", async (event) => {
      event.preventDefault(); // the content policy forbids submitting forms
      submit.disabled = true;
      try {
        const result = await act(Object.fromEntries(new FormData(form)));
        done(result ?? true);
        remove(dialog);
      } catch (error) {
        problem.textContent = error.message;
        if (error.status === 401) {
          const operator = await signInAgain(error);
          problem.textContent = operator ? `You are signed in as ${operator.name}. Nothing was changed yet: press “${confirm}” again.` : "Nothing was changed: your session has ended.";
        }
      }
      submit.disabled = false;
    });
  });
}

// Signs in above the question, so that its input is kept: its session ended with this error. Resolves to the operator, or to null if the operator cancels.
function signInAgain(error) {
  return new Promise((done) => {
    const cancel = element("button", { type: "button", onclick: () => dialog.close() }, "Not now");
    const signedIn = (operator) => {
      done(operator);
      dialog.close();
    };
    const form = signInForm({ because: whyEnded(error) || "Your session has ended.", cancel, signedIn });
    const dialog = modal("Sign in again", element("p", {}, "What you have typed is kept."), form);
    dialog.addEventListener("close", () => done(null));
  });
}

// Shows a secret until the operator confirms that it is stored.
export function showSecret({ title, text, secret }) {
  const copy = copyButton("Copy it", () => secret);
  const button = element("button", { type: "button", class: "primary" }, "I’ve saved it");
  const dialog = modal(
    title,
    element("p", {}, text),
    element("p", {}, element("code", { class: "secret", tabindex: "0" }, secret)),
    element("div", { class: "actions" }, copy, button),
  );
  return new Promise((done) => {
    button.addEventListener("click", () => remove(dialog));
    dialog.addEventListener("cancel", (event) => event.preventDefault()); // Escape must not close it: the secret cannot be shown again
    dialog.addEventListener("close", done);
  });
}

let dialogs = 0; // for identifiers: one may open above another

function modal(title, ...children) {
  const id = `dialog-title-${(dialogs += 1)}`;
  const dialog = element("dialog", { "aria-labelledby": id }, element("h2", { id }, title), ...children);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Removes the dialog at once: the event `close` comes later.
function remove(dialog) {
  dialog.close();
  dialog.remove();
}
