// Requests by period as stacked bars, drawn as SVG, with the same numbers as a table.

import { element, present } from "./element.mjs";
import { number } from "./format.mjs";
import { table } from "./view.mjs";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [720, 190, 48, 26, 16]; // with room for the larger letters of phones

// From the bottom up: [class, member of a period's counts, meaning].
const PARTS = [
  ["s2", "succeeded", "2xx"],
  ["s4", "clientErrors", "4xx except 429"],
  ["s429", "refused", "429"],
  ["s5", "serverErrors", "5xx"],
];

// `periods` are { label, counts }, one for each bar, in order.
export function requestChart(title, periods) {
  const totals = periods.map(({ counts }) => total(counts));
  const most = niceTop(Math.max(1, ...totals));
  const sum = totals.reduce((all, each) => all + each, 0);
  const refused = periods.reduce((all, { counts }) => all + of(counts, "refused"), 0);
  if (sum === 0) return element("div", { class: "chart" }, element("p", { class: "nothing" }, "No requests were counted in this period."));
  const summary = `${title}: ${number(sum)} requests, of which ${number(refused)} were refused with 429; at most ${number(Math.max(0, ...totals))} in one bar.`;
  const step = (WIDTH - LEFT) / Math.max(1, periods.length);
  const height = (count) => ((HEIGHT - BOTTOM - TOP) * count) / most;
  const bars = periods.flatMap(({ label, counts }, index) => {
    let y = HEIGHT - BOTTOM;
    return PARTS.map(([kind, member, name]) => {
      const count = of(counts, member);
      if (count === 0) return null;
      y -= height(count);
      const bar = svg("rect", { class: kind, x: LEFT + index * step + step * 0.1, y, width: step * 0.8, height: Math.max(1, height(count)) });
      bar.append(svg("title", {}, `${label}: ${number(count)} × ${name}`));
      return bar;
    });
  });
  const lines = [0, most / 2, most].map((value) => {
    const y = HEIGHT - BOTTOM - height(value);
    return [svg("line", { x1: LEFT, x2: WIDTH, y1: y, y2: y }), svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, short(value))];
  });
  const labelled = [0, Math.floor((periods.length - 1) / 2), periods.length - 1].filter((each, index, all) => each >= 0 && all.indexOf(each) === index);
  const labels = labelled.map((index) =>
    svg("text", { x: LEFT + index * step + step / 2, y: HEIGHT - 6, "text-anchor": index === 0 ? "start" : index === periods.length - 1 ? "end" : "middle" }, periods[index].label),
  );
  return element(
    "div",
    { class: "chart" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": summary }, lines, bars, labels),
    element("ul", { class: "legend" }, PARTS.map(([kind, , name]) => element("li", { class: kind }, name))),
    element("details", {}, element("summary", {}, "As a table"), element("div", { class: "scrolls", tabindex: "0", role: "region", "aria-label": `${title} as a table` }, countsTable(periods))),
  );
}

function countsTable(periods) {
  const columns = PARTS.map(([, member, name]) => [name, ({ counts }) => number(of(counts, member)), true]);
  return table([["From", ({ label }) => label], ["All", ({ counts }) => number(total(counts)), true], ...columns], periods.toReversed());
}

const of = (counts, member) => Number(counts?.[member] ?? 0);
const total = (counts) => PARTS.reduce((sum, [, member]) => sum + of(counts, member), 0);

// Returns the smallest of 1, 2, 4, 5 or 10 times a power of ten that is not below the number; even if it is halved.
function niceTop(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return Math.max(2, [1, 2, 4, 5, 10].map((each) => each * power).find((each) => each >= most));
}

function short(value) {
  return value >= 1000 ? `${number(value / 1000)} k` : number(value);
}

function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...present(children));
  return node;
}

// Returns the periods from `first` on, `length` ms each, with zeros if nothing was reported. Shorter periods are added up.
export function filledIn(periods, { first, length, count, label }) {
  const sums = Array.from({ length: count }, () => ({}));
  for (const { startTime, counts } of periods) {
    const sum = sums[Math.floor((new Date(startTime) - first) / length)];
    for (const [, member] of sum ? PARTS : []) sum[member] = of(sum, member) + of(counts, member);
  }
  return sums.map((counts, index) => ({ label: label(new Date(first + index * length).toISOString()), counts }));
}
