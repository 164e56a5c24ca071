// Changes by operators.

import { filters } from "./accounts.mjs";
import { listAuditEvents } from "./api.mjs";
import { element } from "./element.mjs";
import { capitalized, second } from "./format.mjs";
import { accountLink, field, growingTable, head, keyLink, link } from "./view.mjs";

export async function auditPage({ parameters }) {
  const [operator, account, key, from, to] = ["operator", "account", "key", "from", "to"].map((each) => parameters.get(each) ?? "");
  const load = async (pageToken) => {
    const { events = [], nextPageToken, totalSize } = await listAuditEvents({ operator, account, keyId: key, startTime: midnight(from), endTime: midnight(to, 1), pageSize: 50, pageToken });
    return { rows: events, next: nextPageToken, total: totalSize };
  };
  const columns = [
    ["When", (event) => second(event.createTime)],
    ["Who", (event) => [link(`/console/audit?operator=${encodeURIComponent(event.operator)}`, event.operator), event.clientAddress && ` from ${event.clientAddress}`, event.clientCertificate && ` over ${event.clientCertificate}`]],
    ["What", (event) => spaced(event.action)],
    ["To", target],
    ["Change", changes],
  ];
  return [
    head("Audit"),
    filters(
      field("Operator", "operator", { type: "search", value: operator }),
      field("Account", "account", { type: "search", value: account }),
      field("From day (UTC)", "from", { type: "date", value: from }),
      field("To day (UTC)", "to", { type: "date", value: to }),
      key && field("Key", "key", { value: key }),
    ),
    element("section", { class: "panel", "aria-label": "Events found" }, await growingTable(columns, load, { nothing: "No changes match." })),
  ];
}

// The beginning of a day, or of the day `later` days after it.
function midnight(day, later = 0) {
  if (day === "") return "";
  return new Date(Date.parse(`${day}T00:00:00Z`) + later * 86_400_000).toISOString();
}

// "SuspendAccount" as "Suspend account".
function spaced(action) {
  return capitalized(action.replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase());
}

function target(event) {
  const parts = [
    event.account && accountLink(event.account),
    event.keyId && ["key ", keyLink(event.keyId)],
    event.targetOperator && ["operator ", event.targetOperator],
  ];
  return parts.filter(Boolean).map((part) => element("div", {}, part));
}

// An event is as tall as a few of its changes; the others unfold.
const SHOWN_CHANGES = 4;
const SHOWN_ELSEWHERE = ["id", "createTime"]; // in the columns of the subject and the time

// The members that differ, before and after.
function changes(event) {
  const [before, { old, new: made, ...others }] = [event.beforeJson, event.afterJson].map(parsed);
  // A rotation reports two keys: the old one in its present state, and the new one.
  const after = { ...others, ...old, ...named("new key's ", made) };
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => !SHOWN_ELSEWHERE.includes(name) && text(before[name]) !== text(after[name]));
  const list = (names) => element("ul", { class: "changes" }, names.map((name) => element("li", {}, `${spaced(name)}: `, change(before, after, name))));
  if (names.length === 0) return "";
  if (names.length <= SHOWN_CHANGES) return list(names);
  const [first, rest] = [names.slice(0, SHOWN_CHANGES), names.slice(SHOWN_CHANGES)];
  return [list(first), element("details", { class: "changes" }, element("summary", {}, `${rest.length} more`), list(rest))];
}

function change(before, after, name) {
  return [
    name in before && element("del", {}, shown(before[name])),
    name in before && name in after && " → ",
    name in after && element("ins", {}, shown(after[name])),
  ];
}

const named = (prefix, members) => Object.fromEntries(Object.entries(members ?? {}).map(([name, value]) => [prefix + name, value]));

function parsed(json) {
  try {
    return JSON.parse(json || "{}") ?? {};
  } catch {
    return {};
  }
}

const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const shown = (value) => (MOMENT.test(value) ? second(value) : text(value));
const text = (value) => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
