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

// In layers, the highest first: visit, clauses, report, client, answer, request, openapi.
mod answer;
mod clauses;
mod client;
pub mod openapi;
mod report;
mod request;
mod visit;

use http::HeaderValue;
use serde_json::Value;
use tokio_rustls::rustls::{self, pki_types::CertificateDer};

use crate::{clauses::CLAUSES, client::Client, report::CheckedClause, visit::Visit};
pub use crate::{client::BaseUrl, report::CheckReport};

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
        "{left} requests are left, and the check needs {}: wait for the next window, or use another key",
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
    let answers = visit.into_answers();
    let judged = CLAUSES.iter().map(|clause| CheckedClause {
        number: clause.number,
        sentence: clause.sentence,
        finding: clause.judge(&answers, document).err(),
    });
    Ok(CheckReport { base_url, requests: answers.requests(), clauses: judged.collect() })
}
