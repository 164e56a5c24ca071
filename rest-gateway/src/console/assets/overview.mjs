// The state of the service: the last hour, this gateway, bans, deprecated calls. The gateway's own data is shown
// also while the core is away.

import { ApiError, getOverview, listBans, listDeprecatedUse } from "./api.mjs";
import { requestChart } from "./chart.mjs";
import { element } from "./element.mjs";
import { capitalized, date, hour, moment, number, time } from "./format.mjs";
import { quantile, samplesOf, sumOf } from "./metrics.mjs";
import { accountLink, details, head, keyLink, link, panel, table, tag } from "./view.mjs";

// Explanations of the states of a part.
const REASONS = {
  core: {
    degraded: "It does not answer. Keys that this gateway knows are still accepted, but pets, orders, accounts and the audit log are not available.",
    down: "It has not answered since this gateway started. Check that it runs, and that it accepts this gateway.",
  },
  database: { degraded: "It answers slowly.", down: "It does not answer within a second." },
  limiter: { degraded: "Redis does not answer. Each gateway limits by itself until it does.", down: "Redis does not answer, and requests are refused." },
};

export async function overviewPage() {
  const [busy, banned, deprecated, gateway] = await Promise.all([...[getOverview(), listBans({ pageSize: 5 }), listDeprecatedUse()].map(settled), thisGateway()]);
  const asOf = element("p", { class: "note" }, `As of ${time(new Date())}. Updates every 10 seconds.`);
  const failure = [busy, banned, deprecated].find(({ error }) => error)?.error;
  return [
    head("Overview", { tags: [asOf] }),
    failure && element("p", { class: "callout error" }, element("span", {}, failure.message)),
    panel("Requests of the last hour", shown(busy, requestsByMinute)),
    element(
      "div",
      { class: "panels" },
      panel("Refusals of the last hour", shown(busy, refusals), element("p", {}, link("/console/refusals", "Why was I refused?"), " answers for an account, a key or a request.")),
      panel("Health of this gateway", health(gateway)),
      panel("Requests to this gateway", ownCounts(gateway)),
      panel("Bans in force", shown(banned, bans)),
      panel("Calls of deprecated operations", shown(deprecated, deprecatedUse)),
    ),
  ];
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

function byReason(refusals) {
  if (refusals.length === 0) return nothing("Nothing was refused.");
  return table([["Reason", ({ code }) => element("code", {}, code)], ["Requests", ({ requests }) => number(requests), true]], mergedByCode(refusals));
}

// Two causes may have the same code.
function mergedByCode(refusals) {
  const merged = new Map();
  for (const { code, requests } of refusals) merged.set(code, (merged.get(code) ?? 0) + Number(requests));
  return [...merged].map(([code, requests]) => ({ code, requests })).sort((a, b) => b.requests - a.requests);
}

function byAccount(accounts) {
  if (accounts.length === 0) return null;
  const why = ({ account }) => link(`/console/refusals?subject=${encodeURIComponent(account)}`, "Why?");
  return [element("h3", {}, "Accounts refused with 429"), table([["Account", ({ account }) => accountLink(account)], ["Requests", ({ requests }) => number(requests), true], ["Answer", why]], accounts)];
}

// The health of this gateway, from its admin port.
async function thisGateway() {
  try {
    const [ready, metrics] = await Promise.all(["/readyz", "/metrics"].map((path) => fetch(path, { cache: "no-store" })));
    return { ...(await ready.json()), samples: metrics.ok ? samplesOf(await metrics.text()) : [] };
  } catch {
    throw new ApiError(0, "NO_ANSWER", "The gateway does not answer. Check that it runs, and that its admin port can be reached.");
  }
}

function health({ status, parts, samples }) {
  const [median, most] = [0.5, 0.99].map((share) => quantile(samples, DURATIONS, share));
  const milliseconds = (seconds) => (seconds === null ? "–" : `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`);
  return [
    details([["State", stateTag(status)], ["Median duration (p50)", milliseconds(median)], ["99 % within (p99)", milliseconds(most)]], "figures"),
    element("ul", {}, Object.entries(parts).map(([part, state]) => element("li", {}, `${capitalized(part)}: `, stateTag(state), " ", REASONS[part]?.[state] ?? ""))),
  ];
}

const DURATIONS = "http_server_request_duration_seconds";
const stateTag = (state) => tag(state, { ok: "good", degraded: "warn", down: "bad" }[state]);

// Counted by the gateway itself, so they are available without the core.
function ownCounts({ samples }) {
  const started = samples.find(([name]) => name === "process_start_time_seconds")?.[2];
  const requests = (labels) => number(sumOf(samples, `${DURATIONS}_count`, labels));
  return [
    details([["All", requests({})], ...["2xx", "4xx", "5xx"].map((status_class) => [status_class, requests({ status_class })]), ["In flight", number(sumOf(samples, "http_server_active_requests"))], ["Connections", number(sumOf(samples, "petstore_connections_open"))]], "figures"),
    element("p", { class: "note" }, "Counts and durations since this gateway started", started && [", ", moment(new Date(started * 1000).toISOString())], "."),
  ];
}

function bans({ bans = [], nextPageToken }) {
  if (bans.length === 0) return nothing("None.");
  return [
    table([["Key", (ban) => keyLink(ban.keyId, "…", ban.keyId.slice(-12))], ["Account", (ban) => accountLink(ban.account)], ["Until", (ban) => moment(ban.endTime)]], bans),
    nextPageToken && element("p", {}, link("/console/bans", "All bans")),
  ];
}

function deprecatedUse({ uses = [] }) {
  if (uses.length === 0) return nothing("None within the last 30 days.");
  return table([["Account", (use) => accountLink(use.account)], ["Operation", (use) => element("code", {}, use.operationId)], ["Calls in 30 days", (use) => number(use.calls), true], ["Last", (use) => date(use.lastDay)]], uses.slice(0, 20));
}
