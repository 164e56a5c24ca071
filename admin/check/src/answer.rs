//! Answers, and what they show.

use std::fmt::Display;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::request::CheckRequest;

/// Answers that the contract allows at any time: the clause could not be tried.
const EXCUSES: [(u16, &str); 10] = [
    (403, "ADDRESS_NOT_ALLOWED"),
    (403, "INSUFFICIENT_SCOPE"),
    (410, "OPERATION_BROWNOUT"),
    (410, "OPERATION_REMOVED"),
    (429, "API_KEY_BANNED"),
    (429, "QUOTA_EXCEEDED"),
    (429, "RATE_LIMITED"),
    (503, "LIMITER_UNAVAILABLE"),
    (503, "OVERLOADED"),
    (503, "UNAVAILABLE"),
];

/// Difference between the clocks of two machines that is not judged, in seconds.
const CLOCK_TOLERANCE: u64 = 5;

/// Reason why a clause does not count as kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The service or its proxy broke it: what came instead.
    Broken(String),
    /// Reason why it was not tried.
    NotTried(String),
}

pub(crate) type Judgement = Result<(), Finding>;

/// Answer of the service, or of something before it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Request, as reports show it.
    pub(crate) shown: String,
    pub(crate) method: Method,
    /// Path of the request, without what precedes `/v1`.
    pub(crate) path: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Window of a rate limit, as `RateLimit` and `RateLimit-Policy` show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownWindow {
    pub(crate) limit: u64,
    pub(crate) length: u64,
    pub(crate) left: u64,
    pub(crate) resets_in: u64,
}

impl Answer {
    /// Returns the finding that this answer breaks a clause, with the fields that name who wrote it.
    pub(crate) fn broken(&self, what: impl Display) -> Finding {
        let fields = |name| self.values(name).into_iter().map(move |value| format!("{name}: {value}"));
        let named: Vec<_> = ["via", "server"].into_iter().flat_map(fields).collect();
        let culprit = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
        Finding::Broken(format!("{} {what}{culprit}", self.shown))
    }

    /// Returns the body as JSON, or null.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns the code of an Error, or nothing.
    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// Checks status and code.
    pub(crate) fn is(&self, (status, code): (u16, &str)) -> Judgement {
        let came = self.code();
        if self.status == status && (code.is_empty() || self.method == Method::HEAD || came == code) {
            return Ok(());
        }
        let answered = format!("answered {} {came}", self.status).trim_end().to_owned();
        if EXCUSES.contains(&(self.status, &came)) {
            return Err(Finding::NotTried(format!("{} {answered}", self.shown)));
        }
        Err(self.broken(format!("{answered}, not {status} {code}").trim_end()))
    }

    pub(crate) fn values(&self, name: &str) -> Vec<String> {
        let values = self.headers.get_all(name).into_iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    }

    /// Returns the value of a field that is there exactly once.
    pub(crate) fn field(&self, name: &str) -> Result<String, Finding> {
        match &self.values(name)[..] {
            [value] => Ok(value.clone()),
            values => Err(self.broken(format!("has {} fields {name}", values.len()))),
        }
    }

    /// Checks the value of a field.
    pub(crate) fn has(&self, name: &str, right: &str) -> Judgement {
        let value = self.field(name)?;
        if value == right { Ok(()) } else { Err(self.broken(format!("has {name}: {value}, not {right}"))) }
    }

    /// Checks that a field of several, such as `Link`, contains this.
    pub(crate) fn lists(&self, name: &str, right: &str) -> Judgement {
        let values = self.values(name).join(", ");
        let is_right = values.contains(right);
        if is_right { Ok(()) } else { Err(self.broken(format!("has {name}: {values}, without {right}"))) }
    }

    /// Returns a field that is a decimal number.
    pub(crate) fn number(&self, name: &str) -> Result<u64, Finding> {
        let value = self.field(name)?;
        let number = value.parse::<u64>().ok().filter(|number| number.to_string() == value);
        number.ok_or_else(|| self.broken(format!("has {name}: {value}, which is no decimal number")))
    }

    /// Returns the requests left and the end of the window that the three header fields show.
    pub(crate) fn shown_window(&self) -> Result<(u64, u64), Finding> {
        Ok((self.number("x-ratelimit-remaining")?, self.number("x-ratelimit-reset")?))
    }

    /// Returns the minute and the day.
    pub(crate) fn windows(&self) -> Result<[ShownWindow; 2], Finding> {
        let (policy, state) = (self.field("ratelimit-policy")?, self.field("ratelimit")?);
        let number = |field: &str, name: &str, parameter: &str| {
            let item = field.split(", ").find_map(|item| item.strip_prefix(&format!("\"{name}\";")))?;
            item.split(';').find_map(|part| part.strip_prefix(parameter)?.strip_prefix('=')?.parse().ok())
        };
        let window = |name: &str| {
            Some(ShownWindow {
                limit: number(&policy, name, "q")?,
                length: number(&policy, name, "w")?,
                left: number(&state, name, "r")?,
                resets_in: number(&state, name, "t")?,
            })
        };
        let both = window("minute").zip(window("day")).map(|(minute, day)| [minute, day]);
        both.ok_or_else(|| self.broken(format!("has RateLimit: {state} and RateLimit-Policy: {policy}")))
    }
}

/// Request, and its answer or why there is none.
pub(crate) type Exchange = (CheckRequest, Result<Answer, Finding>);

/// Everything that was sent, or would have been, in order.
#[derive(Debug)]
pub(crate) struct Answers {
    pub(crate) exchanges: Vec<Exchange>,
    /// Reason why the requests that are not there were not sent.
    pub(crate) reason: String,
}

impl Answers {
    /// Returns the number of requests that were sent.
    pub(crate) fn requests(&self) -> usize {
        let is_sent = |(_, answer): &&Exchange| !matches!(answer, Err(Finding::NotTried(_)));
        self.exchanges.iter().filter(is_sent).count()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.exchanges.iter().position(|(asked, _)| asked.name == name)
    }

    /// Returns `true` if the service answered as it may at any time.
    pub(crate) fn is_excused(&self, name: &str) -> bool {
        self.any(name).is_ok_and(|answer| EXCUSES.contains(&(answer.status, &answer.code())))
    }

    fn missing(&self) -> Finding {
        Finding::NotTried(self.reason.clone())
    }

    /// Returns the answer with this name, whatever it is.
    pub(crate) fn any(&self, name: &str) -> Result<&Answer, Finding> {
        let (_, answer) = &self.exchanges[self.find(name).ok_or_else(|| self.missing())?];
        answer.as_ref().map_err(Clone::clone)
    }

    /// Returns the value of a field of the request with this name.
    pub(crate) fn sent(&self, name: &str, field: &str) -> String {
        let asked = self.find(name).map(|position| &self.exchanges[position].0);
        let fields = asked.into_iter().flat_map(|asked| &asked.fields);
        fields.filter(|(known, _)| *known == field).map(|(_, value)| value.clone()).collect()
    }

    /// Returns the number of requests from one with a name to another that the account is charged for.
    pub(crate) fn counted(&self, from: &str, to: &str) -> Result<u64, Finding> {
        let (from, to) = self.find(from).zip(self.find(to)).ok_or_else(|| self.missing())?;
        let between =
            self.exchanges[from..=to].iter().filter(|(asked, _)| asked.is_keyed && asked.path != "/usage");
        let counted = between.map(|(_, answer)| match answer {
            Ok(answer) => Ok(u64::from(answer.status != 429)),
            Err(Finding::Broken(reason) | Finding::NotTried(reason)) => {
                Err(Finding::NotTried(reason.clone()))
            }
        });
        counted.sum()
    }

    /// Returns the answer with this name, if it has the status and the code that another clause requires.
    pub(crate) fn get(&self, name: &str) -> Result<&Answer, Finding> {
        let (asked, answer) = &self.exchanges[self.find(name).ok_or_else(|| self.missing())?];
        let other = |finding| match finding {
            Finding::Broken(reason) | Finding::NotTried(reason) => Finding::NotTried(reason),
        };
        let answer = answer.as_ref().map_err(|finding| other(finding.clone()))?;
        answer.is(asked.expected).map_err(other)?;
        Ok(answer)
    }

    /// Returns every answer under the base address.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Answer> {
        let answers = self.exchanges.iter().filter_map(|(_, answer)| answer.as_ref().ok());
        answers.filter(|answer| answer.path.starts_with("/v1"))
    }

    /// Checks every answer under the base address.
    pub(crate) fn each(&self, check: impl Fn(&Answer) -> Judgement) -> Judgement {
        self.each_of(|_| true, check)
    }

    /// Checks those answers under the base address, at least one, and reports the first that breaks the
    /// clause, with the number of the others.
    pub(crate) fn each_of(
        &self,
        is_one: impl Fn(&Answer) -> bool,
        check: impl Fn(&Answer) -> Judgement,
    ) -> Judgement {
        let judged: Vec<_> = self.all().filter(|answer| is_one(answer)).map(check).collect();
        let mut broken = judged.iter().filter_map(|judged| judged.as_ref().err());
        match (broken.next(), broken.count()) {
            (None, _) if judged.is_empty() => Err(self.missing()),
            (None, _) => Ok(()),
            (Some(Finding::Broken(first)), others @ 1..) => {
                Err(Finding::Broken(format!("{first}; and {others} more")))
            }
            (Some(one), _) => Err(one.clone()),
        }
    }

    /// Checks status and code of the answers that this clause gives, and returns their number.
    pub(crate) fn expected(&self, clause: &str) -> Result<usize, Finding> {
        let of_clause = self.exchanges.iter().filter(|(asked, _)| asked.clause == clause);
        let judged: Vec<_> = of_clause
            .map(|(asked, answer)| answer.as_ref().map_err(Clone::clone)?.is(asked.expected))
            .collect();
        let is_broken = |judged: &&Judgement| matches!(judged, Err(Finding::Broken(_)));
        let first = judged.iter().find(is_broken).or(judged.iter().find(|judged| judged.is_err()));
        first.cloned().unwrap_or(Ok(())).map(|()| judged.len())
    }

    /// Checks that this clause gives an answer.
    pub(crate) fn tried(&self, clause: &str) -> Judgement {
        if self.expected(clause)? > 0 { Ok(()) } else { Err(self.missing()) }
    }
}

/// Returns a judgement of a condition.
pub(crate) fn require(holds: bool, finding: impl FnOnce() -> Finding) -> Judgement {
    if holds { Ok(()) } else { Err(finding()) }
}

/// Returns the ids of a list, every item of which has one.
pub(crate) fn ids(answer: &Answer) -> Result<Vec<i64>, Finding> {
    let items = answer.json();
    let ids = items.as_array().and_then(|items| items.iter().map(|item| item["id"].as_i64()).collect());
    ids.ok_or_else(|| answer.broken("is no list of items that have ids"))
}

/// Checks that the body is an Error.
pub(crate) fn is_error(answer: &Answer) -> Judgement {
    let body = answer.json();
    let (code, message) = (&body["code"], &body["message"]);
    let is_right = code.is_string()
        && message.is_string()
        && body == json!({ "code": code, "message": message, "status": answer.status });
    require(is_right, || {
        answer.broken(format!("answered {} with another body than an Error", answer.status))
    })?;
    answer.lists("link", &format!("/docs/errors/{}>; rel=\"help\"", answer.code()))
}

/// Checks that the message of an Error names all of these.
pub(crate) fn names_all(answer: &Answer, names: &[&str]) -> Judgement {
    let body = answer.json();
    let message = body["message"].as_str().unwrap_or_default();
    let is_right = names.iter().all(|name| message.contains(name));
    require(is_right, || answer.broken(format!("says {message}, which does not name all of {names:?}")))
}

/// Reasons for counts of two answers that do not follow each other.
pub(crate) const COUNTED_ELSEWHERE: &str =
    "a gateway decided without Redis meanwhile, something repeats requests";

/// Checks that the second answer shows the window of the first one, with `counted` requests more.
pub(crate) fn follows(first: &Answer, second: &Answer, counted: u64) -> Judgement {
    let ((before, reset), (after, same)) = (first.shown_window()?, second.shown_window()?);
    if same != reset && now(second).is_none_or(|now| now + CLOCK_TOLERANCE >= reset) {
        return Err(Finding::NotTried("the window ended meanwhile".to_owned()));
    }
    let is_right = same == reset && after + counted == before;
    require(is_right, || {
        second.broken(format!(
            "shows {after} requests left until {same}, after {before} until {reset}: {COUNTED_ELSEWHERE}, or \
             others use this address"
        ))
    })
}

/// Returns the time of the answer, in Unix seconds.
fn now(answer: &Answer) -> Option<u64> {
    let date = jiff::fmt::rfc2822::parse(answer.values("date").first()?).ok()?;
    date.timestamp().as_second().try_into().ok()
}

/// Checks that the three header fields show the window with fewer requests left, or the day if they are
/// equal, and that its end is plausible. A 429 shows another one.
pub(crate) fn shows_the_narrower_window(answer: &Answer) -> Judgement {
    if answer.status == 429 {
        return Ok(());
    }
    let ([minute, day], limit, (left, reset)) =
        (answer.windows()?, answer.number("x-ratelimit-limit")?, answer.shown_window()?);
    let shown = if minute.left < day.left { minute } else { day };
    let is_shown = (limit, left) == (shown.limit, shown.left);
    require(is_shown, || {
        answer.broken(format!("shows {left} of {limit}, not {} of {}", shown.left, shown.limit))
    })?;
    let Some(now) = now(answer) else { return Ok(()) };
    let is_near = (now + shown.resets_in).abs_diff(reset) <= CLOCK_TOLERANCE;
    require(is_near, || {
        let until = shown.resets_in;
        answer.broken(format!("shows the reset {reset}, in {until} s, {now} s after 1970"))
    })
}
