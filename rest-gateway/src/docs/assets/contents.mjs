// The navigation beside the page, which marks where the reader is.

import { element } from "./element.mjs";
import { methodBadge } from "./operation.mjs";

// Adds entries to those of the page, and from then on marks the reader's position.
export function showContents({ topics, operations, types }) {
  const list = document.getElementById("contents");
  list.append(
    ...topics.map(({ id, topic }) => entry(id, topic)),
    ...group("Operations", operations.map(({ id, method, summary, deprecated }) =>
      entry(id, methodBadge(method), element("span", { class: deprecated ? "struck" : null }, summary)),
    )),
    ...group("Data types", types.map((name) => entry(name, name))),
  );
  follow(list);
}

function group(title, entries) {
  return [element("li", { class: "group" }, title), ...entries];
}

function entry(id, ...children) {
  return element("li", {}, element("a", { href: `#${id}` }, ...children));
}

// Marks the entry whose part of the page was reached last: the last one that begins in the upper third of the window.
function follow(list) {
  const links = [...list.querySelectorAll("a")];
  const parts = links.map((link) => document.getElementById(link.hash.slice(1)));
  let current;
  const mark = () => {
    const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const line = isAtEnd ? innerHeight : innerHeight / 3;
    const last = parts.findLastIndex((part) => part && part.getBoundingClientRect().top <= line);
    const link = links[Math.max(0, last)];
    if (link === current) return;
    current?.removeAttribute("aria-current");
    link.setAttribute("aria-current", "location");
    current = link;
    reveal(link, list.closest("nav"));
  };
  let isPending = false;
  addEventListener("scroll", () => {
    if (isPending) return;
    isPending = true;
    requestAnimationFrame(() => {
      isPending = false;
      mark();
    });
  }, { passive: true });
  addEventListener("resize", mark);
  mark();
}

// Scrolls the navigation alone, down or sideways, so that the entry can be seen.
function reveal(link, nav) {
  const [inner, outer] = [link.getBoundingClientRect(), nav.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) nav.scrollTop += inner.top - outer.top - outer.height / 2;
  if (inner.left < outer.left || inner.right > outer.right) nav.scrollLeft += inner.left - outer.left - 16;
}
