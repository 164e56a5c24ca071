// How the service does: the last hour, this gateway, bans, deprecated calls.

import { getOverview, listBans, listDeprecatedUse } from "./api.mjs";
import { requestChart } from "./chart.mjs";
import { element } from "./element.mjs";
import { capitalized, date, hour, moment, number } from "./format.mjs";
import { quantile, samplesOf } from "./metrics.mjs";
import { accountLink, details, head, keyLink, link, panel, problem, table, tag } from "./view.mjs";

// Why a part is as it is.
const REASONS = {
  core: { degraded: "The core does not answer just now. Keys that this gateway knows are still served.", down: "The core has not answered yet. Is it running, and does it accept this gateway?" },
  database: { degraded: "The database answers slowly.", down: "The database does not answer within a second." },
  limiter: { degraded: "Redis does not answer: each gateway limits by itself until it does.", down: "Redis does not answer, and requests are refused." },
};

export async function overviewPage() {
  const ask = (part) => part.catch((error) => problem(error));
  const [busy, healthy, banned, deprecated] = await Promise.all([lastHour(), health(), bans(), deprecatedUse()].map(ask));
  return [
    head("Overview"),
    panel("Requests of the last hour", busy.chart ?? busy),
    element(
      "div",
      { class: "panels" },
      panel("Refusals of the last hour", busy.refusals ?? "", element("p", {}, link("/console/refusals", "Why was I refused?"), " tells it for an account, a key or a request.")),
      panel("Health of this gateway", healthy),
      panel("Bans in force", banned),
      panel("Who still calls deprecated operations", deprecated),
    ),
  ];
}

async function lastHour() {
  const { minutes = [], refusals = [], refusedAccounts = [] } = await getOverview();
  const periods = minutes.map(({ startTime, counts }) => ({ label: hour(startTime), counts }));
  return { chart: requestChart("Requests by minute, UTC", periods), refusals: [byReason(refusals), byAccount(refusedAccounts)] };
}

function byReason(refusals) {
  if (refusals.length === 0) return element("p", { class: "nothing" }, "Nothing was refused.");
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
  return [element("h3", {}, "Accounts answered with 429"), table([["Account", ({ account }) => accountLink(account)], ["Requests", ({ requests }) => number(requests), true], ["Answer", why]], accounts)];
}

async function health() {
  const [ready, metrics] = await Promise.all([fetch("/readyz", { cache: "no-store" }), fetch("/metrics", { cache: "no-store" })]);
  const { status, parts } = await ready.json();
  const samples = metrics.ok ? samplesOf(await metrics.text()) : [];
  const durations = [0.5, 0.99].map((share) => quantile(samples, "http_server_request_duration_seconds", share));
  const milliseconds = (seconds) => (seconds === null ? "–" : `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`);
  return [
    details([["State", stateTag(status)], ["Median duration (p50)", milliseconds(durations[0])], ["99 % within (p99)", milliseconds(durations[1])]], "figures"),
    element("ul", {}, Object.entries(parts).map(([part, state]) => element("li", {}, `${capitalized(part)}: `, stateTag(state), " ", REASONS[part]?.[state] ?? ""))),
    element("p", { class: "note" }, "Durations are those of all requests to this gateway since it started."),
  ];
}

const stateTag = (state) => tag(state, { ok: "good", degraded: "warn", down: "bad" }[state]);

async function bans() {
  const { bans = [], nextPageToken } = await listBans({ pageSize: 5 });
  if (bans.length === 0) return element("p", { class: "nothing" }, "None.");
  return [
    table([["Key", (ban) => keyLink(ban.keyId, "…", ban.keyId.slice(-12))], ["Account", (ban) => accountLink(ban.account)], ["Until", (ban) => moment(ban.endTime)]], bans),
    nextPageToken && element("p", {}, link("/console/bans", "All bans")),
  ];
}

async function deprecatedUse() {
  const { uses = [] } = await listDeprecatedUse();
  if (uses.length === 0) return element("p", { class: "nothing" }, "Nobody, within the last 30 days.");
  return table([["Account", (use) => accountLink(use.account)], ["Operation", (use) => element("code", {}, use.operationId)], ["Calls in 30 days", (use) => number(use.calls), true], ["Last", (use) => date(use.lastDay)]], uses.slice(0, 20));
}
