// Values for people. Times are UTC, as in logs and in responses to customers.

import { element } from "./element.mjs";

const DATE = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeZone: "UTC" });
const TIME = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short", timeZone: "UTC" });
const SECOND = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" });
const HOUR = new Intl.DateTimeFormat("en-GB", { timeStyle: "short", timeZone: "UTC" });

export const number = (value) => Number(value ?? 0).toLocaleString("en-US");
export const date = (iso) => DATE.format(new Date(iso));
export const time = (iso) => `${new Date(iso).toISOString().slice(11, 19)} UTC`;
export const hour = (iso) => `${HOUR.format(new Date(iso))} UTC`;

// Formats a time to the minute, or returns the placeholder if there is none.
export function moment(iso, none = "never") {
  return iso ? momentIn(TIME, iso) : element("span", { class: "nothing" }, none);
}

// Returns the text with the times in it as people write them.
export const withTimes = (text) => text.split(/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/).map((part, index) => (index % 2 === 1 ? second(part) : part));

// Formats a time to the second.
export const second = (iso) => momentIn(SECOND, iso);

const momentIn = (format, iso) => element("time", { datetime: iso, title: `${iso}, ${relative(iso)}` }, `${format.format(new Date(iso))} UTC`);

// Formats a time such as "in 5 minutes" or "3 days ago".
export function relative(iso) {
  const seconds = Math.round((new Date(iso) - Date.now()) / 1000);
  const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
  for (const [unit, length] of [["day", 86_400], ["hour", 3_600], ["minute", 60]]) {
    if (Math.abs(seconds) >= length) return words.format(Math.trunc(seconds / length), unit);
  }
  return words.format(seconds, "second");
}

// The word of an enumeration's value, such as "free" of PLAN_FREE.
export function word(value, prefix) {
  return (value ?? "").replace(new RegExp(`^${prefix}_`), "").toLowerCase();
}

export const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);
export const plan = (account) => word(account.plan, "PLAN");

// The limits of an account, such as "60 a minute, 1,000 a day".
export function limits(account) {
  const { perMinute, perDay } = account.limits ?? {};
  return perMinute ? `${number(perMinute)} a minute, ${number(perDay)} a day` : "";
}

// The name of a key on every page: its label, if it has one, and the end of its identifier. The beginning is the time of
// its creation, so keys made together begin alike.
export const keyName = ({ id, label }) => `${label ? `${label} ` : ""}…${id.slice(-12)}`;
export const isActive = (key) => word(key.state, "KEY_STATE") === "active";
