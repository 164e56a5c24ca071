// The keys of all accounts, and the bans in force.

import { KEY_COLUMNS } from "./account.mjs";
import { filters } from "./accounts.mjs";
import { listBans, listKeys } from "./api.mjs";
import { element } from "./element.mjs";
import { moment, word } from "./format.mjs";
import { accountLink, field, growingTable, head, shortKeyLink } from "./view.mjs";

export async function keysPage({ parameters }) {
  const account = parameters.get("account") ?? "";
  const load = async (pageToken) => {
    const { keys = [], nextPageToken, totalSize } = await listKeys({ account, pageSize: 50, pageToken });
    return { rows: keys, next: nextPageToken, total: totalSize };
  };
  const [name, ...others] = KEY_COLUMNS;
  const columns = [name, ["Account", (key) => accountLink(key.account)], ...others];
  return [head("Keys"), filters(field("Account", "account", { type: "search", value: account })), section("Keys found", await growingTable(columns, load, { nothing: "No key matches." }))];
}

export async function bansPage() {
  const load = async (pageToken) => {
    const { bans = [], nextPageToken, totalSize } = await listBans({ pageSize: 50, pageToken });
    return { rows: bans, next: nextPageToken, total: totalSize };
  };
  const columns = [
    ["Key", (ban) => shortKeyLink(ban.keyId)],
    ["Account", (ban) => accountLink(ban.account)],
    ["Imposed", banOrigin],
    ["Reason", (ban) => ban.reason ?? ""],
    ["Since", (ban) => moment(ban.createTime)],
    ["Until", (ban) => moment(ban.endTime)],
  ];
  return [head("Bans in force"), section("Bans in force", await growingTable(columns, load, { nothing: "No key is banned." }))];
}

export function banOrigin(ban) {
  return word(ban.origin, "BAN_ORIGIN") === "operator" ? "by an operator" : "automatic: it ignored 429";
}

function section(label, ...children) {
  return element("section", { class: "panel", "aria-label": label }, ...children);
}
