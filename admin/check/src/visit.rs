//! The requests of a check, in their order.

use std::time::Duration;

use http::HeaderValue;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::{
    CheckError,
    answer::{Answer, Answers, Finding},
    client::{Client, Route},
    request::{self, CheckRequest, get},
};

/// Requests that count, at most, without `--exhaust`.
pub(crate) const NEEDED: u64 = 40;
/// Upper bound of the minute's limit that `--exhaust` uses up, with one request more.
const MAX_EXHAUSTED: u64 = 1_000;
/// Longest `Retry-After` of an exhausted minute, in seconds.
const MINUTE_SECS: u64 = 60;
/// Deadline of all requests, and with `--exhaust` of the further ones.
const CHECK_TIMEOUT: Duration = Duration::from_mins(2);

/// Check in progress.
pub(crate) struct Visit<'a> {
    client: &'a Client,
    key: &'a HeaderValue,
    pub(crate) answers: Answers,
    deadline: Instant,
}

impl<'a> Visit<'a> {
    pub(crate) fn new(client: &'a Client, key: &'a HeaderValue) -> Self {
        let answers =
            Answers { exchanges: Vec::new(), reason: "it needs an answer that did not come".to_owned() };
        Self { client, key, answers, deadline: Instant::now() + CHECK_TIMEOUT }
    }

    /// Sends everything.
    pub(crate) async fn run(&mut self, writes: bool, exhausts: bool) -> Result<(), CheckError> {
        for asked in request::without_key() {
            self.send(asked, None, None).await?;
            if let [(_, Err(Finding::Broken(reason)))] = &self.answers.exchanges[..] {
                return Err(self.unreachable(reason));
            }
        }
        self.is_in_service("without a key")?;
        let other = request::from_other_address();
        match self.client.other_route() {
            Some(route) => self.send(other, None, Some(route)).await?,
            None => self.skip(other, "this machine reaches the service from one address only"),
        }
        self.send(request::document(&self.client.base.prefix), None, None).await?;
        if let Some(path) = self.link("without a key", "help") {
            self.send(get("2.4", &format!("/..{path}"), 200, ""), None, None).await?;
        }
        if let Err(Finding::Broken(reason) | Finding::NotTried(reason)) = self.answers.get("without a key") {
            self.answers.reason = format!("the key was not sent, because {reason}");
            return Ok(());
        }
        self.with_key(writes).await?;
        if exhausts {
            return self.exhaust().await;
        }
        self.skip_exhausting("it needs --exhaust");
        Ok(())
    }

    /// Checks that the answer is none of an outage or a limit: nothing could be judged then.
    fn is_in_service(&self, name: &str) -> Result<(), CheckError> {
        match self.answers.get(name) {
            Err(Finding::NotTried(reason)) if self.answers.is_excused(name) => {
                Err(CheckError::OutOfService(reason))
            }
            _ => Ok(()),
        }
    }

    async fn with_key(&mut self, writes: bool) -> Result<(), CheckError> {
        self.keyed(get("2.6", "/usage", 200, "").named("usage")).await?;
        let refused = self.answers.any("usage").ok().filter(|usage| matches!(usage.status, 401 | 403));
        if let Some(refused) = refused {
            let answer = refused.json();
            let message = answer["message"].as_str().unwrap_or_default();
            let refused =
                format!("{} answered {} {}: {message}", refused.shown, refused.status, refused.code());
            return Err(CheckError::KeyRefused(refused));
        }
        self.is_in_service("usage")?;
        if let Ok(usage) = self.answers.get("usage") {
            let usage = usage.json();
            if let Some(end) = usage["ban"]["until"].as_str() {
                return Err(CheckError::KeyRefused(format!("it is banned until {end}")));
            }
            let left =
                ["minute", "day"].map(|window| usage[window]["remaining"].as_u64().unwrap_or_default());
            let left = left.into_iter().min().unwrap_or_default();
            if left < NEEDED {
                return Err(CheckError::TooFewLeft { left });
            }
        }
        for asked in request::writing(&Uuid::now_v7().to_string()) {
            if writes { self.keyed(asked).await? } else { self.skip(asked, "it needs --write") }
        }
        if let Some(path) =
            self.answers.get("created").ok().and_then(|created| created.field("location").ok())
        {
            self.keyed(get("7.3.5", &format!("/..{path}"), 200, "").named("located")).await?;
        }
        let id = format!("check-{}", Uuid::now_v7());
        for asked in request::with_key(&id) {
            self.keyed(asked).await?;
        }
        let next = self.link("page", "next").map(|path| get("7.1.1", &format!("/..{path}"), 200, ""));
        let pet = self.answers.get("page").ok().and_then(|page| page.json()[0]["id"].as_i64());
        let pet = pet.map(|id| get("2.1", &format!("/pets/{id}"), 200, ""));
        self.keyed_or(next, "", "next page", "the list has one page").await?;
        self.keyed_or(pet, "2.1", "pet", "there is no pet").await?;
        self.keyed(get("2.6", "/usage", 200, "").named("usage after")).await?;
        let lower_case = self.key.to_str().unwrap_or_default().replacen("Bearer", "bearer", 1);
        let mut lower_case = HeaderValue::try_from(lower_case).unwrap_or_else(|_| self.key.clone());
        lower_case.set_sensitive(true);
        self.send(get("5.2", "/usage", 200, "").named("lower case"), Some(&lower_case), None).await
    }

    /// Uses up the minute, waits as long as the service says, and sends one more request.
    async fn exhaust(&mut self) -> Result<(), CheckError> {
        let usage = self.answers.get("usage after").map(Answer::json).unwrap_or_default();
        let limit = usage["minute"]["limit"].as_u64().filter(|limit| *limit <= MAX_EXHAUSTED);
        let is_minute = limit.is_some_and(|limit| usage["day"]["remaining"].as_u64() > Some(limit));
        if !is_minute {
            self.skip_exhausting("the minute has more than 1000 requests, or the day has fewer left");
            return Ok(());
        }
        self.deadline = Instant::now() + CHECK_TIMEOUT;
        self.keyed(get("", "/pets?limit=1", 200, "").named("first of the minute")).await?;
        let Ok((left, reset)) = self.answers.any("first of the minute").and_then(Answer::shown_window) else {
            self.skip_exhausting("the first answer of the minute does not show the requests left");
            return Ok(());
        };
        for number in 0..=left.min(MAX_EXHAUSTED) {
            self.keyed(get("", "/pets?limit=1", 200, "")).await?;
            let Some((asked, Ok(answer))) = self.answers.exchanges.last_mut() else { break };
            let is_same_minute = answer.shown_window().is_ok_and(|(_, same)| same == reset);
            if answer.status == 429 || (number == left && (answer.status != 200 || is_same_minute)) {
                *asked = get("", "/pets?limit=1", 429, "RATE_LIMITED").named("over the limit");
                break;
            }
        }
        let Ok(over) = self.answers.any("over the limit") else {
            self.skip_exhausting("no request was over the limit: the minute ended first");
            return Ok(());
        };
        // Without a 429 of the limit, 6.4 is broken already: the wait would show nothing.
        let is_limited = over.status == 429 && over.code() == "RATE_LIMITED";
        let wait = over.number("retry-after").ok().filter(|wait| is_limited && *wait <= MINUTE_SECS);
        self.keyed(get("6.7", "/usage", 200, "").named("usage over the limit")).await?;
        if let Some(wait) = wait {
            sleep(Duration::from_secs(wait)).await;
            self.keyed(get("", "/pets?limit=1", 200, "").named("after the wait")).await?;
        }
        Ok(())
    }

    fn skip_exhausting(&mut self, reason: &str) {
        self.skip(get("", "/pets?limit=1", 429, "").named("over the limit"), reason);
        self.skip(get("6.7", "/usage", 200, "").named("usage over the limit"), reason);
    }

    /// Sends a request with the key.
    async fn keyed(&mut self, asked: CheckRequest) -> Result<(), CheckError> {
        self.send(asked, Some(self.key), None).await
    }

    /// Sends the request with the key if there is one; otherwise records why it was not tried.
    async fn keyed_or(
        &mut self,
        asked: Option<CheckRequest>,
        clause: &'static str,
        name: &'static str,
        reason: &str,
    ) -> Result<(), CheckError> {
        match asked {
            Some(asked) => self.keyed(asked.named(name)).await?,
            None => self.skip(get(clause, "", 200, "").named(name), reason),
        }
        Ok(())
    }

    /// Sends a request. Fails if there is no connection on the usual route.
    async fn send(
        &mut self,
        asked: CheckRequest,
        key: Option<&HeaderValue>,
        route: Option<Route>,
    ) -> Result<(), CheckError> {
        if Instant::now() >= self.deadline {
            self.skip(asked, "the time for the check was over");
            return Ok(());
        }
        let answer = self.client.send(&asked, key, route).await;
        if let (Err(Finding::NotTried(reason)), None) = (&answer, route) {
            return Err(self.unreachable(reason));
        }
        self.answers.exchanges.push((CheckRequest { is_keyed: key.is_some(), ..asked }, answer));
        Ok(())
    }

    fn unreachable(&self, reason: &str) -> CheckError {
        CheckError::Unreachable(self.client.base.to_string(), reason.to_owned())
    }

    fn skip(&mut self, asked: CheckRequest, reason: &str) {
        self.answers.exchanges.push((asked, Err(Finding::NotTried(reason.to_owned()))));
    }

    /// Returns the path of the link with this relation in an answer.
    fn link(&self, name: &str, relation: &str) -> Option<String> {
        let links = self.answers.get(name).ok()?.values("link").join(", ");
        let link = links.split(", ").find(|link| link.ends_with(&format!("; rel=\"{relation}\"")))?;
        Some(link.strip_prefix('<')?.split_once('>')?.0.to_owned()).filter(|path| path.starts_with('/'))
    }
}
