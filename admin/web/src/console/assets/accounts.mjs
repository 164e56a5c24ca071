// All accounts, with a search.

import { createAccount, getUsageFile, listAccounts, listBans } from "./api.mjs";
import { ask } from "./dialog.mjs";
import { element } from "./element.mjs";
import { limits, moment } from "./format.mjs";
import { accountLink, bannedKeysTag, field, growingTable, head, planTag, problem, tag } from "./view.mjs";

export const PLANS = [["free", "Free"], ["pro", "Pro"], ["business", "Business"], ["enterprise", "Enterprise"]];

export async function accountsPage({ isAdmin, parameters }) {
  const [name, plan, suspended] = ["name", "plan", "suspended"].map((each) => parameters.get(each) ?? "");
  const load = async (pageToken) => {
    const { accounts = [], nextPageToken, totalSize } = await listAccounts({ nameContains: name, plan, suspended, pageSize: 50, pageToken });
    return { rows: accounts, next: nextPageToken, total: totalSize };
  };
  const banned = await bannedKeys();
  const columns = [
    ["Name", (account) => accountLink(account.name)],
    ["Plan", planTag],
    ["Limits", limits],
    ["State", (account) => [account.suspendTime && tag("suspended", "bad"), banned.has(account.name) && [" ", bannedKeysTag(banned.get(account.name))]]],
    ["Created", (account) => moment(account.createTime)],
  ];
  return [
    head("Accounts", {
      actions: [
        usageButton("day", "Usage of 30 days (CSV)"),
        usageButton("month", "Usage by month (CSV)"),
        isAdmin && element("button", { type: "button", class: "primary", onclick: create }, "New account"),
      ],
    }),
    filters(
      field("Name contains", "name", { type: "search", value: name }),
      field("Plan", "plan", { options: [["", "any"], ...PLANS], value: plan }),
      field("State", "suspended", { options: [["", "any"], ["true", "suspended"], ["false", "not suspended"]], value: suspended }),
    ),
    element("section", { class: "panel", "aria-label": "Accounts found" }, await growingTable(columns, load, { nothing: "No account matches." })),
  ];
}

// A button that saves the usage of all accounts. A link could not, because the console's requests carry a header.
function usageButton(interval, title) {
  const button = element("button", { type: "button" }, title);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const file = URL.createObjectURL(await getUsageFile(interval));
      element("a", { href: file, download: `usage-by-${interval}.csv` }).click();
      setTimeout(() => URL.revokeObjectURL(file), 60_000);
    } catch (error) {
      button.closest(".head").after(problem(error));
    }
    button.disabled = false;
  });
  return button;
}

// The number of banned keys of each account that has any: of the newest bans, as many as a few requests return.
async function bannedKeys() {
  const counts = new Map();
  let pageToken = "";
  for (let pages = 0; pages < 5; pages++) {
    const { bans = [], nextPageToken } = await listBans({ pageSize: 100, pageToken });
    for (const { account } of bans) counts.set(account, (counts.get(account) ?? 0) + 1);
    if (!nextPageToken) break;
    pageToken = nextPageToken;
  }
  return counts;
}

// A form that leads to this page with other parameters. The content policy forbids submitting forms, so a script does it.
export function filters(...fields) {
  const form = element("form", { class: "filters", role: "search" }, fields, element("button", { type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    location.assign(query.size > 0 ? `${location.pathname}?${query}` : location.pathname);
  });
  return form;
}

async function create() {
  const account = await ask({
    title: "New account",
    fields: [
      field("Name", "name", { required: true, maxlength: 64, hint: "Letters, digits, “.”, “_” and “-”." }),
      ...planFields({ plan: "free" }),
    ],
    confirm: "Create",
    act: ({ name, ...chosen }) => createAccount({ name, ...planOf(chosen) }),
  });
  if (account) location.assign(`/console/accounts/${encodeURIComponent(account.name)}`);
}

// The choice of a plan; the numbers are for Enterprise.
export function planFields({ plan, limits = {} }) {
  const choice = field("Plan", "plan", { options: PLANS, value: plan });
  const isAgreed = (value) => value === "enterprise";
  const numbers = element(
    "div",
    { class: "filters", hidden: !isAgreed(plan) },
    field("Requests per minute", "perMinute", { inputmode: "numeric", value: isAgreed(plan) ? limits.perMinute : null }),
    field("Requests per day", "perDay", { inputmode: "numeric", value: isAgreed(plan) ? limits.perDay : null }),
  );
  choice.querySelector("select").addEventListener("change", ({ target }) => (numbers.hidden = !isAgreed(target.value)));
  return [choice, numbers];
}

// Returns the chosen plan in the API's form, with limits if they are agreed.
export function planOf({ plan, perMinute, perDay }) {
  return plan === "enterprise" ? { plan, limits: { perMinute: Number(perMinute), perDay: Number(perDay) } } : { plan };
}
