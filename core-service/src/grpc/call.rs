//! Bounds of every call: a deadline, a limit on the calls in flight, and no panic that reaches the
//! connection.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use http::HeaderMap;
use petstore_telemetry::traces::{KeyValue, Root, Span, grpc};
use tokio::{sync::Semaphore, time};
use tonic::{Request, Response, Status};

use super::{
    call_id::CallId,
    methods::{Class, Method},
    receive::CallBegin,
    status::{code, reason, to_status},
};
use crate::{Core, domain::PetStoreError};

/// Time before the caller's deadline by which the answer is given, so that the caller still receives it, and
/// before tonic's own timer, whose answer has no reason.
const MARGIN: Duration = Duration::from_millis(50);

/// Metadata of a call that its caller sent.
#[derive(Debug)]
pub(super) struct CallContext {
    pub(super) id: Option<CallId>,
    /// Time for which the caller waits; `None` stands for the maximum of the method.
    pub(super) timeout: Option<Duration>,
    /// Span that the call belongs to (`traceparent`).
    pub(super) trace: HeaderMap,
    /// Time at which the first byte of the call arrived.
    pub(super) started: time::Instant,
}

impl CallContext {
    /// Takes the metadata out of the request.
    fn take<M>(request: &mut Request<M>) -> Self {
        let started = started(request);
        let timeout = request.metadata().get("grpc-timeout");
        let timeout = timeout.and_then(|value| grpc_timeout(value.to_str().ok()?));
        let id = CallId::from_metadata(request.metadata());
        let trace = std::mem::take(request.metadata_mut()).into_headers();
        Self { id, timeout, trace, started }
    }
}

/// Returns the time at which the first byte of a call arrived.
pub(super) fn started<M>(request: &Request<M>) -> time::Instant {
    request.extensions().get().map_or_else(time::Instant::now, |CallBegin(begin)| *begin)
}

impl Core {
    /// Runs the work of a call from a batch, or from this process.
    pub(super) async fn answer_call<T, F>(
        &self,
        method: &'static Method,
        context: &CallContext,
        work: impl FnOnce() -> F,
    ) -> Result<T, Status>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        let answered = self.bounded(self.capacity.of(method.class), method, context, work).await;
        answered.map_err(|error| to_status(method.path, context.id.as_ref(), &error))
    }

    /// Runs the work of one call, and converts its failure into a status.
    pub(super) async fn answer<M, T, F>(
        &self,
        method: &'static Method,
        request: Request<M>,
        work: impl FnOnce(M) -> F,
    ) -> Result<Response<T>, Status>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        self.answer_as(self.capacity.of(method.class), method, request, work).await
    }

    /// Runs the work of one call with one of these permits.
    pub(super) async fn answer_as<M, T, F>(
        &self,
        capacity: &Semaphore,
        method: &'static Method,
        mut request: Request<M>,
        work: impl FnOnce(M) -> F,
    ) -> Result<Response<T>, Status>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        let context = CallContext::take(&mut request);
        let answered = self.bounded(capacity, method, &context, || work(request.into_inner())).await;
        let mut answer =
            answered.map(Response::new).map_err(|error| to_status(method.path, context.id.as_ref(), &error));
        if let Some(call_id) = context.id {
            call_id.write(match &mut answer {
                Ok(response) => response.metadata_mut(),
                Err(status) => status.metadata_mut(),
            });
        }
        answer
    }

    async fn bounded<T, F>(
        &self,
        capacity: &Semaphore,
        method: &'static Method,
        context: &CallContext,
        work: impl FnOnce() -> F,
    ) -> Result<T, PetStoreError>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        let deadline = deadline(context.timeout, method.timeout.unwrap_or(Duration::MAX))
            .saturating_sub(context.started.elapsed());
        let span = self.traces.request(&context.trace, root(method.class), || method.path.into());
        span.describe(|| grpc::call(method.path));
        let bounded = async {
            let _permit = capacity.try_acquire().map_err(|_| PetStoreError::Overloaded)?;
            // The work shares no state that a panic could leave half changed: the store rolls back
            // uncommitted changes.
            let work = AssertUnwindSafe(async { work().await }).catch_unwind();
            match time::timeout(deadline, work).await {
                Ok(Ok(result)) => result,
                // The panic hook has logged the location.
                Ok(Err(_payload)) => Err(PetStoreError::Bug("the call panicked".into())),
                Err(_) => Err(PetStoreError::DeadlineExceeded),
            }
        };
        let answered = span.within(bounded).await;
        describe_end(&span, answered.as_ref().err());
        self.calls.answered(method, context.started.elapsed(), answered.as_ref().err());
        answered
    }
}

/// Returns the root of a span. Internal calls of gateways belong to no request, unless they say so.
fn root(class: Class) -> Root {
    if class == Class::Internal { Root::Never } else { Root::Sampled }
}

fn describe_end(span: &Span, failure: Option<&PetStoreError>) {
    let code = failure.map_or(tonic::Code::Ok, code) as i32;
    span.describe(|| grpc::answered(code));
    if let Some(failure) = failure {
        span.describe(|| [KeyValue::new("petstore.code", reason(failure))]);
        if grpc::is_server_fault(code) {
            span.fail(reason(failure));
        }
    }
}

fn deadline(asked: Option<Duration>, longest: Duration) -> Duration {
    match asked {
        Some(asked) => longest.min(asked.saturating_sub(MARGIN.min(asked / 10))),
        None => longest,
    }
}

/// Returns the duration in a `grpc-timeout` field: 1 to 8 digits and a unit (gRPC over HTTP/2). Returns
/// `None` if it is malformed; the field is then ignored, as in tonic.
fn grpc_timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?; // bound: 8 digits, so no product below overflows
    match unit {
        "H" => Some(Duration::from_secs(number * 3_600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}
