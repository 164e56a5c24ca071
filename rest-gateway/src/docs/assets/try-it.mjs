// The form that sends an operation, with programs that do the same.

import { answerView, failureView } from "./answer.mjs";
import { apiKey, rest, secondsToRest, watch } from "./api-key.mjs";
import { element } from "./element.mjs";
import { number } from "./rate-limit.mjs";
import { requestOf, send } from "./request.mjs";
import { samplesView } from "./samples.mjs";

// A form for the operation. `idPrefix` keeps ids apart where an operation is on the page twice.
export function tryIt(api, operation, { idPrefix = operation.id, sendLabel = "Send" } = {}) {
  const fields = operation.parameters
    .filter((parameter) => ["path", "query", "header"].includes(parameter.in))
    .map((parameter) => field(api, parameter, `${idPrefix}-${parameter.name}`));
  const body = operation.body && bodyField(operation.body, `${idPrefix}-body`);
  const request = () =>
    requestOf(operation, Object.fromEntries(fields.map(({ name, input }) => [name, input.value])), body?.input.value);

  const samples = samplesView(idPrefix);
  const showSamples = () => samples.show(request());
  const button = element("button", { type: "submit", class: "primary" }, sendLabel);
  const keyNote = element("p", { class: "note" });
  const answer = element("div", { class: "answer" });
  const announced = element("p", { class: "unseen", role: "status" });
  const form = element(
    "form",
    { class: "try", autocomplete: "off", "aria-label": `Try ${operation.method} ${operation.base}${operation.path}` },
    fields.map(({ view }) => view),
    body?.view,
    element("div", { class: "send" }, button, keyNote),
    announced,
    answer,
    samples.view,
  );

  let running = false;
  const submit = async () => {
    if (running || secondsToRest() > 0) return;
    running = true;
    form.setAttribute("aria-busy", "true");
    let nodes;
    try {
      const result = await send(request(), apiKey());
      const retryAfter = Number(result.headers.get("Retry-After"));
      if (result.status === 429 && retryAfter > 0) rest(retryAfter);
      announced.textContent = `Response: ${result.status} ${result.reason}`;
      nodes = answerView(result, (cursor) => {
        fields.find(({ name }) => name === "cursor").input.value = cursor;
        showSamples();
        submit();
      });
    } catch (error) {
      announced.textContent = "There was no response";
      nodes = failureView(error);
    }
    answer.replaceChildren(...nodes.filter(Boolean));
    form.removeAttribute("aria-busy");
    running = false;
  };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  form.addEventListener("input", showSamples);
  showSamples();
  watch(() => {
    const seconds = secondsToRest();
    button.setAttribute("aria-disabled", String(seconds > 0));
    button.textContent = seconds > 0 ? `Wait ${number(seconds)} s` : sendLabel;
    keyNote.replaceChildren(
      ...(apiKey() === ""
        ? ["Without a key the response is 401. ", element("a", { href: "#api-key", onclick: () => document.getElementById("api-key").focus() }, "Paste one")]
        : ["With your key"]),
    );
  });
  return form;
}

// Input is sent unchanged, including errors, because the form also shows how errors are answered.
function field(api, parameter, id) {
  const schema = api.resolve(parameter.schema);
  const attributes = { id, required: parameter.in === "path" && parameter.required, autocomplete: "off", spellcheck: "false" };
  const input = schema.enum
    ? element("select", attributes, element("option", { value: "" }, "any"), schema.enum.map((value) => element("option", { value }, value)))
    : element("input", {
        ...attributes,
        type: "text",
        inputmode: schema.type === "integer" ? "numeric" : null,
        placeholder: schema.default === undefined ? null : String(schema.default),
        value: parameter.example === undefined ? null : String(parameter.example),
      });
  const control = parameter.name === "Idempotency-Key" ? element("div", { class: "key-row" }, input, makeKeyButton(input)) : input;
  return { name: parameter.name, input, view: element("div", { class: "field" }, element("label", { for: id }, parameter.name), control) };
}

// Fills the field with a new key.
function makeKeyButton(input) {
  const fill = () => {
    input.value = newUuid();
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  return element("button", { type: "button", onclick: fill }, "Generate");
}

// A random UUID, version 4. Browsers have crypto.randomUUID for pages over HTTPS only.
function newUuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function bodyField({ examples }, id) {
  const texts = examples.map(([, value]) => JSON.stringify(value, null, 2));
  const input = element("textarea", { id, rows: String(Math.max(5, ...texts.map((text) => text.split("\n").length))), spellcheck: "false", autocomplete: "off" });
  input.value = texts[0] ?? "";
  const choose = (text) => {
    input.value = text;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const buttons = examples.map(([name], index) =>
    element("button", { type: "button", class: "quiet", onclick: () => choose(texts[index]) }, `Example: ${name}`),
  );
  return {
    input,
    view: element("div", { class: "field wide" }, element("label", { for: id }, "Request body (JSON)"), input, buttons.length > 1 && element("div", { class: "choices" }, buttons)),
  };
}
