//! What holds for every call: a deadline, a bound on the calls under way, and no panic that reaches the
//! connection.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures_util::FutureExt;
use http::HeaderMap;
use petstore_telemetry::traces::{KeyValue, Root, Span, grpc};
use tokio::{sync::Semaphore, time};
use tonic::{Request, Response, Status, Streaming};

use super::{
    INTERNAL_PACKAGES,
    call_id::CallId,
    receive::CallBegin,
    status::{code, reason, to_status},
};
use crate::{Core, domain::PetStoreError};

/// How long a call may take, from its first byte, if its caller does not ask for less; and how long each step
/// of a stream.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(5);
/// An answer given so long before the caller's deadline still finds the caller listening; and tonic's own
/// timer, whose answer has no reason, does not come first.
const MARGIN: Duration = Duration::from_millis(50);

/// What a caller says of a call, besides its message.
#[derive(Debug)]
pub(super) struct CallContext {
    pub(super) id: Option<CallId>,
    /// How long the caller waits; as long as the method allows if it does not say.
    pub(super) timeout: Option<Duration>,
    /// The span that the call belongs to (`traceparent`).
    pub(super) trace: HeaderMap,
    /// When the first byte of the call had come.
    pub(super) started: time::Instant,
}

impl CallContext {
    /// Takes what the request says, and leaves it the rest.
    fn take<M>(request: &mut Request<M>) -> Self {
        let started = started(request);
        let timeout = request.metadata().get("grpc-timeout");
        let timeout = timeout.and_then(|value| grpc_timeout(value.to_str().ok()?));
        let id = CallId::from_metadata(request.metadata());
        let trace = std::mem::take(request.metadata_mut()).into_headers();
        Self { id, timeout, trace, started }
    }
}

/// When the first byte of a call had come.
pub(super) fn started<M>(request: &Request<M>) -> time::Instant {
    request.extensions().get().map_or_else(time::Instant::now, |CallBegin(begin)| *begin)
}

impl Core {
    /// Does the work of one call, and turns its failure into a status. The call is `package.Service/Method`.
    pub(super) async fn answer<M, T, F>(
        &self,
        rpc: &'static str,
        request: Request<M>,
        work: impl FnOnce(M) -> F,
    ) -> Result<Response<T>, Status>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        self.answer_within(MAX_DURATION, self.capacity.for_method(rpc), rpc, request, work).await
    }

    /// The same with one of these permits.
    pub(super) async fn answer_as<M, T, F>(
        &self,
        capacity: &Semaphore,
        rpc: &'static str,
        request: Request<M>,
        work: impl FnOnce(M) -> F,
    ) -> Result<Response<T>, Status>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        self.answer_within(MAX_DURATION, capacity, rpc, request, work).await
    }

    /// The same for a stream of messages, which bounds its own steps: as a whole it may take as long as its
    /// caller likes. Meanwhile it takes nothing from the calls that can be answered at once.
    pub(super) async fn answer_stream<M, T, F>(
        &self,
        rpc: &'static str,
        request: Request<Streaming<M>>,
        work: impl FnOnce(Streaming<M>) -> F,
    ) -> Result<Response<T>, Status>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        self.answer_within(Duration::MAX, &self.capacity.imports, rpc, request, work).await
    }

    /// The same for a call that came in a batch, or from this process.
    pub(super) async fn answer_call<T, F>(
        &self,
        rpc: &'static str,
        context: &CallContext,
        work: impl FnOnce() -> F,
    ) -> Result<T, Status>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        let answered = self.bounded(MAX_DURATION, self.capacity.for_method(rpc), rpc, context, work).await;
        answered.map_err(|error| to_status(rpc, context.id.as_ref(), &error))
    }

    async fn answer_within<M, T, F>(
        &self,
        longest: Duration,
        capacity: &Semaphore,
        rpc: &'static str,
        mut request: Request<M>,
        work: impl FnOnce(M) -> F,
    ) -> Result<Response<T>, Status>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        let context = CallContext::take(&mut request);
        let answered = self.bounded(longest, capacity, rpc, &context, || work(request.into_inner())).await;
        let mut answer =
            answered.map(Response::new).map_err(|error| to_status(rpc, context.id.as_ref(), &error));
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
        longest: Duration,
        capacity: &Semaphore,
        rpc: &'static str,
        context: &CallContext,
        work: impl FnOnce() -> F,
    ) -> Result<T, PetStoreError>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        let deadline = deadline(context.timeout, longest).saturating_sub(context.started.elapsed());
        let span = self.traces.request(&context.trace, root(rpc), || rpc.into());
        span.describe(|| grpc::call(rpc));
        let bounded = async {
            let _permit = capacity.try_acquire().map_err(|_| PetStoreError::Overloaded)?;
            // Nothing is shared with the work that a panic could leave half changed: the store undoes what
            // was not committed.
            let work = AssertUnwindSafe(async { work().await }).catch_unwind();
            match time::timeout(deadline, work).await {
                Ok(Ok(result)) => result,
                // The panic hook has logged where.
                Ok(Err(_payload)) => Err(PetStoreError::Bug("the call panicked".into())),
                Err(_) => Err(PetStoreError::DeadlineExceeded),
            }
        };
        let answered = span.within(bounded).await;
        describe_end(&span, answered.as_ref().err());
        self.calls.answered(rpc, context.started.elapsed(), answered.as_ref().err());
        answered
    }
}

/// What gateways ask for by themselves belongs to no request, unless it says so.
fn root(rpc: &str) -> Root {
    if rpc.starts_with(INTERNAL_PACKAGES) { Root::Never } else { Root::Sampled }
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

/// The duration in a `grpc-timeout` field: 1 to 8 digits and a unit (gRPC over HTTP/2). `None` if it is
/// malformed: the field is then passed over, as tonic does.
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
