// The operators of the service.

import { EXPIRIES } from "./account.mjs";
import { createOperator, listOperators, revokeOperator, rotateOperator } from "./api.mjs";
import { ask, showSecret } from "./dialog.mjs";
import { element } from "./element.mjs";
import { moment, word } from "./format.mjs";
import { field, growingTable, head, link, tag } from "./view.mjs";

export async function operatorsPage({ isAdmin, again, operator: own }) {
  const load = async (pageToken) => {
    const { operators = [], nextPageToken, totalSize } = await listOperators({ pageSize: 50, pageToken });
    return { rows: operators, next: nextPageToken, total: totalSize };
  };
  const columns = [
    ["Name", (operator) => link(`/console/audit?operator=${encodeURIComponent(operator.name)}`, operator.name)],
    ["Role", (operator) => word(operator.role, "ROLE")],
    ["State", stateTag],
    ["Token ends with", (operator) => operator.lastFour && element("code", {}, operator.lastFour)],
    ["Created", (operator) => moment(operator.createTime)],
    ["Last used", (operator) => moment(operator.lastUseTime)],
    ...(isAdmin ? [["Action", (operator) => actions(operator, own, again)]] : []),
  ];
  const make = element("button", { type: "button", class: "primary", onclick: () => create(again) }, "New operator");
  return [head("Operators", { actions: [isAdmin && make] }), element("section", { class: "panel", "aria-label": "Operators" }, await growingTable(columns, load, { nothing: "There are no operators." }))];
}

function stateTag({ revokeTime, expireTime }) {
  if (revokeTime) return tag("revoked", "bad");
  return new Date(expireTime) <= Date.now() ? tag("expired", "warn") : tag("active", "good");
}

function actions(operator, own, again) {
  const button = (title, kind, act) => element("button", { type: "button", class: `quiet ${kind}`, onclick: () => act(operator, own, again) }, `${title} ${operator.name}`);
  return element("div", { class: "actions" }, button("New token for", "", rotate), !operator.revokeTime && button("Revoke", "danger", revoke));
}

async function create(again) {
  const made = await ask({
    title: "New operator",
    fields: [
      field("Name", "name", { required: true, maxlength: 64 }),
      field("Role", "role", { options: [["viewer", "Viewer: sees everything"], ["admin", "Admin: sees and changes everything"]], value: "viewer" }),
    ],
    confirm: "Create",
    act: ({ name, role }) => createOperator(name, role),
  });
  if (!made) return;
  await showSecret({ title: "The operator's token", text: "Give it to the operator now: it is never shown again.", secret: made.token });
  await again("The operator was created");
}

async function rotate({ name, revokeTime }, own, again) {
  const made = await ask({
    title: `New token for ${name}?`,
    text: revokeTime ? `${name} may then act again, under the same name.` : `The old token ends at once, and ${name} is signed out everywhere.`,
    fields: [field("The new token expires", "ttl", { options: EXPIRIES, value: "never" })],
    confirm: "Create token",
    isDestructive: !revokeTime,
    act: ({ ttl }) => rotateOperator(name, ttl),
  });
  if (!made) return;
  await showSecret({ title: "The operator's token", text: `Give it to ${name} now: it is never shown again.`, secret: made.token });
  await again(`${name} has a new token`);
}

// The core refuses to revoke the caller or the last admin without `force`.
async function revoke({ name }, own, again) {
  let consequence = "";
  const unlessForced = (error) => {
    if (error.code !== "FORCE_REQUIRED") throw error;
    consequence = error.message.replace(/; [^;]*$/, "."); // without the words for clients of the API
  };
  const done = await ask({
    title: `Revoke the token of ${name}?`,
    text: `${name} is signed out everywhere at once, and the token never works again.`,
    confirm: `Revoke ${name}`,
    isDestructive: true,
    act: () => revokeOperator(name).catch(unlessForced),
  });
  if (!done || (consequence && !(await revokeAllTheSame(name, own, consequence)))) return;
  await again(`The token of ${name} is revoked`);
}

function revokeAllTheSame(name, own, consequence) {
  const isOwn = name === own.name;
  return ask({
    title: isOwn ? "Revoke your own token?" : `Revoke ${name} anyway?`,
    text: isOwn ? `You are signed in as ${name}, and will be signed out at once. ${consequence}` : consequence,
    confirm: `Revoke ${name} anyway`,
    isDestructive: true,
    act: () => revokeOperator(name, true),
  });
}
