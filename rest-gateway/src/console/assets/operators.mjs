// Who may operate the service.

import { createOperator, listOperators, revokeOperator } from "./api.mjs";
import { ask, showSecret } from "./dialog.mjs";
import { element } from "./element.mjs";
import { moment, word } from "./format.mjs";
import { field, growingTable, head, link, tag } from "./view.mjs";

export async function operatorsPage({ isAdmin, again }) {
  const load = async (pageToken) => {
    const { operators = [], nextPageToken, totalSize } = await listOperators({ pageSize: 50, pageToken });
    return { rows: operators, next: nextPageToken, total: totalSize };
  };
  const columns = [
    ["Name", (operator) => link(`/console/audit?operator=${encodeURIComponent(operator.name)}`, operator.name)],
    ["Role", (operator) => word(operator.role, "ROLE")],
    ["State", (operator) => (operator.revokeTime ? tag("revoked", "bad") : tag("active", "good"))],
    ["Token ends with", (operator) => operator.lastFour && element("code", {}, operator.lastFour)],
    ["Created", (operator) => moment(operator.createTime)],
    ["Last used", (operator) => moment(operator.lastUseTime)],
    ...(isAdmin ? [["Action", (operator) => !operator.revokeTime && element("button", { type: "button", class: "quiet danger", onclick: () => revoke(operator, again) }, `Revoke ${operator.name}`)]] : []),
  ];
  const make = element("button", { type: "button", class: "primary", onclick: () => create(again) }, "New operator");
  return [head("Operators", { actions: [isAdmin && make] }), element("section", { class: "panel", "aria-label": "Operators" }, await growingTable(columns, load, { nothing: "There are none." }))];
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

async function revoke(operator, again) {
  const done = await ask({
    title: `Revoke the token of ${operator.name}?`,
    text: `${operator.name} is signed out everywhere at once. This is final.`,
    confirm: `Revoke ${operator.name}`,
    isDestructive: true,
    act: () => revokeOperator(operator.name),
  });
  if (done) await again(`The token of ${operator.name} is revoked`);
}
