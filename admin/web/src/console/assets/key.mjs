// One key: its data, its requests, and the actions on it.

import { banKey, getKey, getKeyHandover, getUsage, liftBan, revokeKey, rotateKey } from "./api.mjs";
import { filledIn, requestChart } from "./chart.mjs";
import { EXPIRIES, keyAccess } from "./account.mjs";
import { ask, showSecret } from "./dialog.mjs";
import { element } from "./element.mjs";
import { capitalized, date, hour, isActive, keyName, moment, word } from "./format.mjs";
import { banOrigin } from "./keys.mjs";
import { accountLink, details, field, head, isBanned, keyEnds, keyLink, keyStateTag, link, missing, orProblem, panel, unlessMissing } from "./view.mjs";

const HALF_HOUR = 1_800_000;
const DURATIONS = [["3600", "1 hour"], ["86400", "1 day"], ["604800", "7 days"], ["2592000", "30 days"]];
const GRACES = [["86400", "24 hours"], ["0", "not at all: the old key expires at once"], ["3600", "1 hour"], ["604800", "7 days"]];

export async function keyPage({ subject: id, isAdmin, again }) {
  const key = await getKey(id).catch(unlessMissing);
  if (!key) return missing("There is no such key", ["No key has the identifier ", element("code", {}, id), ". Keys are never removed, so the identifier may be misspelt."], link("/console/keys", "All keys"));
  const [day, handover] = await Promise.all([orProblem(lastDay(id)), handoverOf(id).catch(orNothing)]);
  const actions = isAdmin && isActive(key) && [
    button("Rotate", () => rotate(key, again)),
    key.ban ? button("Lift ban", () => lift(key, again)) : button("Ban", () => ban(key, again), "danger"),
    button("Revoke", () => revoke(key, again), "danger"),
  ];
  return [
    head(`Key ${keyName(key)}`, { tags: [keyStateTag(key)], actions: [actions] }),
    isBanned(key) && element("p", { class: "callout warning" }, "Banned until ", moment(key.ban.endTime), ` (${banOrigin(key.ban)})`, key.ban.reason ? `: ${key.ban.reason}` : "."),
    panel(
      "About",
      details([
        ["Account", accountLink(key.account)],
        ["Label", key.label || element("span", { class: "nothing" }, "none")],
        ["Access", keyAccess(key)],
        ["Environment", capitalized(word(key.environment, "ENVIRONMENT"))],
        ["Begins and ends with", keyEnds(key)],
        ["Identifier", element("code", {}, key.id)],
        ["Created", moment(key.createTime)],
        ["Last used", moment(key.lastUseTime)],
        ["Expires", moment(key.expireTime)],
        key.revokeTime && ["Revoked", moment(key.revokeTime)],
        key.replaces && ["Replaces", keyLink(key.replaces)],
      ]),
      element("p", {}, link(`/console/refusals?subject=${encodeURIComponent(id)}`, "Refusals"), " · ", link(`/console/audit?key=${encodeURIComponent(id)}`, "Changes by operators")),
    ),
    handover && panel("Handover", handover),
    panel("The last 24 hours", day),
  ];
}

const button = (title, onclick, kind = null) => element("button", { type: "button", class: kind, onclick }, title);

// By half an hour: requests of keys are known by minute, for a day.
async function lastDay(keyId) {
  const last = Math.floor(Date.now() / HALF_HOUR) * HALF_HOUR;
  const first = last - 47 * HALF_HOUR;
  const { periods = [] } = await getUsage({ keyId, interval: "minute", startTime: new Date(first).toISOString() });
  return requestChart("Requests by half an hour, UTC", filledIn(periods, { first, length: HALF_HOUR, count: 48, label: hour }));
}

// Whether the old key of a rotation may be revoked; nothing for a key that was not rotated.
async function handoverOf(id) {
  const { sentence, oldKey, newKey } = await getKeyHandover(id);
  return newKey && [element("p", {}, `${capitalized(sentence)}.`), details([["Old key", keyLink(oldKey.id)], ["New key", keyLink(newKey.id)]])];
}

// A core of 1.0.0 knows no handover.
const orNothing = (error) => {
  if (error.status === 401) throw error;
  return null;
};

const named = (key) => `${keyName(key)} of ${key.account}`;

// The expiry that a new key gets unless another one is chosen: it lasts as long as the old one did.
function lifetimeOf({ createTime, expireTime }) {
  if (!expireTime) return "never, like the old one";
  const expires = new Date(Date.now() + (new Date(expireTime) - new Date(createTime))).toISOString();
  return `on ${date(expires)}: the lifetime of the old one`;
}

async function rotate(key, again) {
  const made = await ask({
    title: `Rotate ${named(key)}`,
    text: "A new key replaces it. Both work until the old key expires.",
    fields: [
      field("The old key keeps working for", "grace", { options: GRACES, value: "86400" }),
      field("The new key expires", "ttl", { options: [["", lifetimeOf(key)], ...EXPIRIES], value: "" }),
    ],
    confirm: "Rotate",
    act: ({ grace, ttl }) => rotateKey(key.id, { grace: `${grace}s`, ttl }),
  });
  if (!made) return;
  await showSecret({ title: "The new key", text: `Give it to ${key.account} now: it is never shown again.`, secret: made.apiKey });
  await again("The key was rotated");
}

async function revoke(key, again) {
  const done = await ask({
    title: `Revoke ${named(key)}?`,
    text: "Every request with it will be refused within 5 seconds. This is final: a revoked key cannot be used again.",
    confirm: `Revoke ${keyName(key)}`,
    isDestructive: true,
    act: () => revokeKey(key.id),
  });
  if (done) await again("The key is revoked");
}

async function ban(key, again) {
  const done = await ask({
    title: `Ban ${named(key)}?`,
    text: "Every request with it will be refused, within 5 seconds, until the ban ends or you lift it.",
    fields: [
      field("For", "duration", { options: DURATIONS, value: "3600" }),
      field("Reason", "reason", { maxlength: 200, hint: "Sent to the key’s users with each refused request. May be empty." }),
    ],
    confirm: `Ban ${keyName(key)}`,
    isDestructive: true,
    act: ({ reason, duration }) => banKey(key.id, reason, `${duration}s`),
  });
  if (done) await again("The key is banned");
}

async function lift(key, again) {
  const done = await ask({
    title: `Lift the ban of ${named(key)}?`,
    text: "The key works again within 5 seconds. The next ban is as short as a first one.",
    confirm: "Lift ban",
    act: () => liftBan(key.id),
  });
  if (done) await again("The ban is lifted");
}
