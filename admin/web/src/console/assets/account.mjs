// One account: plan, windows, keys, the last 30 days.

import { planFields, planOf } from "./accounts.mjs";
import { createKey, getAccount, getLimits, getUsage, listAuditEvents, listBans, listDeprecatedUse, listKeys, resumeAccount, suspendAccount, updateAccount } from "./api.mjs";
import { filledIn, requestChart } from "./chart.mjs";
import { ask, showSecret } from "./dialog.mjs";
import { element } from "./element.mjs";
import { capitalized, date, limits, moment, number, plan, relative, word } from "./format.mjs";
import { accountLink, bannedKeysTag, callsNote, details, field, growingTable, head, keyEnds, keyLink, keyStateTag, link, missing, orProblem, panel, planTag, table, tag, unlessMissing, windowMeter } from "./view.mjs";

const DAY = 86_400_000;
const daysLong = (days) => [`${days * 86_400}s`, `in ${days} days`];
export const EXPIRIES = [["never", "never"], daysLong(30), daysLong(90), daysLong(365)];

export async function accountPage({ subject: name, isAdmin, again }) {
  const account = await getAccount(name).catch(unlessMissing);
  if (!account) return noAccount(name);
  const [windows, days, keys, deprecated, banned] = await Promise.all([...[windowsOf(name), last30Days(name), keysOf(name), deprecatedUse(name)].map(orProblem), bannedTag(name)]);
  const actions = isAdmin && [
    button("Change plan", () => changePlan(account, again)),
    button("Rename", () => rename(account)),
    account.suspendTime ? button("Resume", () => resume(account, again)) : button("Suspend", () => suspend(account, again), "danger"),
  ];
  return [
    head(account.name, { tags: [planTag(account), account.suspendTime && tag("suspended", "bad"), banned], actions: [actions] }),
    account.suspendTime && element("p", { class: "callout warning" }, "Suspended since ", moment(account.suspendTime), account.suspendReason ? `: ${account.suspendReason}` : "."),
    panel(
      "Limits",
      details([["Plan", `${capitalized(plan(account))}: ${limits(account)}`], ["Created", moment(account.createTime)], ["Identifier", String(account.id)]]),
      windows,
      element("p", {}, link(`/console/refusals?subject=${encodeURIComponent(name)}`, "Refusals"), " · ", link(`/console/audit?account=${encodeURIComponent(name)}`, "Changes by operators")),
    ),
    panel(["Keys", isAdmin && button("New key", () => newKey(account, again))], keys),
    panel("The last 30 days", days),
    deprecated && panel("Calls of deprecated operations", deprecated),
  ];
}

// The page of an account that does not exist. It may have been renamed: the audit log has the new name.
async function noAccount(name) {
  const { events = [] } = await listAuditEvents({ account: name, pageSize: 100 }).catch(unlessMissing) ?? {};
  const nameIn = (json) => JSON.parse(json || "{}").name;
  const renamed = events.find((event) => event.action === "UpdateAccount" && nameIn(event.beforeJson) === name && nameIn(event.afterJson) !== name);
  return missing(
    `There is no account ${name}`,
    renamed ? ["It was renamed to ", accountLink(nameIn(renamed.afterJson)), " on ", moment(renamed.createTime), "."] : "The name may be misspelt.",
    link(`/console/accounts?name=${encodeURIComponent(name.slice(0, 3))}`, `Accounts with “${name.slice(0, 3)}” in their name`),
    link("/console/accounts", "All accounts"),
    events.length > 0 && link(`/console/audit?account=${encodeURIComponent(name)}`, "Changes by operators"),
  );
}

// How many of the account's keys are banned now, if any. The list of keys shows which.
async function bannedTag(account) {
  const { bans = [], totalSize } = await listBans({ account, pageSize: 1 }).catch(() => ({}));
  return bans.length > 0 && bannedKeysTag(Number(totalSize ?? 1));
}

const button = (title, onclick, kind = null) => element("button", { type: "button", class: kind, onclick }, title);

const windowsOf = async (name) => limitMeters(await getLimits(name));

// The windows of an account in this gateway's limiter.
export function limitMeters({ minute, day }) {
  return element("div", { class: "meters" }, windowMeter("This minute", minute, Number(minute.used) > 0 ? `ends ${relative(minute.resetsAt)}` : "begins with the next request"), windowMeter("Today", day, `ends ${relative(day.resetsAt)}`));
}

async function last30Days(account) {
  const { periods = [] } = await getUsage({ account, interval: "day" });
  const first = (Math.floor(Date.now() / DAY) - 29) * DAY;
  return requestChart("Requests by day, UTC", filledIn(periods, { first, length: DAY, count: 30, label: date }));
}

// Whether the account moves away from getPet: its days, and which key still calls it. Nothing if it never does, or if
// an older core answers, which reports no other requests.
async function deprecatedUse(account) {
  const reports = ["day", "key"].map((by) => listDeprecatedUse({ account, by }));
  const [days, keys] = (await Promise.all(reports)).map(({ uses = [] }) => uses.filter((use) => use.otherRequests !== undefined));
  if (!days.some((day) => day.calls > 0)) return null;
  const columns = (title, content) => [[title, content], ["getPet", (use) => number(use.calls), true], ["Other requests", (use) => number(use.otherRequests), true]];
  return [
    callsNote(),
    table(columns("Day, UTC", (use) => date(use.startTime)), days.reverse(), { isNarrow: true }),
    element("h3", {}, "By key, in the last 24 hours"),
    keys.length > 0 ? table(columns("Key", (use) => keyLink(use.keyId)), keys, { isNarrow: true }) : element("p", { class: "nothing" }, "No requests."),
  ];
}

async function keysOf(account) {
  const load = async (pageToken) => {
    const { keys = [], nextPageToken, totalSize } = await listKeys({ account, pageSize: 50, pageToken });
    return { rows: keys, next: nextPageToken, total: totalSize };
  };
  return growingTable(KEY_COLUMNS, load, { nothing: "This account has no keys." });
}

// What the key may be used for; an older core does not say.
export function keyAccess({ access, allowedAddresses = [] }) {
  const reads = access && word(access, "KEY_ACCESS") === "read" ? "read only" : "full";
  return allowedAddresses.length ? `${reads}, from ${allowedAddresses.join(", ")}` : reads;
}

export const KEY_COLUMNS = [
  ["Key", (key) => keyLink(key.id, key.label)],
  ["State", keyStateTag],
  ["Begins and ends with", keyEnds],
  ["Created", (key) => moment(key.createTime)],
  ["Last used", (key) => moment(key.lastUseTime)],
  ["Expires", (key) => moment(key.expireTime)],
  ["Access", keyAccess],
];

async function changePlan(account, again) {
  const changed = await ask({
    title: `Change the plan of ${account.name}`,
    text: "The new limits apply to the current minute and day. Gateways follow within 5 seconds.",
    fields: planFields({ plan: plan(account), limits: account.limits }),
    confirm: "Change plan",
    act: (chosen) => updateAccount(account.name, planOf(chosen)),
  });
  if (changed) await again(`${account.name} is on plan ${plan(changed)} now`);
}

async function rename(account) {
  const changed = await ask({
    title: `Rename ${account.name}`,
    text: "Keys, usage and bans stay with the account.",
    fields: [field("New name", "name", { required: true, maxlength: 64, value: account.name })],
    confirm: "Rename",
    act: ({ name }) => updateAccount(account.name, { name }),
  });
  if (changed) location.replace(`/console/accounts/${encodeURIComponent(changed.name)}`);
}

async function suspend(account, again) {
  const done = await ask({
    title: `Suspend ${account.name}?`,
    text: `Every request with any key of ${account.name} will be refused, within 5 seconds, until you resume it.`,
    fields: [field("Reason", "reason", { maxlength: 200, hint: "Sent to the account’s users with each refused request. May be empty." })],
    confirm: `Suspend ${account.name}`,
    isDestructive: true,
    act: ({ reason }) => suspendAccount(account.name, reason),
  });
  if (done) await again(`${account.name} is suspended`);
}

async function resume(account, again) {
  const done = await ask({
    title: `Resume ${account.name}?`,
    text: "Its keys work again within 5 seconds.",
    confirm: "Resume",
    act: () => resumeAccount(account.name),
  });
  if (done) await again(`${account.name} is resumed`);
}

async function newKey(account, again) {
  const made = await ask({
    title: `New key for ${account.name}`,
    fields: [
      field("Label", "label", { maxlength: 64, hint: "The key’s holder sees it too. May be empty." }),
      field("Access", "access", { options: [["full", "full"], ["read", "read only"]], value: "full" }),
      field("Allowed addresses", "addresses", { hint: "Such as 192.0.2.7, 203.0.113.0/24. At most 16; empty for any." }),
      field("Expires", "ttl", { options: EXPIRIES, value: "never" }),
    ],
    confirm: "Create key",
    act: (values) => createKey(account.name, values),
  });
  if (!made) return;
  await showSecret({ title: "The new key", text: `Give it to ${account.name} now: it is never shown again.`, secret: made.apiKey });
  await again("The key was created");
}
