// Answers why requests of an account, with a key, or with a request identifier were refused.

import { filters } from "./accounts.mjs";
import { explainRefusal, getKey, getLimits } from "./api.mjs";
import { element } from "./element.mjs";
import { moment, number, relative, time, word } from "./format.mjs";
import { accountLink, details, field, head, keyLink, tag, unlessMissing } from "./view.mjs";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ACCOUNT = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const REQUEST_ID = /^[A-Za-z0-9._-]{8,64}$/;

export async function refusalsPage({ parameters }) {
  const subject = (parameters.get("subject") ?? "").trim();
  return [
    head("Why was I refused?"),
    element("p", { class: "lead" }, "Ask with the name of the account, the identifier of the key, or the X-Request-Id of a refused request. Current refusals come first, then those of the last 24 hours."),
    filters(field("Account, key or request identifier", "subject", { type: "search", value: subject, required: true, maxlength: 64 })),
    subject && (await answer(subject)),
  ];
}

async function answer(subject) {
  if (/pet_(live|test|op)_/.test(subject)) return notice("This looks like a secret. Do not paste keys or tokens: the key's identifier is enough.", "error");
  const found = await firstKnown(subject);
  if (!found) return notice(`There is no account, no key and no request refused within the last 24 hours that is called ${subject}.`, "error");
  const explanations = await withWindows(found);
  if (explanations.length === 0) return notice(`Nothing refuses ${subject} now, and no refusal of the last 24 hours is known.`, "");
  return explanations.map(explanation);
}

// The first way to read the subject under which something is known, as { explanations, account }: the account is the one
// whose windows count for the answer. A UUID is a key's identifier, or that of a request.
async function firstKnown(subject) {
  const kinds = [UUID.test(subject) && "keyId", !UUID.test(subject) && ACCOUNT.test(subject) && "account", REQUEST_ID.test(subject) && "requestId"].filter(Boolean);
  for (const kind of kinds) {
    try {
      const { explanations = [] } = await explainRefusal({ [kind]: subject });
      if (kind === "requestId") {
        if (explanations.length === 0) continue; // any may be asked about
        return { explanations };
      }
      return { explanations, account: kind === "account" ? subject : (await getKey(subject)).account };
    } catch (error) {
      if (error.status !== 404) throw error;
    }
  }
  return null;
}

const WINDOWS = [
  ["minute", "minute_limit", "RATE_LIMITED", "this minute"],
  ["day", "day_limit", "QUOTA_EXCEEDED", "this day (UTC)"],
];

// The explanations as the windows of the limiter have it, which the core does not know: a limit refuses now if its window
// is used up now, and only then.
async function withWindows({ explanations, account }) {
  const windowOf = ({ cause }) => WINDOWS.find(([, each]) => each === word(cause, "REFUSAL_CAUSE"));
  const accounts = [...new Set([account, ...explanations.filter((each) => each.inForce && windowOf(each)).map((each) => each.account)])].filter(Boolean);
  const limits = new Map(await Promise.all(accounts.map(async (each) => [each, await getLimits(each).catch(unlessMissing)])));
  const isUsedUp = (each, window) => Number(limits.get(each)?.[window].remaining ?? 1) === 0;
  const judged = explanations.map((each) => (each.inForce && windowOf(each) && limits.get(each.account) ? { ...each, inForce: isUsedUp(each.account, windowOf(each)[0]) } : each));
  const current = account ? WINDOWS.filter(([window]) => isUsedUp(account, window)).map((window) => ofWindow(account, window, limits.get(account))) : [];
  const isSaid = (each) => account && each.inForce && each.account === account && windowOf(each);
  const others = judged.filter((each) => !isSaid(each));
  return [...current, ...others.filter((each) => each.inForce), ...others.filter((each) => !each.inForce)];
}

function ofWindow(account, [window, , code, words], limits) {
  const { limit, resetsAt } = limits[window];
  return {
    code,
    account,
    limit,
    endTime: resetsAt,
    inForce: true,
    sentence: `Account ${account} has used up its ${number(limit)} requests of ${words}. Every request with one of its keys is refused until ${time(resetsAt)}, ${relative(resetsAt)}.`,
    remedy: "It can wait, or you change its plan: the new limits hold in the running window, within 5 seconds.",
  };
}

function explanation(each) {
  return element(
    "article",
    { class: "panel" },
    element("p", {}, each.inForce ? tag("in force", "bad") : tag("over", "good"), " ", element("code", {}, each.code)),
    element("p", { class: "because" }, each.sentence),
    each.remedy && element("p", {}, element("strong", {}, "What to do: "), each.remedy),
    details([
      each.account && ["Account", accountLink(each.account)],
      each.keyId && ["Key", keyLink(each.keyId)],
      Number(each.limit) > 0 && ["Limit", `${number(each.limit)} requests`],
      each.startTime && ["Since", moment(each.startTime)],
      (each.endTime || each.inForce) && ["Until", moment(each.endTime, "it is changed")],
      Number(each.refusedRequests) > 0 && ["Refused requests", number(each.refusedRequests)],
      each.lastRefusalTime && ["Last refused", moment(each.lastRefusalTime)],
      each.lastRequestId && ["Its X-Request-Id", element("code", {}, each.lastRequestId)],
    ]),
  );
}

const notice = (text, kind) => element("p", { class: `callout ${kind}`, role: "status" }, text);
