//! The clauses of `docs/contract.md` that can be checked from outside. Each judges all answers, after those
//! that it expects itself had their status and code.

use http::Method;
use serde_json::Value;

use crate::{
    answer::{
        Answer, Answers, COUNTED_ELSEWHERE, Finding, Judgement, follows, ids, is_error, names_all, require,
        shows_the_narrower_window,
    },
    openapi::Described,
    request::PET,
};

const DAY_SECS: u64 = 86_400;

/// Clause of the contract.
#[derive(Debug)]
pub(crate) struct Clause {
    pub(crate) number: &'static str,
    pub(crate) sentence: &'static str,
    /// Judges more than status and code.
    judge: Option<fn(&Answers, &Value) -> Judgement>,
}

impl Clause {
    /// Judges the answers; `document` is the OpenAPI document.
    pub(crate) fn judge(&self, answers: &Answers, document: &Value) -> Judgement {
        match self.judge {
            Some(judge) => answers.expected(self.number).and_then(|_| judge(answers, document)),
            None => answers.tried(self.number),
        }
    }
}

const fn clause(
    number: &'static str,
    sentence: &'static str,
    judge: fn(&Answers, &Value) -> Judgement,
) -> Clause {
    Clause { number, sentence, judge: Some(judge) }
}

/// Returns a clause that is kept if its answers have the status and the code that it expects.
const fn plain(number: &'static str, sentence: &'static str) -> Clause {
    Clause { number, sentence, judge: None }
}

pub(crate) const CLAUSES: &[Clause] = &[
    clause("2.1", "Two responses about one pet have the same bytes.", |all, _| {
        let (page, pet) = (all.get("page")?, all.get("pet")?);
        let is_same =
            page.body.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) == Some(&pet.body);
        require(is_same, || pet.broken("differs from the pet of the list"))
    }),
    plain("2.2", "A new pet has a name that is not blank, a categoryId without a fraction, and no null."),
    clause("2.4", "Every failure is an Error, whose Link leads to the page about its code.", |all, _| {
        let is_failure = |answer: &Answer| answer.status >= 400 && answer.method != Method::HEAD;
        all.each_of(is_failure, is_error)
    }),
    clause("2.6", "Usage has 30 days, and never more used than the limit.", |all, _| {
        let answer = all.get("usage")?;
        let usage = answer.json();
        let is_within = |window: &Value| {
            let both = window["used"].as_u64().zip(window["limit"].as_u64());
            both.is_some_and(|(used, limit)| used <= limit)
        };
        let is_right = usage["days"].as_array().map(Vec::len) == Some(30)
            && is_within(&usage["minute"])
            && is_within(&usage["day"]);
        require(is_right, || answer.broken(format!("answered {usage}")))
    }),
    clause("3.1", "Every response has each X-RateLimit field once, a decimal number.", |all, _| {
        all.each(|answer| answer.number("x-ratelimit-limit").and(answer.shown_window()).map(drop))
    }),
    clause(
        "3.2",
        "Every response has RateLimit and RateLimit-Policy for the minute and the day.",
        |all, _| {
            all.each(|answer| {
                let lengths = answer.windows()?.map(|window| window.length);
                require(lengths == [60, DAY_SECS], || answer.broken(format!("has windows of {lengths:?} s")))
            })
        },
    ),
    clause("3.3", "X-Request-Id is the client's, or a new UUIDv7.", |all, _| {
        let id = |answer: &Answer| answer.field("x-request-id");
        let is_version_7 = |id: &str| uuid::Uuid::parse_str(id).is_ok_and(|id| id.get_version_num() == 7);
        let sent = all.sent("page", "x-request-id");
        all.each(|answer| {
            let id = id(answer)?;
            require(is_version_7(&id) || id == sent, || answer.broken(format!("has X-Request-Id: {id}")))
        })?;
        all.get("page")?.has("x-request-id", &sent)
    }),
    clause("3.4", "Every response has Cache-Control: no-store.", |all, _| {
        all.each(|answer| answer.has("cache-control", "no-store"))
    }),
    clause("3.5", "Every body is JSON.", |all, _| {
        all.each(|answer| {
            let is_json = serde_json::from_slice::<Value>(&answer.body).is_ok();
            if answer.body.is_empty() { Ok(()) } else { answer.has("content-type", "application/json") }?;
            require(is_json || answer.body.is_empty(), || answer.broken("has another body"))
        })
    }),
    plain("4.2", "Without a valid key, even an unknown path is 401."),
    plain("4.4", "A request without a valid key is refused before its body has arrived."),
    plain("5.1", "Without a key the response is 401."),
    plain("5.2", "The scheme Bearer is case-insensitive; other credentials have their codes."),
    clause("5.3", "A 401 has WWW-Authenticate, with an error if a credential was refused.", |all, _| {
        all.get("without a key")?.has("www-authenticate", "Bearer realm=\"petstore\"")?;
        all.get("made-up key")?.lists("www-authenticate", "error=\"invalid_token\"")
    }),
    clause("5.13", "Every response to a key that expires has X-Api-Key-Expires, its end.", |all, _| {
        let usage = all.get("usage")?.json();
        let end = usage["key"]["expireTime"].as_str().and_then(|time| time.parse::<jiff::Timestamp>().ok());
        let end = end.ok_or_else(|| Finding::NotTried("the key never expires".to_owned()))?;
        let keyed = all.exchanges.iter().filter(|(asked, _)| asked.is_keyed);
        keyed.filter_map(|(_, answer)| answer.as_ref().ok()).try_for_each(|answer| {
            let field = answer.field("x-api-key-expires")?;
            let is_end = jiff::fmt::rfc2822::parse(&field).is_ok_and(|date| date.timestamp() == end);
            require(is_end, || answer.broken(format!("has X-Api-Key-Expires: {field}, not {end}")))
        })
    }),
    clause("6.3", "Every request with a valid key counts once; OPTIONS and usage do not.", |all, _| {
        let (before, after) = (all.get("usage")?, all.get("usage after")?);
        let used = |answer: &Answer| {
            let day = answer.json()["day"].take();
            let used = day["used"].as_u64().ok_or_else(|| answer.broken("has no number day.used"))?;
            Ok((day["resetsAt"].clone(), used))
        };
        let ((day, used_before), (same, used_after)) = (used(before)?, used(after)?);
        if day != same {
            return Err(Finding::NotTried("the day ended meanwhile".to_owned()));
        }
        let counted = used_after.saturating_sub(used_before);
        let sent = all.counted("usage", "usage after")?;
        require(counted == sent, || {
            after.broken(format!(
                "shows {sent} requests counted as {counted}: {COUNTED_ELSEWHERE}, or others use the account"
            ))
        })
    }),
    clause(
        "6.4",
        "A 429 is RATE_LIMITED with no requests left; a client that waits for Retry-After is admitted.",
        |all, _| {
            let over = all.any("over the limit")?;
            let (status, code) = (over.status, over.code());
            require(status == 429 && code == "RATE_LIMITED", || {
                over.broken(format!("answered {status} {code} with no requests left"))
            })?;
            let (left, wait) = (over.number("x-ratelimit-remaining")?, over.number("retry-after")?);
            require(left == 0 && (1..=60).contains(&wait), || {
                over.broken(format!("has {left} left, to wait {wait} s"))
            })?;
            let after = all.any("after the wait")?;
            require(after.status != 429, || after.broken("answered 429 after the wait"))
        },
    ),
    clause("6.3.3", "Exactly as many requests are admitted as are left.", |all, _| {
        let (over, first) = (all.get("over the limit")?, all.get("first of the minute")?);
        let (left, reset) = first.shown_window()?;
        if over.number("x-ratelimit-reset")? != reset {
            return Err(Finding::NotTried("the minute ended meanwhile".to_owned()));
        }
        let admitted = all.counted("first of the minute", "over the limit")?.saturating_sub(1);
        require(admitted == left, || over.broken(format!("came after {admitted} of {left} requests left")))
    }),
    clause(
        "6.5",
        "The window shown has fewer requests left; its reset is a Unix timestamp in seconds.",
        |all, _| all.each(shows_the_narrower_window),
    ),
    plain("6.7", "Usage works when the limit is used up."),
    clause("6.9", "Each failed authentication counts once against the client's own address.", |all, _| {
        follows(all.get("first of two")?, all.get("second of two")?, 1)?;
        let (other, own) = (all.get("other address")?, all.any("second of two")?);
        let ((left, reset), (spent, same)) = (other.shown_window()?, own.shown_window()?);
        require(reset != same || left > spent, || {
            other.broken(
                "from another address shows the same counts: the service does not see its clients' addresses \
                 (X-Forwarded-For, --trusted-proxy)",
            )
        })
    }),
    clause("6.9.2", "X-Forwarded-For of a client is not believed.", |all, _| {
        follows(all.any("second of two")?, all.any("claimed address")?, 1)
    }),
    clause("6.9.3", "OPTIONS counts nothing and shows the address's values.", |all, _| {
        follows(all.any("second of two")?, all.any("OPTIONS")?, 0)
    }),
    clause("7.1", "A list is a JSON array, by default of at most 20, in ascending order of id.", |all, _| {
        let pages = [("page", 1), ("default page", 20), ("sold", 100), ("orders", 1), ("default orders", 20)];
        pages.into_iter().try_for_each(|(name, most)| {
            let answer = all.get(name)?;
            let ids = ids(answer)?;
            let is_last = answer.values("x-next-cursor").is_empty();
            let is_right = (ids.len() == most || (ids.len() < most && is_last))
                && ids.is_sorted_by(|one, next| one < next);
            require(is_right, || answer.broken(format!("has the ids {ids:?}")))
        })
    }),
    clause(
        "7.1.1",
        "X-Next-Cursor and Link lead to the next page, which leads back to the first.",
        |all, _| {
            for (page, default) in [("orders", "default orders"), ("page", "default page")] {
                let page = all.get(page)?;
                let is_first_of_several = ids(all.get(default)?)?.len() > 1;
                let fields = ["x-next-cursor", "link"];
                if is_first_of_several || fields.iter().any(|name| !page.values(name).is_empty()) {
                    let cursor = page.field("x-next-cursor")?;
                    page.lists("link", &format!("cursor={cursor}>; rel=\"next\""))?;
                }
            }
            let (page, next) = (all.get("page")?, all.get("next page")?);
            let (first, second) = (ids(page)?, ids(next)?);
            let is_next =
                first.iter().all(|first| second.iter().all(|second| first < second)) && !second.is_empty();
            require(is_next, || next.broken(format!("has the ids {second:?} after {first:?}")))?;
            next.lists("link", "rel=\"first\"")
        },
    ),
    plain("7.1.5", "A damaged cursor is INVALID_CURSOR."),
    plain("7.1.6", "A limit out of range is INVALID_PARAMETER."),
    clause("7.1.7", "Several faults in one query are one Error that names them all.", |all, _| {
        names_all(all.get("two faults")?, &["limit", "status"])
    }),
    clause("7.2", "status restricts a list to one of three values, matched exactly.", |all, _| {
        let answer = all.get("sold")?;
        let pets = answer.json();
        let is_sold = pets.as_array().is_some_and(|pets| pets.iter().all(|pet| pet["status"] == "sold"));
        require(is_sold, || answer.broken(format!("has {pets}")))
    }),
    clause("7.3", "createPet answers 201 with the pet as it was sent.", |all, _| {
        let answer = all.get("created")?;
        let (mut sent, mut came): (Value, _) = (serde_json::from_str(PET).unwrap_or_default(), answer.json());
        let id = came["id"].take();
        sent["id"].take();
        let has_id = id.as_i64().is_some_and(|id| id > 0);
        let is_right =
            has_id && ["name", "categoryId", "status"].iter().all(|it| came.get(it) == sent.get(it));
        require(is_right, || answer.broken(format!("has {}", answer.json())))
    }),
    clause("7.3.1", "A body that is not JSON, or compressed, is 415 with what is accepted.", |all, _| {
        all.get("text")?.has("accept", "application/json")?;
        all.get("compressed")?.has("accept-encoding", "identity")
    }),
    plain("7.3.2", "A body of more than 64 KiB is BODY_TOO_LARGE."),
    plain("7.3.3", "The body is strict JSON: duplicate names are MALFORMED_JSON."),
    clause("7.3.4", "One message names every faulty field.", |all, _| {
        names_all(all.get("faulty fields")?, &["name", "categoryId"])
    }),
    clause("7.3.5", "A 201 has Location, which leads to the pet.", |all, _| {
        let created = all.get("created")?;
        created.field("location")?;
        let located = all.get("located")?;
        require(created.body == located.body, || located.broken("differs from the pet of the 201"))
    }),
    plain("7.4.1", "An Idempotency-Key of more than 255 characters is INVALID_IDEMPOTENCY_KEY."),
    clause("7.4.2", "The same Idempotency-Key and pet is 201 with the stored pet, replayed.", |all, _| {
        let (created, repeated) = (all.get("created")?, all.get("repeated")?);
        if !created.values("idempotency-replayed").is_empty() {
            return Err(created.broken("was replayed when it was first sent: something repeats requests"));
        }
        repeated.has("idempotency-replayed", "true")?;
        require(created.body == repeated.body, || repeated.broken("has another pet"))
    }),
    plain("7.4.3", "The same Idempotency-Key with another pet is IDEMPOTENCY_KEY_REUSED."),
    plain("7.5", "An unknown pet is PET_NOT_FOUND."),
    plain("7.5.1", "A petId that is not a plain int64 is PET_NOT_FOUND."),
    clause(
        "7.5.2",
        "Responses of getPet have Deprecation, Sunset and the Link of its successor.",
        |all, _| {
            let answer = all.any("unknown pet")?;
            answer.has("deprecation", "@1764892800")?;
            answer.has("sunset", "Thu, 05 Dec 2030 00:00:00 GMT")?;
            answer.lists("link", "/v1/pets?status=available>; rel=\"successor-version\"")?;
            answer.lists("link", "rel=\"deprecation\"")
        },
    ),
    clause("7.6.1", "HEAD is GET without a body.", |all, _| {
        let (page, head) = (all.get("page")?, all.get("HEAD")?);
        let [of_page, of_head] = [page, head].map(|it| ["x-next-cursor", "link"].map(|name| it.values(name)));
        require(head.body.is_empty() && of_page == of_head, || head.broken("differs from GET"))
    }),
    clause("7.6.2", "OPTIONS is 204 with Allow.", |all, _| all.get("OPTIONS")?.lists("allow", "POST")),
    clause("7.6.3", "Another method is 405 with Allow, an unknown path is 404.", |all, _| {
        all.get("DELETE")?.lists("allow", "POST")
    }),
    clause("7.9.1", "Unknown parameters are ignored, and X-Ignored-Input names them.", |all, _| {
        let (page, same) = (all.get("page")?, all.get("unknown parameter")?);
        same.lists("x-ignored-input", "\"nonsense\";in=query")?;
        require(page.body == same.body, || same.broken("has another page"))
    }),
    clause("8.5", "409, 429 and 503 have Retry-After.", |all, _| {
        let is_one = |answer: &Answer| matches!(answer.status, 409 | 429 | 503);
        all.each_of(is_one, |answer| answer.number("retry-after").map(drop))
    }),
    clause("9.3", "Responses of listOrders and getUsage have X-Stability.", |all, _| {
        all.get("orders")?.has("x-stability", "experimental")?;
        all.get("usage")?.has("x-stability", "beta")
    }),
    clause(
        "9.4",
        "Responses have the status, fields and body that the OpenAPI document describes.",
        |all, document| {
            let described = Described { document, is_complete: false };
            all.each(|answer| {
                let response = (answer.status, &answer.headers, &answer.body[..]);
                let checked = described.check((&answer.method, &answer.path), response);
                checked.map_err(|fault| answer.broken(format!("differs: {fault}")))
            })
        },
    ),
    plain("10.3", "A target has up to 8 KiB (414), header fields up to 32 KiB, and 100 of them (431)."),
    clause("10.6", "The OpenAPI document is beside /v1, with a strong ETag.", |all, _| {
        let answer = all.get("document")?;
        let tag = answer.field("etag")?;
        require(tag.starts_with('"'), || answer.broken(format!("has ETag: {tag}")))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `true` if the contract has a clause with this number: a heading, a paragraph, or an item of a
    /// list below a heading.
    fn is_in(contract: &str, number: &str) -> bool {
        let begins = |line: &str| line.trim_start_matches(['#', ' ']).starts_with(&format!("{number} "));
        let is_item = || {
            let (section, item) = number.rsplit_once('.')?;
            let (_, below) = contract.split_once(&format!("\n### {section} "))?;
            let section = below.split("\n#").next()?;
            Some(section.lines().any(|line| line.starts_with(&format!("{item}. "))))
        };
        contract.lines().any(begins) || is_item() == Some(true)
    }

    #[test]
    fn every_clause_is_in_the_contract() {
        let contract = include_str!("../../../docs/contract.md");
        for clause in CLAUSES {
            assert!(is_in(contract, clause.number), "{}", clause.number);
            assert!(clause.sentence.ends_with('.'), "{}", clause.sentence);
        }
        for wrong in ["3.99", "7.1.99", "7.3.9", "99"] {
            assert!(!is_in(contract, wrong), "{wrong}");
        }
    }
}
