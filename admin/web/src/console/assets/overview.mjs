// The state of the service: the last hour, this gateway, bans, deprecated calls. The gateway's own data is shown even
// while the core is away.

import { getHealth, getOverview, listAccountUsage, listBans, listBrownouts, listDeprecatedUse, listKeys } from "./api.mjs";
import { requestChart } from "./chart.mjs";
import { element } from "./element.mjs";
import { capitalized, date, hour, keyName, moment, number, time, word } from "./format.mjs";
import { accountLink, callsNote, details, head, keyEnd, keyLink, link, panel, shortKeyLink, table, tag } from "./view.mjs";

export async function overviewPage() {
  const expiringKeys = listKeys({ expiringWithin: "7d", pageSize: 5 });
  const unusedKeys = listKeys({ unusedFor: "30d", pageSize: 5 });
  const calls = [getOverview(), listBans({ pageSize: 5 }), listDeprecatedUse(), listBrownouts(), getHealth(), expiringKeys, unusedKeys, accountsNearLimit()];
  const [busy, banned, deprecated, planned, gateway, expiring, unused, full] = await Promise.all(calls.map(settled));
  if (gateway.error?.status === 0) throw gateway.error; // the gateway is away, so nothing is known
  const asOf = element("p", { class: "note" }, `As of ${time(new Date())}. Updates every 10 seconds.`);
  const failure = [busy, banned, deprecated, planned].find(({ error }) => error)?.error;
  return [
    head("Overview", { tags: [asOf] }),
    failure && element("p", { class: "callout error" }, element("span", {}, failure.message)),
    panel("Requests of the last hour", shown(busy, requestsByMinute)),
    element(
      "div",
      { class: "panels" },
      panel("Refusals of the last hour", shown(busy, refusals), element("p", {}, link("/console/refusals", "Refusals"), " of an account, a key or a request, with the remedy.")),
      panel("Requests to this gateway", shown(gateway, ({ requests }) => (requests ? ownCounts(requests) : nothing("Not known now.")))),
      panel("Health of this gateway", shown(gateway, health)),
      panel("Accounts near their limit of today", shown(full, nearLimit)),
      panel("Bans in force", shown(banned, bans)),
      panel("Keys that expire within 7 days", shown(expiring, keysIn("expiringWithin=7d", ["Expires", (key) => moment(key.expireTime)]))),
      panel("Keys unused for 30 days", shown(unused, keysIn("unusedFor=30d", ["Last used", (key) => moment(key.lastUseTime)]))),
      panel("Calls of deprecated operations", shown(deprecated, deprecatedUse), shown(planned, brownouts)),
    ),
  ];
}

// The accounts near their limits, at most a minute old: the core looks at every account that was used today, which
// may take it half a second.
let near = { at: -Infinity };
async function accountsNearLimit() {
  if (performance.now() - near.at >= 60_000) near = { value: await listAccountUsage({ nearLimit: true, pageSize: 100 }), at: performance.now() };
  return near.value;
}

// The value or the error of a part. Without a session there is no page.
async function settled(part) {
  try {
    return { value: await part };
  } catch (error) {
    if (error.status === 401) throw error;
    return { error };
  }
}

const nothing = (text) => element("p", { class: "nothing" }, text);
const shown = ({ value, error }, view) => (error ? nothing("Not known now.") : view(value));

function requestsByMinute({ minutes = [] }) {
  return requestChart("Requests by minute, UTC", minutes.map(({ startTime, counts }) => ({ label: hour(startTime), counts })));
}

function refusals({ refusals = [], refusedAccounts = [] }) {
  return [byReason(refusals), byAccount(refusedAccounts)];
}

// What refused a request, in words; the code is the one that its client received.
const CAUSES = {
  minute_limit: "Over the account’s limit per minute",
  day_limit: "Over the account’s limit per day",
  limiter_ban: "Key banned automatically: it kept sending after 429",
  operator_ban: "Key banned by an operator",
  account_suspended: "Account suspended",
  key_revoked: "Revoked key",
  key_expired: "Expired key",
  invalid_key: "Unknown key",
  missing_key: "No key",
  address_limit: "Too many requests without a valid key from one address",
  usage_limit: "Over the limit of requests for usage",
};

function byReason(refusals) {
  if (refusals.length === 0) return nothing("Nothing was refused.");
  const reason = ({ cause, code }) => [CAUSES[word(cause, "REFUSAL_CAUSE")], " ", element("code", {}, code)];
  return table([["Reason", reason], ["Requests", ({ requests }) => number(requests), true]], refusals);
}

function byAccount(accounts) {
  if (accounts.length === 0) return null;
  const why = ({ account }) => link(`/console/refusals?subject=${encodeURIComponent(account)}`, "Refusals");
  return [element("h3", {}, "Accounts refused with 429"), table([["Account", ({ account }) => accountLink(account)], ["Requests", ({ requests }) => number(requests), true], ["Why", why]], accounts)];
}

// The state of each part, and the reason unless it is ok.
function health({ status, parts = {}, causes = {} }) {
  return [
    details([["State", stateTag(status)]], "figures"),
    element("ul", {}, Object.entries(parts).map(([part, state]) => element("li", {}, `${capitalized(part)}: `, stateTag(state), " ", causes[part]?.message ?? ""))),
  ];
}

const stateTag = (state) => tag(state, { ok: "good", degraded: "warn", down: "bad" }[state]);

// Counted by the gateway itself, so they are available without the core.
function ownCounts({ startTime, inFlight, lastFiveMinutes, sinceStart }) {
  const milliseconds = (seconds) => (seconds === null ? "–" : `${number((seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0))} ms`);
  const rows = [
    ["All", ({ requests }) => number(requests)],
    ["2xx", ({ byStatus }) => number(byStatus["2xx"])],
    ["4xx except 429", ({ byStatus }) => number(byStatus["4xx"])],
    ["429", ({ byStatus }) => number(byStatus["429"])],
    ["5xx", ({ byStatus }) => number(byStatus["5xx"])],
    ["Median (p50)", ({ p50 }) => milliseconds(p50)],
    ["99 % within (p99)", ({ p99 }) => milliseconds(p99)],
  ];
  const columns = [["Responses", ([name]) => name], ["Last 5 minutes", ([, value]) => value(lastFiveMinutes), true], ["Since its start", ([, value]) => value(sinceStart), true]];
  return [table(columns, rows, { isNarrow: true }), element("p", { class: "note" }, `${number(inFlight)} in flight now. It started `, moment(startTime), ".")];
}

function bans({ bans = [], nextPageToken }) {
  if (bans.length === 0) return nothing("None.");
  return [
    table([["Key", (ban) => shortKeyLink(ban.keyId)], ["Account", (ban) => accountLink(ban.account)], ["Until", (ban) => moment(ban.endTime)]], bans),
    nextPageToken && element("p", {}, link("/console/bans", "All bans")),
  ];
}

// The accounts that have used at least 80 % of their day, the fullest first. Responses with 429 do not count against it.
function nearLimit({ usage = [], nextPageToken }) {
  if (usage.length === 0) return nothing("None.");
  const used = ({ counts: { succeeded, clientErrors, serverErrors } }) => succeeded + clientErrors + serverErrors;
  const share = (it) => Math.floor((used(it) * 100) / it.dayLimit);
  const fullest = usage.toSorted((a, b) => share(b) - share(a)).slice(0, 20);
  const more = nextPageToken ? "More than 100" : `${number(usage.length)} in all`;
  return [
    table([["Account", (it) => accountLink(it.account)], ["Used", (it) => number(used(it)), true], ["Limit per day", (it) => number(it.dayLimit), true], ["Share", (it) => `${share(it)} %`, true]], fullest),
    element("p", { class: "note" }, `${more}, at most a minute ago. `, element("code", {}, "petstore usage --near-limit"), " lists them."),
  ];
}

// The newest keys that match, and a link to all.
const keysIn = (query, column) => ({ keys = [], totalSize }) =>
  keys.length === 0
    ? nothing("None.")
    : [
        table([["Key", (key) => [keyLink(key.id, keyName(key)), " ", keyEnd(key)]], ["Account", (key) => accountLink(key.account)], column], keys),
        element("p", {}, link(`/console/keys?${query}`, `All ${number(totalSize ?? keys.length)}`)),
      ];

// A count that an older core does not report.
const known = (count) => (count === undefined ? "–" : number(count));

function deprecatedUse({ uses = [] }) {
  if (uses.length === 0) return nothing("None within the last 30 days.");
  const columns = [
    ["Account", (use) => accountLink(use.account)],
    ["Operation", (use) => element("code", {}, use.operationId)],
    ["Calls in 30 days", (use) => number(use.calls), true],
    ["In 7 days", (use) => known(use.recentCalls), true],
    ["Other requests", (use) => known(use.otherRequests), true],
    ["Last", (use) => date(use.lastDay)],
  ];
  return [callsNote(), table(columns, uses.slice(0, 20))];
}

// Rehearsals of a removal. Operators plan them with `petstore brownout`.
function brownouts({ brownouts = [] }) {
  if (brownouts.length === 0) return null;
  const whose = ({ account }) => (account ? accountLink(account) : "All accounts");
  return [element("h3", {}, "Brownouts"), table([["Operation", (it) => element("code", {}, it.operationId)], ["Account", whose], ["From", (it) => moment(it.startTime)], ["Until", (it) => moment(it.endTime)]], brownouts)];
}
