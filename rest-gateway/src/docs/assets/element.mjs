// Builds the page out of nodes: text never becomes markup, so nothing that a server sends can either.

// An element. Attributes `on…` are listeners; false, null and undefined stand for no attribute or no child.
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...present(children));
  return node;
}

// Returns the children that exist, flattened.
export function present(children) {
  return children.flat(Infinity).filter((child) => child != null && child !== false);
}

export function code(text) {
  return element("code", {}, text);
}

// Renders the Markdown that descriptions use: `code` and **strong**.
export function prose(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) => {
    if (part.startsWith("`")) return code(part.slice(1, -1));
    if (part.startsWith("**")) return element("strong", {}, part.slice(2, -2));
    return part;
  });
}

// Names that belong together, with commas.
export function listed(nodes) {
  return nodes.flatMap((node, index) => (index === 0 ? [node] : [", ", node]));
}

// A heading that links to its part of the page, so that a reader can pass on the address.
export function heading(tag, id, ...children) {
  return element(tag, { id: `${id}-title` }, element("a", { class: "anchor", href: `#${id}` }, ...children));
}

// A block of text that can also be scrolled with the keyboard.
export function block(label, ...children) {
  return element("pre", { tabindex: "0", role: "region", "aria-label": label }, element("code", {}, ...children));
}

// A button that copies what `text` returns. Browsers offer the clipboard only to secure pages; elsewhere it is left
// out.
export function copyButton(label, text) {
  if (!navigator.clipboard) return null;
  const button = element("button", { type: "button", class: "quiet copy", "aria-label": label }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text()).catch(() => {});
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}
