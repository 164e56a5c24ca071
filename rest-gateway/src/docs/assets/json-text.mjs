// JSON laid out for reading, every token as it was received: JSON.parse would round integers above 2^53.

const TOKEN = /\s*("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:])/y;

// The text as a list of { kind, text } to be shown one after another, white space included; null if it is not JSON
// (it is then better shown as it is).
export function laidOut(json) {
  const tokens = split(json);
  if (!tokens) return null;
  const out = [];
  let depth = 0;
  const space = (text) => out.push({ kind: "space", text });
  const line = () => space("\n" + "  ".repeat(depth));
  for (const [index, text] of tokens.entries()) {
    const [before, after] = [tokens[index - 1], tokens[index + 1]];
    if (text === "}" || text === "]") {
      if (depth === 0) return null;
      depth -= 1;
      if (before !== "{" && before !== "[") line();
    }
    out.push({ kind: kindOf(text, after), text });
    if (text === "{" || text === "[") {
      depth += 1;
      if (after !== "}" && after !== "]") line();
    } else if (text === ",") {
      line();
    } else if (text === ":") {
      space(" ");
    }
  }
  return depth === 0 ? out : null;
}

function split(json) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  const end = json.trimEnd().length;
  let position = 0;
  while (position < end) {
    const match = TOKEN.exec(json);
    if (!match) return null;
    tokens.push(match[1]);
    position = TOKEN.lastIndex;
  }
  return tokens.length > 0 ? tokens : null;
}

function kindOf(text, after) {
  if (text.startsWith('"')) return after === ":" ? "member" : "string";
  if (/^[-\d]/.test(text)) return "number";
  return /^[a-z]/.test(text) ? "word" : "mark";
}
