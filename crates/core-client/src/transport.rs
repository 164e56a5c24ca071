//! Transport for the generated clients, its errors, cores' refusals of this gateway, and the text of
//! failures.

use std::{
    error::Error,
    future::ready,
    iter::successors,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use parking_lot::Mutex;
use petstore_proto::{ERROR_DOMAIN, v1::ErrorReason};
use petstore_telemetry::parts::FaultCause;
use tokio::time::Instant;
use tonic::{Code, Status, body::Body};
use tonic_types::StatusExt;
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};

/// Transport of gRPC calls to the core. The all-in-one process passes the core's own service, so that no
/// socket is needed; a separate gateway passes the result of [`connect()`](crate::connect()).
pub type CoreTransport = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// The call did not reach the core, or its answer did not return.
#[derive(Debug, thiserror::Error)]
#[error("transport error")]
pub struct TransportError(#[source] BoxError);

impl TransportError {
    pub(super) fn new(cause: impl Into<BoxError>) -> Self {
        Self(cause.into())
    }

    /// Returns the innermost cause, which is the most specific.
    pub(super) fn cause(&self) -> String {
        text_of(innermost(&*self.0))
    }
}

/// Converts the error as the generated clients do. If its cause is a status, returns that status.
impl From<TransportError> for Status {
    fn from(error: TransportError) -> Self {
        match error.0.downcast::<Self>() {
            Ok(status) => *status,
            Err(cause) => Self::from_error(TransportError(cause).into()),
        }
    }
}

/// [`CoreTransport`] with a named error type. With a boxed error, the compiler cannot see that the futures of
/// the generated clients are `Send` (rust-lang/rust#110338).
pub(super) type NamedTransport = BoxCloneSyncService<Request<Body>, Response<Body>, TransportError>;

/// Returns the transport with a named error type, which accepts only answers of a core, and records the
/// cores' refusals of this gateway.
pub(super) fn named(core: CoreTransport, refusals: Arc<Refusals>) -> NamedTransport {
    let accept = move |response| ready(of_core(response, &refusals));
    BoxCloneSyncService::new(core.map_err(TransportError).and_then(accept))
}

/// Returns a call whose message has no fields.
pub(super) fn empty_call(path: &'static str) -> Request<Body> {
    let mut request = Request::new(Body::new(Full::new(Bytes::from_static(&[0; 5]))));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static(path);
    let fields = [(header::TE, "trailers"), (header::CONTENT_TYPE, "application/grpc")];
    request.headers_mut().extend(fields.map(|(name, value)| (name, HeaderValue::from_static(value))));
    request
}

/// Time for which a refusal is remembered, and number of answers in a row that end it earlier. Behind one
/// address there may be several cores of which one refuses this gateway, and then other calls succeed
/// meanwhile. A gateway makes a call each second at least.
const MEMORY: Duration = Duration::from_secs(30);
const ANSWERS: u32 = 8;

/// Header field in which a core gives the reason of a refusal. Its status has no details, by which gateways
/// tell it from the refusal of an operator.
const REASON: &str = "petstore-refusal";

/// Record of the last refusal of this gateway by a core, and the number of answers since then.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<Option<(Instant, FaultCause, u32)>>);

/// Extension of a core's answer: another core refuses this gateway, for this reason.
#[derive(Clone, Copy)]
pub(super) struct AnotherRefuses(pub(super) FaultCause);

impl Refusals {
    /// Records the refusal that an answer is, or tells of, or that a core has begun to answer. An error says
    /// nothing: it may be a proxy's.
    pub(super) fn record(&self, answer: &Response<Body>) {
        let of_another = answer.extensions().get().map(|AnotherRefuses(cause)| *cause);
        let mut last = self.0.lock();
        if let Some(cause) = of_another.or_else(|| Some(cause_of(&refusal(answer)?))) {
            *last = Some((Instant::now(), cause, 0));
        } else if answer.status() == StatusCode::OK && !answer.headers().contains_key(Status::GRPC_STATUS) {
            *last = last.map(|(at, cause, n)| (at, cause, n + 1)).filter(|(_, _, n)| *n < ANSWERS);
        }
    }

    /// Returns the cause of the last refusal, if that was recent.
    pub fn recent(&self) -> Option<FaultCause> {
        let (refused_at, cause, _) = (*self.0.lock())?;
        (refused_at.elapsed() < MEMORY).then_some(cause)
    }
}

/// Returns the status of an answer by which a core refuses this gateway.
pub(super) fn refusal(answer: &Response<Body>) -> Option<Status> {
    if !answer.headers().contains_key(Status::GRPC_STATUS) {
        return None; // as in nearly every answer
    }
    Status::from_header_map(answer.headers())
        .filter(|status| status.code() == Code::Unauthenticated && status.details().is_empty())
}

/// Returns the cause of a refusal.
pub(super) fn cause_of(refusal: &Status) -> FaultCause {
    let is_about_certificate = match refusal.metadata().get(REASON) {
        Some(reason) => reason == "no_certificate",
        None => refusal.message().contains("client certificate"), // of a core of 1.1
    };
    if is_about_certificate { FaultCause::CoreCertificateRequired } else { FaultCause::CoreTokenRefused }
}

/// Accepts answers of a core: HTTP status 200, or a `grpc-status` with any HTTP status (gRPC over HTTP2,
/// "HTTP2 Transport Mapping"). Any other answer is from a proxy in between, and its body is not a message. So
/// is one that says that the core is unavailable or late without a reason: a core always gives one.
fn of_core(response: Response<Body>, refusals: &Refusals) -> Result<Response<Body>, TransportError> {
    refusals.record(&response);
    if !response.headers().contains_key(Status::GRPC_STATUS) {
        return match response.status() {
            StatusCode::OK => Ok(response),
            status => Err(TransportError::new(format!(
                "HTTP status {status} from a server between this gateway and the core"
            ))),
        };
    }
    match Status::from_header_map(response.headers()).filter(|status| status.details().is_empty()) {
        Some(status) if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) => {
            Err(TransportError::new(status))
        }
        _ => Ok(response),
    }
}

/// Returns the reason why a call to the core failed, in one line: the core's message or, if it was not
/// reached, the innermost known cause, such as `connection refused`. Omits details, which are for programs.
pub fn failure_text(status: &Status) -> String {
    let Some(cause) = status.source() else { return status.message().to_owned() };
    let cause = text_of(innermost(cause));
    let cause = cause.split(" (os error").next().unwrap_or_default(); // the number is in the text already
    match status.message() {
        "" | "transport error" => cause.to_owned(),
        message if message.contains(cause) => cause.to_owned(),
        message => format!("{message}: {cause}"),
    }
}

/// Returns the text of an error, or the message of a status, whose text would repeat its code and fields.
fn text_of(error: &(dyn Error + 'static)) -> String {
    error.downcast_ref::<Status>().map_or_else(|| error.to_string(), |status| status.message().to_owned())
}

/// Returns the innermost cause of the error, or the error itself.
fn innermost<'e>(error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    causes(error).last().unwrap_or(error)
}

/// Returns `true` if the status was made on this side. It then has a source, with any code: a connection that
/// was cut half-way through an answer is `INTERNAL` to tonic. Or the generated client made it because the
/// transport was not ready.
pub fn is_transport_failure(status: &Status) -> bool {
    status.source().is_some()
        || status.message() == "transport error"
        || status.message().starts_with("Service was not ready")
}

/// Returns the outcome of a call as the breaker judges it: an error means that the answer was lost.
pub(super) async fn lost_or_answered<T>(
    call: impl Future<Output = Result<T, Status>>,
) -> Result<Result<T, Status>, TransportError> {
    match call.await {
        Err(status) if is_transport_failure(&status) => Err(TransportError::new(status)),
        answered => Ok(answered),
    }
}

/// Returns the error, its cause, the cause of that, and so on.
pub(super) fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// Returns `true` if an error of type `E` led to the status.
pub(super) fn is_caused_by<E: Error + 'static>(status: &Status) -> bool {
    causes(status).any(<dyn Error>::is::<E>)
}

/// Returns the reason in the status's `ErrorInfo` (AIP-193), if the core may give it. Other reasons are the
/// caller's own.
pub fn named_reason(status: &Status) -> Option<ErrorReason> {
    let info = status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN)?;
    ErrorReason::named(&info.reason).filter(|reason| reason.code().grpc.is_some())
}

/// Evaluates the answers to reports of one kind. The log gets one line when the core begins to refuse them,
/// instead of one for each.
#[derive(Debug)]
pub struct ReportAnswers {
    /// Description of the refused reports for the log, and the consequence.
    reports: &'static str,
    is_refused: AtomicBool,
}

impl ReportAnswers {
    /// Returns the evaluation of reports with this description, which continues "the core refuses".
    pub const fn new(reports: &'static str) -> Self {
        Self { reports, is_refused: AtomicBool::new(false) }
    }

    /// Returns the answer to a report, or `None` if the core refuses it and would refuse it again.
    ///
    /// # Errors
    /// The status, if the report may be sent again.
    pub fn judge<T>(&self, answer: Result<T, Status>) -> Result<Option<T>, Status> {
        match answer {
            Ok(answer) => {
                self.is_refused.store(false, Ordering::Relaxed);
                Ok(Some(answer))
            }
            Err(status) if matches!(status.code(), Code::InvalidArgument | Code::OutOfRange) => {
                if !self.is_refused.swap(true, Ordering::Relaxed) {
                    tracing::error!(error = failure_text(&status), "the core refuses {}", self.reports);
                }
                Ok(None)
            }
            Err(status) => Err(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use petstore_test_servers::Logged;

    use super::*;

    #[test]
    fn a_refusal_has_the_cause_that_its_core_gives_and_one_of_an_operator_has_none() {
        use FaultCause::{CoreCertificateRequired, CoreTokenRefused};
        for (code, reason, message, details, expected) in [
            (Code::Unauthenticated, "no_certificate", "any", "", Some(CoreCertificateRequired)),
            (Code::Unauthenticated, "wrong_token", "a client certificate", "", Some(CoreTokenRefused)),
            (Code::Unauthenticated, "", "must show a client certificate", "", Some(CoreCertificateRequired)),
            (Code::Unauthenticated, "", "not this core's", "", Some(CoreTokenRefused)),
            (Code::Unauthenticated, "", "no such operator", "details", None),
            (Code::Internal, "", "a fault", "", None),
        ] {
            let mut status = Status::with_details(code, message, details.into());
            if !reason.is_empty() {
                status.metadata_mut().insert(REASON, reason.parse().unwrap());
            }
            let refusals = Refusals::default();
            refusals.record(&status.into_http());
            assert_eq!(refusals.recent(), expected, "{message}");
            let of_a_proxy = Response::builder().status(502).body(Body::default()).unwrap();
            for _ in 1..ANSWERS {
                refusals.record(&Response::default());
                (0..2 * ANSWERS).for_each(|_| refusals.record(&of_a_proxy));
                assert_eq!(refusals.recent(), expected, "one of several cores may refuse");
            }
            refusals.record(&Response::default());
            assert_eq!(refusals.recent(), None, "it is over");
        }
    }

    #[test]
    fn reports_that_the_core_begins_to_refuse_are_logged_once() {
        let (answers, logged) = (ReportAnswers::new("a report"), Logged::of("core_client::transport"));
        let refused = || Err::<(), _>(Status::invalid_argument("not valid"));
        for (answer, judged, lines) in [
            (Err(Status::unavailable("busy")), None, 0),
            (refused(), Some(None), 1),
            (refused(), Some(None), 0),
            (Ok(()), Some(Some(())), 0),
            (refused(), Some(None), 1),
        ] {
            assert_eq!(answers.judge(answer).ok(), judged);
            assert_eq!(logged.levels().len(), lines);
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("a layer of the transport")]
    struct Layer(#[source] io::Error);

    #[test]
    fn the_status_of_the_core_is_logged_unchanged() {
        assert_eq!(failure_text(&Status::unavailable("the store is busy")), "the store is busy");
    }

    #[test]
    fn a_transport_failure_is_logged_with_its_root_cause() {
        let refused = || Layer(io::Error::from_raw_os_error(111));
        let mut status = Status::unavailable("tcp connect error");
        status.set_source(std::sync::Arc::new(refused()));
        assert_eq!(failure_text(&status), "tcp connect error: Connection refused");
        let mut status = Status::unavailable("no core: Connection refused by its host");
        status.set_source(std::sync::Arc::new(refused()));
        assert_eq!(failure_text(&status), "Connection refused", "the cause is not repeated");
        let status = Status::from_error(Box::new(refused()));
        assert!(!failure_text(&status).contains("Layer("), "{}", failure_text(&status));
    }
}
