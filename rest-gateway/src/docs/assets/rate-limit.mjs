// What is left of the two windows, from the fields RateLimit and RateLimit-Policy.

import { element } from "./element.mjs";

const NAMES = { minute: "this minute", day: "today (UTC)" };

// Both windows: { name, limit, remaining, seconds until it ends }.
export function windowsOf(headers) {
  const limits = new Map();
  for (const [, name, limit] of (headers.get("RateLimit-Policy") ?? "").matchAll(/"(\w+)";q=(\d+)/g)) {
    limits.set(name, Number(limit));
  }
  return [...(headers.get("RateLimit") ?? "").matchAll(/"(\w+)";r=(\d+);t=(\d+)/g)].map(
    ([, name, remaining, seconds]) => ({
      name,
      limit: limits.get(name) ?? 0,
      remaining: Number(remaining),
      seconds: Number(seconds),
    }),
  );
}

// A bar for each window.
export function meters(headers) {
  const windows = windowsOf(headers);
  if (windows.length === 0) return null;
  return element("div", { class: "meters" }, windows.map(meter));
}

function meter({ name, limit, remaining, seconds }) {
  const share = limit > 0 ? Math.min(1, remaining / limit) : 0;
  const text = `${number(remaining)} of ${number(limit)} left ${NAMES[name] ?? name}`;
  const fill = element("div", { class: "fill" });
  fill.style.width = `${share * 100}%`;
  const bar = element(
    "div",
    {
      class: `bar ${share === 0 ? "empty" : share <= 0.2 ? "low" : ""}`,
      role: "meter",
      "aria-label": `Requests left ${NAMES[name] ?? name}`,
      "aria-valuemin": "0",
      "aria-valuemax": String(limit),
      "aria-valuenow": String(remaining),
      "aria-valuetext": text,
    },
    fill,
  );
  return element("div", { class: "meter" }, element("p", {}, text, element("span", {}, ` resets in ${span(seconds)}`)), bar);
}

export function number(value) {
  return value.toLocaleString("en-US");
}

// Such as "42 s", "5 min" or "8 h 21 min".
export function span(seconds) {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
