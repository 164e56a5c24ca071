//! Checks a service from outside, at any address, clause by clause of its contract (`docs/contract.md`).
//!
//! [`check`] sends about 50 requests, each bounded in time and size, and follows no redirect. It knows
//! only the contract: whatever is between it and the service is checked too, and a broken clause names the
//! fields by which a proxy shows itself. The key is sent only if the service first refuses a request without
//! one, as the contract says. What was not tried has its reason. A check that cannot begin is a
//! [`CheckError`].
//!
//! ```no_run
//! use http::HeaderValue;
//! use petstore_admin_check::{CheckTarget, check};
//!
//! # async fn example(document: serde_json::Value) -> Result<(), Box<dyn std::error::Error>> {
//! let target = CheckTarget {
//!     base_url: "https://shop.example/v1".parse()?,
//!     authorization: HeaderValue::from_static("Bearer pet_live_…"),
//!     authorities: None,
//!     writes: false,
//!     exhausts: false,
//! };
//! let report = check(target, &document).await?;
//! println!("{}", report.text());
//! assert_eq!(report.broken(), 0);
//! # Ok(())
//! # }
//! ```

// In layers, the highest first: visit, clauses, client, answer, request, openapi.
mod answer;
mod clauses;
mod client;
pub mod openapi;
mod request;
mod visit;

use std::fmt::Write as _;

use http::HeaderValue;
use petstore_caller::api_key::redact;
use serde_json::{Value, json};
use tokio_rustls::rustls::{self, pki_types::CertificateDer};

pub use crate::client::BaseUrl;
use crate::{
    answer::{Finding, Judgement},
    clauses::{CLAUSES, Clause},
    client::Client,
    visit::Visit,
};

/// Reason why a service was not judged.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// There is no connection, or nothing that speaks HTTP on it: the base address, and why.
    #[error("cannot reach {0}: {1}")]
    Unreachable(String, String),
    /// The service does not serve the key: its answer.
    #[error("the check needs a key that the service accepts: {0}")]
    KeyRefused(String),
    /// The service serves nobody at the moment: its answer.
    #[error("the service does not work at the moment: {0}")]
    OutOfService(String),
    /// TLS cannot be used.
    #[error("cannot use TLS")]
    Tls(#[source] rustls::Error),
    /// The account has too few requests left.
    #[error(
        "{left} requests are left, and the check needs {}: wait for the next window, or use a key of another \
         account",
        visit::NEEDED
    )]
    TooFewLeft {
        /// Requests left in the minute or in the day.
        left: u64,
    },
}

/// Service to check, and what the check may do.
#[derive(Debug)]
pub struct CheckTarget {
    /// Base address.
    pub base_url: BaseUrl,
    /// Field `Authorization`, with the API key; marked as sensitive.
    pub authorization: HeaderValue,
    /// Authorities that may issue the service's certificate; those of the operating system if there are none.
    pub authorities: Option<Vec<CertificateDer<'static>>>,
    /// `true` if the check may add a pet.
    pub writes: bool,
    /// `true` if the check may use up the account's minute.
    pub exhausts: bool,
}

/// Checks a service. `document` is the OpenAPI document of the version that it is compared with.
///
/// # Errors
///
/// If the service cannot be reached, or the account has too few requests left.
pub async fn check(target: CheckTarget, document: &Value) -> Result<CheckReport, CheckError> {
    let base_url = target.base_url.to_string();
    let client = Client::connect(target.base_url, target.authorities).await?;
    let mut visit = Visit::new(&client, &target.authorization);
    visit.run(target.writes, target.exhausts).await?;
    let answers = visit.answers;
    let clauses = CLAUSES.iter().map(|clause| (clause, clause.judge(&answers, document))).collect();
    Ok(CheckReport { base_url, requests: answers.requests(), clauses })
}

/// Result of a check: each clause, and whether it was kept. It is text, JSON or `JUnit`.
#[derive(Debug)]
pub struct CheckReport {
    base_url: String,
    requests: usize,
    clauses: Vec<(&'static Clause, Judgement)>,
}

fn result(judged: &Judgement) -> &'static str {
    match judged {
        Ok(()) => "kept",
        Err(Finding::Broken(_)) => "broken",
        Err(Finding::NotTried(_)) => "not tried",
    }
}

/// Returns what came, or why it was not tried. It may repeat what a stranger sent, but no key.
fn reason(judged: &Judgement) -> String {
    match judged {
        Ok(()) => String::new(),
        Err(Finding::Broken(reason) | Finding::NotTried(reason)) => {
            let visible =
                reason.chars().map(|character| if character.is_control() { ' ' } else { character });
            redact(&visible.collect::<String>()).into_owned()
        }
    }
}

impl CheckReport {
    /// Returns the number of clauses that are broken.
    pub fn broken(&self) -> usize {
        self.count("broken")
    }

    fn count(&self, result: &str) -> usize {
        self.clauses.iter().filter(|(_, judged)| self::result(judged) == result).count()
    }

    fn summary(&self) -> String {
        let counts = ["kept", "broken", "not tried"].map(|result| format!("{} {result}", self.count(result)));
        format!("{}: {}, in {} requests", self.base_url, counts.join(", "), self.requests)
    }

    /// Returns a line for each clause, and one below it with what came instead.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (clause, judged) in &self.clauses {
            let _ = writeln!(text, "{:9}  {:6} {}", result(judged), clause.number, clause.sentence);
            if judged.is_err() {
                let _ = writeln!(text, "{:18}{}", "", reason(judged));
            }
        }
        text + &self.summary() + "\n"
    }

    /// Returns the JSON document.
    pub fn json(&self) -> Value {
        let clauses = self.clauses.iter().map(|(clause, judged)| {
            json!({
                "clause": clause.number,
                "sentence": clause.sentence,
                "result": result(judged),
                "reason": reason(judged),
            })
        });
        json!({
            "baseUrl": self.base_url,
            "requests": self.requests,
            "kept": self.count("kept"),
            "broken": self.count("broken"),
            "notTried": self.count("not tried"),
            "clauses": clauses.collect::<Vec<_>>(),
        })
    }

    /// Returns the report in the XML of `JUnit`, with a test case for each clause.
    pub fn junit(&self) -> String {
        let (tests, failures, skipped) = (self.clauses.len(), self.count("broken"), self.count("not tried"));
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{tests}\" \
             failures=\"{failures}\" skipped=\"{skipped}\">\n",
            escaped(&self.base_url)
        );
        for (clause, judged) in &self.clauses {
            let name = escaped(&format!("{} {}", clause.number, clause.sentence));
            let reason = escaped(&reason(judged));
            let rest = match judged {
                Ok(()) => "/>".to_owned(),
                Err(Finding::Broken(_)) => format!("><failure message=\"{reason}\"/></testcase>"),
                Err(Finding::NotTried(_)) => format!("><skipped message=\"{reason}\"/></testcase>"),
            };
            let _ = writeln!(xml, "  <testcase classname=\"contract\" name=\"{name}\"{rest}");
        }
        xml + "</testsuite>\n"
    }
}

/// Returns the text as the value of an XML attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
