// A request as programs in several languages, all made from the same values. The key is in an environment variable:
// command lines are seen by others and kept in a history.

import { copyButton, element } from "./element.mjs";
import { curlOf } from "./request.mjs";

// [name as the style sheet has it, title, the program that sends `request` to `origin`].
export const LANGUAGES = [
  ["curl", "curl", curlOf],
  ["python", "Python", pythonOf],
  ["javascript", "JavaScript", javascriptOf],
  ["go", "Go", goOf],
];

// Python's standard library only.
export function pythonOf(request, origin) {
  const headers = Object.entries(request.headers).map(([name, value]) => `        ${literal(name)}: ${literal(value)},`);
  return [
    "import os",
    "import sys",
    "import urllib.error",
    "import urllib.request",
    "",
    "request = urllib.request.Request(",
    `    ${literal(origin + request.path)},`,
    `    method=${literal(request.method)},`,
    "    headers={",
    '        "Authorization": "Bearer " + os.environ["PETSTORE_API_KEY"],',
    ...headers,
    "    },",
    ...(request.body === undefined ? [] : [`    data=${literal(request.body)}.encode(),`]),
    ")",
    "try:",
    "    with urllib.request.urlopen(request, timeout=10) as response:",
    "        print(response.status, response.read().decode())",
    "except urllib.error.HTTPError as refused:",
    '    sys.exit(f"{refused.code} {refused.read().decode()}")',
  ].join("\n");
}

// Node.js 20 or newer.
export function javascriptOf(request, origin) {
  const headers = Object.entries(request.headers).map(([name, value]) => `    ${literal(name)}: ${literal(value)},`);
  return [
    `const response = await fetch(${literal(origin + request.path)}, {`,
    `  method: ${literal(request.method)},`,
    "  headers: {",
    "    Authorization: `Bearer ${process.env.PETSTORE_API_KEY}`,",
    ...headers,
    "  },",
    ...(request.body === undefined ? [] : [`  body: ${literal(request.body)},`]),
    "});",
    "console.log(response.status, await response.text());",
  ].join("\n");
}

export function goOf(request, origin) {
  const hasBody = request.body !== undefined;
  const body = hasBody ? `strings.NewReader(${literal(request.body)})` : "nil";
  const imports = ["fmt", "io", "log", "net/http", "os", ...(hasBody ? ["strings"] : [])];
  const headers = Object.entries(request.headers).map(([name, value]) => `\trequest.Header.Set(${literal(name)}, ${literal(value)})`);
  return [
    "package main",
    "",
    "import (",
    ...imports.map((name) => `\t${literal(name)}`),
    ")",
    "",
    "func main() {",
    `\trequest, err := http.NewRequest(${literal(request.method)}, ${literal(origin + request.path)}, ${body})`,
    "\tif err != nil {",
    "\t\tlog.Fatal(err)",
    "\t}",
    '\trequest.Header.Set("Authorization", "Bearer "+os.Getenv("PETSTORE_API_KEY"))',
    ...headers,
    "\tresponse, err := http.DefaultClient.Do(request)",
    "\tif err != nil {",
    "\t\tlog.Fatal(err)",
    "\t}",
    "\tdefer response.Body.Close()",
    "\ttext, err := io.ReadAll(response.Body)",
    "\tif err != nil {",
    "\t\tlog.Fatal(err)",
    "\t}",
    "\tfmt.Println(response.StatusCode, string(text))",
    "}",
  ].join("\n");
}

// A text as a literal of Python, JavaScript and Go alike: JSON's escapes are a subset of each. A lone surrogate, which
// no request can hold, becomes U+FFFD as in the browser.
function literal(text) {
  return JSON.stringify(text.toWellFormed());
}

// The language is chosen once for the whole page.
let chosen = LANGUAGES[0][0];
const views = new Set();

// The programs, of which the chosen one is shown; `show(request)` puts a request into them. `name` is unique on the page.
export function samplesView(name) {
  const radios = LANGUAGES.map(([language]) =>
    element("input", { type: "radio", name: `${name}-language`, value: language, checked: language === chosen, onchange: () => choose(language) }),
  );
  const programs = LANGUAGES.map(() => element("code", {}));
  const shown = () => programs[LANGUAGES.findIndex(([language]) => language === chosen)].textContent;
  views.add(radios);
  return {
    view: element(
      "div",
      { class: "sample" },
      element(
        "div",
        { class: "caption" },
        element(
          "fieldset",
          { class: "languages" },
          element("legend", { class: "unseen" }, "The same request as a program"),
          LANGUAGES.map(([, title], index) => element("label", {}, radios[index], title)),
        ),
        copyButton("Copy the program", shown),
      ),
      LANGUAGES.map(([language, title], index) =>
        element("pre", { "data-language": language, tabindex: "0", role: "region", "aria-label": `${title} program` }, programs[index]),
      ),
    ),
    show: (request) => LANGUAGES.forEach(([, , programOf], index) => (programs[index].textContent = programOf(request, location.origin))),
  };
}

function choose(language) {
  chosen = language;
  for (const radios of views) for (const radio of radios) radio.checked = radio.value === language;
}
