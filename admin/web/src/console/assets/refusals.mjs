// Answers why requests of an account, with a key, or with a request identifier were refused.

import { limitMeters } from "./account.mjs";
import { filters } from "./accounts.mjs";
import { explainRefusal } from "./api.mjs";
import { element } from "./element.mjs";
import { moment, number, withTimes } from "./format.mjs";
import { accountLink, details, field, head, keyLink, tag } from "./view.mjs";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export async function refusalsPage({ parameters }) {
  const subject = (parameters.get("subject") ?? "").trim();
  return [
    head("Why was a request refused?"),
    element("p", { class: "lead" }, "Ask with the name of the account, the identifier of the key, or the X-Request-Id of a refused request. What refuses requests now comes first, then the stored refusals of the last 24 hours: a sample, up to 5 seconds late."),
    filters(field("Account, key or request identifier", "subject", { type: "search", value: subject, required: true, maxlength: 64 })),
    subject && (await answer(subject)),
  ];
}

async function answer(subject) {
  if (/pet_(live|test|op|ses)_/.test(subject)) return notice("This looks like a secret. Do not paste keys or tokens: the key's identifier is enough.", "error");
  const { explanations = [], note, limits } = await firstKnown(subject);
  return [...explanations.map(explanation), note && notice(note, ""), limits && limitMeters(limits)].filter(Boolean);
}

// The answer for the first kind of subject that this is: a UUID is a key's identifier, or that of a request. The admin
// API answers 400 if the text cannot name a subject of a kind, and 404 if it names none.
async function firstKnown(subject) {
  for (const kind of [UUID.test(subject) ? "keyId" : "account", "requestId"]) {
    try {
      return await explainRefusal({ [kind]: subject });
    } catch (error) {
      if (error.status !== 400 && error.status !== 404) throw error;
    }
  }
  return { note: `There is no account, key or request named ${subject}.` };
}

function explanation(each) {
  return element(
    "article",
    { class: "panel" },
    element("p", {}, each.inForce ? tag("in force", "bad") : tag("over", "good"), " ", element("code", {}, each.code)),
    element("p", { class: "because" }, withTimes(each.sentence)),
    each.remedy && element("p", {}, element("strong", {}, "What to do: "), withTimes(each.remedy)),
    details([
      each.account && ["Account", accountLink(each.account)],
      each.keyId && ["Key", keyLink(each.keyId)],
      Number(each.limit) > 0 && ["Limit", `${number(each.limit)} requests`],
      each.startTime && ["Since", moment(each.startTime)],
      (each.endTime || each.inForce) && ["Until", moment(each.endTime, "it is changed")],
      each.liftTime && ["Lifted", moment(each.liftTime)],
      Number(each.refusedRequests) > 0 && ["Refused requests", number(each.refusedRequests)],
      each.firstRefusalTime && ["First refused", moment(each.firstRefusalTime)],
      each.lastRefusalTime && ["Last refused", moment(each.lastRefusalTime)],
      each.lastRequestId && ["Its X-Request-Id", element("code", {}, each.lastRequestId)],
    ]),
  );
}

const notice = (text, kind) => element("p", { class: `callout ${kind}`, role: "status" }, text);
