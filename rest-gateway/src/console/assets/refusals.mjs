// Why was I refused? For an account, a key or a request.

import { filters } from "./accounts.mjs";
import { explainRefusal, getKey, getLimits } from "./api.mjs";
import { element } from "./element.mjs";
import { moment, number, relative, time, word } from "./format.mjs";
import { accountLink, details, field, head, keyLink, tag } from "./view.mjs";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const ACCOUNT = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const REQUEST_ID = /^[A-Za-z0-9._-]{8,64}$/;

export async function refusalsPage({ parameters }) {
  const subject = (parameters.get("subject") ?? "").trim();
  return [
    head("Why was I refused?"),
    element("p", { class: "lead" }, "Ask with the name of the account, the identifier of the key, or the X-Request-Id of a refused request. What refuses now is told first, then what refused within the last 24 hours."),
    filters(field("Account, key or request identifier", "subject", { type: "search", value: subject, required: true, maxlength: 64 })),
    subject && (await answer(subject)),
  ];
}

async function answer(subject) {
  if (/pet_(live|test|op)_/.test(subject)) return told("This looks like a secret. Do not paste keys or tokens: the key's identifier is enough.", "error");
  const found = await firstKnown(subject);
  if (!found) return told(`There is no account, no key and no request refused within the last 24 hours that is called ${subject}.`, "error");
  const explanations = [...(found.account ? await ofWindows(found) : []), ...found.explanations];
  if (explanations.length === 0) return told(`Nothing refuses ${subject}, and nothing is known to have refused it within the last 24 hours.`, "");
  return explanations.map(explanation);
}

// The first way to read the subject under which something is known, as { explanations, account }: the account is that
// whose windows count for the answer. A UUID is a key's identifier, or that of a request.
async function firstKnown(subject) {
  const ways = [UUID.test(subject) && "keyId", !UUID.test(subject) && ACCOUNT.test(subject) && "account", REQUEST_ID.test(subject) && "requestId"].filter(Boolean);
  for (const way of ways) {
    try {
      const { explanations = [] } = await explainRefusal({ [way]: subject });
      if (way === "requestId") {
        if (explanations.length === 0) continue; // any may be asked about
        return { explanations };
      }
      return { explanations, account: way === "account" ? subject : (await getKey(subject)).account };
    } catch (error) {
      if (error.status !== 404) throw error;
    }
  }
  return null;
}

// The windows that are used up now, which only a gateway knows. What the core knows of them is told once.
async function ofWindows(found) {
  const windows = await getLimits(found.account);
  const usedUp = [["minute", "RATE_LIMITED", "this minute"], ["day", "QUOTA_EXCEEDED", "this day (UTC)"]].filter(([name]) => Number(windows[name].remaining) === 0);
  found.explanations = found.explanations.filter(({ cause, inForce }) => !(inForce && usedUp.some(([name]) => word(cause, "REFUSAL_CAUSE") === `${name}_limit`)));
  return usedUp.map(([name, code, words]) => {
    const { limit, resetsAt } = windows[name];
    return {
      code,
      account: found.account,
      limit,
      endTime: resetsAt,
      inForce: true,
      sentence: `Account ${found.account} has used up its ${number(limit)} requests of ${words}. Every request with one of its keys is refused until ${time(resetsAt)}, ${relative(resetsAt)}.`,
      remedy: "It can wait, or you change its plan: that acts in the running window, within 5 seconds.",
    };
  });
}

function explanation(each) {
  return element(
    "article",
    { class: "panel" },
    element("p", {}, each.inForce ? tag("in force", "bad") : tag("over", "good"), " ", element("code", {}, each.code)),
    element("p", { class: "because" }, each.sentence),
    each.remedy && element("p", {}, element("strong", {}, "To mend it: "), each.remedy),
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

const told = (text, kind) => element("p", { class: `callout ${kind}`, role: "status" }, text);
