// Questions before something is changed, and secrets that are shown once.

import { copyButton, element } from "./element.mjs";

// Asks before `act(values)` is called with the form's values. Stays open, with the reason, if that fails; returns what
// it returned, or undefined if the operator thought better of it.
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
      event.preventDefault(); // the content policy lets no form be sent
      submit.disabled = true;
      try {
        const result = await act(Object.fromEntries(new FormData(form)));
        done(result ?? true);
        remove(dialog);
      } catch (error) {
        problem.textContent = error.message;
      }
      submit.disabled = false;
    });
  });
}

// Shows a secret until the operator says that it is kept.
export function showSecret({ title, text, secret }) {
  const copy = copyButton("Copy it", () => secret);
  const button = element("button", { type: "button", class: "primary" }, "I have kept it");
  const dialog = modal(
    title,
    element("p", {}, text),
    element("p", {}, element("code", { class: "secret", tabindex: "0" }, secret)),
    element("div", { class: "actions" }, copy, button),
  );
  return new Promise((done) => {
    button.addEventListener("click", () => remove(dialog));
    dialog.addEventListener("cancel", (event) => event.preventDefault()); // not by Escape, for it cannot be shown again
    dialog.addEventListener("close", done);
  });
}

function modal(title, ...children) {
  const dialog = element("dialog", { "aria-labelledby": "dialog-title" }, element("h2", { id: "dialog-title" }, title), ...children);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// At once, with what it shows: the event `close` comes some time later.
function remove(dialog) {
  dialog.close();
  dialog.remove();
}
