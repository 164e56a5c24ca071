// The keys of all accounts, and the bans in force.

import { KEY_COLUMNS } from "./account.mjs";
import { filters } from "./accounts.mjs";
import { listBans, listKeys } from "./api.mjs";
import { element } from "./element.mjs";
import { moment, word } from "./format.mjs";
import { accountLink, field, growingTable, head, keyLink, link } from "./view.mjs";

const TIMES = [["", "any"], ["1d", "1 day"], ["7d", "7 days"], ["30d", "30 days"], ["90d", "90 days"]];

export async function keysPage({ parameters }) {
  const [account, unusedFor, expiringWithin] = ["account", "unusedFor", "expiringWithin"].map((each) => parameters.get(each) ?? "");
  const load = async (pageToken) => {
    const { keys = [], nextPageToken, totalSize } = await listKeys({ account, unusedFor, expiringWithin, pageSize: 50, pageToken });
    return { rows: keys, next: nextPageToken, total: totalSize };
  };
  const [name, ...others] = KEY_COLUMNS;
  const columns = [name, ["Account", (key) => accountLink(key.account)], ...others];
  const found = filters(
    field("Account", "account", { type: "search", value: account }),
    field("Active, unused for", "unusedFor", { options: TIMES, value: unusedFor }),
    field("Active, expiring within", "expiringWithin", { options: TIMES, value: expiringWithin }),
  );
  return [head("Keys", { actions: [link("/console/find-keys", "Whose key is this?")] }), found, section("Keys found", await growingTable(columns, load, { nothing: "No key matches." }))];
}

export async function bansPage() {
  const load = async (pageToken) => {
    const { bans = [], nextPageToken, totalSize } = await listBans({ pageSize: 50, pageToken });
    return { rows: bans, next: nextPageToken, total: totalSize };
  };
  const columns = [
    ["Key", (ban) => keyLink(ban.keyId)],
    ["Account", (ban) => accountLink(ban.account)],
    ["Imposed", (ban) => [banOrigin(ban), ban.reason && `: ${ban.reason}`]],
    ["Since", (ban) => moment(ban.createTime)],
    ["Until", (ban) => moment(ban.endTime)],
  ];
  return [head("Bans in force"), section("Bans in force", await growingTable(columns, load, { nothing: "No key is banned." }))];
}

export function banOrigin(ban) {
  return word(ban.origin, "BAN_ORIGIN") === "operator" ? "by an operator" : "automatically: it kept sending after 429";
}

function section(label, ...children) {
  return element("section", { class: "panel", "aria-label": label }, ...children);
}
