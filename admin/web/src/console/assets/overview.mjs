// The state of the service: the last hour, this gateway, bans, deprecated calls. The health of the gateway is shown
// even while the core is away.

import { getHealth, getOverview, listAccountUsage, listBans, listBrownouts, listDeprecatedUse, listKeys } from "./api.mjs";
import { requestChart } from "./chart.mjs";
import { element } from "./element.mjs";
import { capitalized, date, hour, moment, number, time, word } from "./format.mjs";
import { accountLink, callsNote, details, head, keyLink, link, panel, table, tag } from "./view.mjs";

// Every part but the health: its title, its data, and how it is shown.
const PARTS = [
  ["Requests of the last hour", getOverview, requestsByMinute],
  ["Refusals of the last hour", getOverview, refusals],
  ["Accounts near their limit of today", accountsNearLimit, nearLimit],
  ["Bans in force", () => listBans({ pageSize: 5 }), bans],
  ["Keys that expire within 7 days", () => listKeys({ expiringWithin: "7d", pageSize: 5 }), keysIn("expiringWithin=7d", ["Expires", (key) => moment(key.expireTime)])],
  ["Keys unused for 30 days", () => listKeys({ unusedFor: "30d", pageSize: 5 }), keysIn("unusedFor=30d", ["Last used", (key) => moment(key.lastUseTime)])],
  ["Calls of deprecated operations", () => Promise.all([listDeprecatedUse(), listBrownouts()]), ([used, planned]) => [deprecatedUse(used), brownouts(planned)]],
];

// What is wrong comes first. Of parts that are not known, only the titles are shown.
export async function overviewPage() {
  const gateway = settled(getHealth());
  const calls = new Map([...new Set(PARTS.map(([, load]) => load))].map((load) => [load, settled(load())]));
  const parts = await Promise.all(PARTS.map(async ([title, load, view]) => ({ title, view, ...(await calls.get(load)) })));
  const { value, error } = await gateway;
  if (error?.status === 0) throw error; // the gateway is away, so nothing is known
  const failure = parts.find((part) => part.error)?.error;
  if (failure) near = null; // what was known before is no longer news
  const isKnown = (part) => !part.error && !(failure && part.view === nearLimit);
  const unknown = parts.filter((part) => !isKnown(part)).map(({ title }) => title.charAt(0).toLowerCase() + title.slice(1));
  const [chart, ...others] = parts.map((part) => isKnown(part) && panel(part.title, part.view(part.value)));
  const state = value && panel("Health of this gateway", health(value));
  const isWell = !failure && value?.status === "ok";
  return [
    head("Overview", { tags: [element("p", { class: "note" }, `As of ${time(new Date())}. Updates every 10 seconds.`)] }),
    failure && element("p", { class: "callout error" }, element("span", {}, `${failure.message} Not known now: ${unknown.join(", ")}.`)),
    !isWell && state,
    chart,
    element("div", { class: "panels" }, others, isWell && state),
  ];
}

// The accounts near their limits, at most a minute old: the core looks at every account that was used today, which
// may take it half a second.
let near = null;
async function accountsNearLimit() {
  if (!near || performance.now() - near.at >= 60_000) near = { value: await listAccountUsage({ nearLimit: true, pageSize: 100 }), at: performance.now() };
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

function requestsByMinute({ minutes = [] }) {
  return requestChart("Requests by minute, UTC", minutes.map(({ startTime, counts }) => ({ label: hour(startTime), counts })));
}

function refusals({ refusals = [], refusedAccounts = [] }) {
  const why = element("p", {}, link("/console/refusals", "Refusals"), " of an account, a key or a request, with the remedy.");
  return [byReason(refusals), byAccount(refusedAccounts), why];
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
  insufficient_scope: "Read-only key used to write",
  address_not_allowed: "Key used from an address that it is not for",
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
    element("ul", {}, Object.entries(parts).map(([part, state]) => element("li", {}, `${part === "grpc" ? "gRPC port" : capitalized(part)}: `, stateTag(state), " ", causes[part]?.message ?? ""))),
  ];
}

const stateTag = (state) => tag(state, { ok: "good", degraded: "warn", down: "bad" }[state]);

function bans({ bans = [], nextPageToken }) {
  if (bans.length === 0) return nothing("None.");
  return [
    table([["Key", (ban) => keyLink(ban.keyId)], ["Account", (ban) => accountLink(ban.account)], ["Until", (ban) => moment(ban.endTime)]], bans),
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
function keysIn(query, column) {
  return ({ keys = [], totalSize }) =>
    keys.length === 0
      ? nothing("None.")
      : [
          table([["Key", (key) => keyLink(key.id, key.label)], ["Account", (key) => accountLink(key.account)], column], keys),
          element("p", {}, link(`/console/keys?${query}`, `All ${number(totalSize ?? keys.length)}`)),
        ];
}

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
