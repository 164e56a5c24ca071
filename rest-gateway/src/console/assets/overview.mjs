// How the service does: the last hour, this gateway, bans, deprecated calls.

import { getUsage, listBans, listDeprecatedUse } from "./api.mjs";
import { filledIn, requestChart } from "./chart.mjs";
import { element } from "./element.mjs";
import { date, hour, moment, number } from "./format.mjs";
import { answersByCode, quantile, samplesOf } from "./metrics.mjs";
import { accountLink, details, head, keyLink, link, panel, problem, table, tag } from "./view.mjs";

const MINUTE = 60_000;

// Why a part is as it is.
const REASONS = {
  core: { degraded: "The core does not answer just now. Keys that this gateway knows are still served.", down: "The core has not answered yet. Is it running, and does it accept this gateway?" },
  database: { degraded: "The database answers slowly.", down: "The database does not answer within a second." },
  limiter: { degraded: "Redis does not answer: each gateway limits by itself until it does.", down: "Redis does not answer, and requests are refused." },
};

// Codes with which the limiter and the check of keys refuse.
const REFUSALS = /^(RATE_LIMITED|QUOTA_EXCEEDED|API_KEY_BANNED|ACCOUNT_SUSPENDED|MISSING_API_KEY|INVALID_API_KEY|API_KEY_REVOKED|API_KEY_EXPIRED|OVERLOADED|LIMITER_UNAVAILABLE)$/;

export async function overviewPage() {
  const parts = await Promise.all([lastHour(), health(), refusals(), bans(), deprecated()].map((part) => part.catch((error) => problem(error))));
  const [hourly, healthy, ...others] = parts;
  return [head("Overview"), panel("Requests of the last hour", hourly), element("div", { class: "panels" }, panel("Health of this gateway", healthy), panel("Refusals", others[0]), panel("Bans in force", others[1]), panel("Who still calls deprecated operations", others[2]))];
}

async function lastHour() {
  const { periods = [] } = await getUsage({ interval: "minute" });
  const first = Math.floor(Date.now() / MINUTE - 59) * MINUTE;
  return requestChart("Requests by minute, UTC", filledIn(periods, { first, length: MINUTE, count: 60, label: hour }));
}

async function health() {
  const [ready, metrics] = await Promise.all([fetch("/readyz", { cache: "no-store" }), fetch("/metrics", { cache: "no-store" })]);
  const { status, parts } = await ready.json();
  const samples = metrics.ok ? samplesOf(await metrics.text()) : [];
  const durations = [0.5, 0.99].map((share) => quantile(samples, "http_server_request_duration_seconds", share));
  const milliseconds = (seconds) => (seconds === null ? "–" : `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`);
  return [
    details([["State", stateTag(status)], ["Half of all answers within", milliseconds(durations[0])], ["99 % within", milliseconds(durations[1])]], "figures"),
    element("ul", {}, Object.entries(parts).map(([part, state]) => element("li", {}, `${part}: `, stateTag(state), " ", REASONS[part]?.[state] ?? ""))),
    element("p", { class: "note" }, "Durations are this gateway's, since it started."),
  ];
}

const stateTag = (state) => tag(state, { ok: "good", degraded: "warn", down: "bad" }[state]);

async function refusals() {
  const metrics = await fetch("/metrics", { cache: "no-store" });
  const counts = [...answersByCode(samplesOf(await metrics.text()))].filter(([code, count]) => REFUSALS.test(code) && count > 0);
  const why = element("p", {}, link("/console/refusals", "Why was I refused?"), " tells it for an account, a key or a request.");
  if (counts.length === 0) return [element("p", { class: "nothing" }, "This gateway has refused nothing since it started."), why];
  counts.sort(([, a], [, b]) => b - a);
  return [table([["Reason", ([code]) => element("code", {}, code)], ["Requests", ([, count]) => number(count), true]], counts), element("p", { class: "note" }, "At this gateway, since it started."), why];
}

async function bans() {
  const { bans = [], nextPageToken } = await listBans({ pageSize: 5 });
  if (bans.length === 0) return element("p", { class: "nothing" }, "None.");
  return [
    table([["Key", (ban) => keyLink(ban.keyId, "…", ban.keyId.slice(-12))], ["Account", (ban) => accountLink(ban.account)], ["Until", (ban) => moment(ban.endTime)]], bans),
    nextPageToken && element("p", {}, link("/console/bans", "All bans")),
  ];
}

async function deprecated() {
  const { uses = [] } = await listDeprecatedUse();
  if (uses.length === 0) return element("p", { class: "nothing" }, "Nobody, within the last 30 days.");
  return table([["Account", (use) => accountLink(use.account)], ["Operation", (use) => element("code", {}, use.operationId)], ["Calls in 30 days", (use) => number(use.calls), true], ["Last", (use) => date(use.lastDay)]], uses.slice(0, 20));
}
