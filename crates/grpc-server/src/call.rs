//! Bounds of every call: a deadline, a limit on the calls in flight, and no panic that reaches the
//! connection.

use std::{
    collections::BTreeSet,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use petstore_caller::call::{CallContext, RequestId, X_REQUEST_ID};
use petstore_telemetry::{
    abandoned::caller_has_left,
    metrics,
    metrics::{Collectors, HistogramVec, IntCounterVec, counters, durations},
    parts::{Fault, FaultCause, PartState},
    traces::{KeyValue, Root, Span, Traces, grpc},
};
use tokio::{sync::Semaphore, time};
use tonic::{Request, Response, Status};

use crate::{
    access::{Refusal, label},
    capacity::{Limits, permits},
    connection::ConnectionMetrics,
    error::{CallFault, MethodError, to_status, without_log},
    methods::{Class, Method, Methods},
};

/// Header field with the time for which a caller waits.
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Returns the context of a call with these header fields.
pub(super) fn context(headers: &HeaderMap, caller: Option<Arc<str>>, started: Instant) -> CallContext {
    let mut trace = HeaderMap::new();
    for name in ["traceparent", "tracestate"].map(HeaderName::from_static) {
        for value in headers.get_all(&name) {
            trace.append(&name, value.clone());
        }
    }
    let id = headers.get(X_REQUEST_ID).and_then(RequestId::parse);
    CallContext { id, caller, timeout: asked_timeout(headers), trace, started }
}

/// Returns `true` if the caller sent a timeout that is not of the form of gRPC.
pub(super) fn has_malformed_timeout(headers: &HeaderMap) -> bool {
    let is_timeout = |value: &HeaderValue| value.to_str().is_ok_and(|text| grpc_timeout(text).is_some());
    !headers.get_all(GRPC_TIMEOUT).iter().all(is_timeout)
}

/// Takes the context out of a request. A client in the same process sends it as metadata.
pub fn take_context<M>(request: &mut Request<M>) -> CallContext {
    let context = request.extensions_mut().remove();
    context.unwrap_or_else(|| self::context(request.metadata().as_ref(), None, Instant::now()))
}

/// The calls of a server, with their capacity, metrics and traces. Clones share everything.
#[derive(Clone)]
pub struct Calls {
    pub(super) limits: &'static Limits,
    pub(super) methods: Methods,
    pub(super) connections: ConnectionMetrics,
    capacity: Arc<[Semaphore; 5]>,
    metrics: CallMetrics,
    /// Names of callers that the metrics show.
    callers: Arc<Mutex<BTreeSet<Arc<str>>>>,
    traces: Traces,
    /// Returns the program's error for a fault.
    failure: fn(CallFault) -> Box<dyn MethodError>,
}

impl Calls {
    /// Returns the calls of a server with these methods. `E` is the error for faults of calls that reach no
    /// method.
    pub fn new<E: MethodError + From<CallFault>>(limits: &'static Limits, methods: Methods) -> Self {
        Self {
            limits,
            methods,
            connections: ConnectionMetrics::default(),
            capacity: Arc::new(permits(limits)),
            metrics: CallMetrics::default(),
            callers: Arc::default(),
            traces: Traces::off(),
            failure: |fault| Box::new(E::from(fault)),
        }
    }

    /// Returns these calls with tracing.
    pub fn traced(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> Collectors {
        self.metrics.collectors().into_iter().chain(self.connections.collectors()).collect()
    }

    /// Returns the fault of the port, if a connection waits for a place.
    pub fn port_fault(&self) -> Option<Fault> {
        (self.connections.waiting.get() > 0).then(|| Fault::new(PartState::Degraded, FaultCause::GrpcFull))
    }

    /// Returns the permits for a kind of work. They are never closed.
    pub fn capacity(&self, class: Class) -> &Semaphore {
        let [reads, writes, internal, operators, imports] = &*self.capacity;
        match class {
            Class::Read | Class::Batch | Class::Tool | Class::Watch => reads,
            Class::Write => writes,
            Class::Import => imports,
            Class::Admin => operators,
            Class::Internal => internal,
        }
    }

    /// Counts a call whose caller is refused.
    pub(super) fn refused(&self, refusal: Refusal) {
        self.metrics.refused_callers.with_label_values(&[refusal.name()]).inc();
    }

    /// Returns the status for a call that reaches no method. Any caller could repeat it at will, so no log
    /// line is above debug.
    pub(super) fn refuse(&self, method: &Method, context: &CallContext, fault: CallFault) -> Status {
        let error = (self.failure)(fault);
        tracing::debug!(rpc = method.path, "a call failed before its message was complete: {error}");
        self.answered(method, context, Some(&*error));
        without_log(context.id.as_ref().map(RequestId::as_str), &*error)
    }

    /// Runs the work of one call with one of these permits, and converts its failure into a status.
    ///
    /// # Errors
    ///
    /// The failure of the work, or that the call exceeds its bounds.
    pub async fn answer<M, T, E, F>(
        &self,
        capacity: &Semaphore,
        method: &'static Method,
        mut request: Request<M>,
        work: impl FnOnce(M) -> F,
    ) -> Result<Response<T>, Status>
    where
        E: MethodError + From<CallFault>,
        F: Future<Output = Result<T, E>>,
    {
        let context = &take_context(&mut request);
        let deadline = deadline(context.timeout, method.timeout.unwrap_or(Duration::MAX))
            .saturating_sub(context.started.elapsed());
        // Internal calls belong to no request, unless they say so.
        let root = if method.class == Class::Internal { Root::Never } else { Root::Sampled };
        let span = self.traces.request(&context.trace, root, || method.path.into());
        span.describe(|| grpc::call(method.path));
        let bounded = async {
            let _permit = capacity.try_acquire().map_err(|_| CallFault::Overloaded)?;
            // The work must share no state that a panic could leave half changed.
            let work = AssertUnwindSafe(async { work(request.into_inner()).await }).catch_unwind();
            match time::timeout(deadline, work).await {
                Ok(Ok(result)) => result,
                // The panic hook has logged the location.
                Ok(Err(_payload)) => Err(CallFault::Panicked("the call panicked".into()).into()),
                Err(_) => Err(CallFault::DeadlineExceeded.into()),
            }
        };
        let answered = span.within(bounded).await;
        let failure = answered.as_ref().err().map(|error| error as &dyn MethodError);
        describe_end(&span, failure);
        self.answered(method, context, failure);
        answered.map(Response::new).map_err(|error| {
            let id = context.id.as_ref().map(RequestId::as_str);
            to_status(method, id, context.caller.as_deref(), &error)
        })
    }

    /// Counts a call that was answered.
    fn answered(&self, method: &Method, context: &CallContext, failure: Option<&dyn MethodError>) {
        let (rpc, metrics) = (method.name(), &self.metrics);
        let status = grpc::status(failure.map_or(tonic::Code::Ok, MethodError::status) as i32);
        metrics
            .durations
            .with_label_values(&["grpc", rpc, status])
            .observe(context.started.elapsed().as_secs_f64());
        if let Some(failure) = failure {
            metrics.failures.with_label_values(&[rpc, failure.code()]).inc();
            if let Some(caller) = &context.caller {
                let name = label(&self.callers, caller);
                metrics.failures_by_caller.with_label_values(&[name, failure.code()]).inc();
            }
        }
    }
}

metrics! {
    /// Counters of calls. Clones share them.
    #[derive(Clone, Debug)]
    struct CallMetrics {
        durations: HistogramVec = durations(
            "rpc_server_call_duration_seconds",
            "Duration of gRPC calls in the core.",
            // OpenTelemetry's conventions (1.45), with `_` for dots.
            &["rpc_system_name", "rpc_method", "rpc_response_status_code"],
        ),
        failures: IntCounterVec = counters(
            "petstore_rpc_failures_total",
            "Failed gRPC calls, by the reason in their ErrorInfo.",
            &["rpc_method", "code"],
        ),
        failures_by_caller: IntCounterVec = counters(
            "petstore_rpc_caller_failures_total",
            "Failed gRPC calls, by the name in the caller's certificate.",
            &["client_certificate", "code"],
        ),
        refused_callers: IntCounterVec = counters(
            "petstore_grpc_refused_callers_total",
            "gRPC calls without this core's service token or a certificate.",
            &["reason"],
        ),
    }
}

fn describe_end(span: &Span, failure: Option<&dyn MethodError>) {
    let code = failure.map_or(tonic::Code::Ok, MethodError::status) as i32;
    span.describe(|| grpc::answered(code));
    if caller_has_left() {
        span.describe(|| [KeyValue::new("petstore.client_left", true)]);
    }
    if let Some(failure) = failure {
        let name = failure.code();
        span.describe(|| [KeyValue::new("petstore.code", name)]);
        if grpc::is_server_fault(code) {
            span.fail(name);
        }
    }
}

/// Returns the time for a call. The answer is given a little before the caller's deadline, so that the caller
/// still receives it, and before tonic's own timer, whose answer has no reason.
fn deadline(asked: Option<Duration>, longest: Duration) -> Duration {
    asked.map_or(longest, |asked| longest.min(asked.saturating_sub(margin(asked))))
}

fn margin(asked: Duration) -> Duration {
    Duration::from_millis(50).min(asked / 10)
}

/// Time for a call that has as much as it needs. It can be added to any moment.
const NO_TIMEOUT: Duration = Duration::from_secs(u32::MAX as u64);

/// Returns the time from the first byte of a call to its answer, also if its message is never complete: a
/// little more than [`deadline`], when the call itself answers, and a tick of the timer less than tonic's.
pub(super) fn time_on_port(headers: &HeaderMap, method: &Method) -> Duration {
    let longest = method.timeout.map_or(NO_TIMEOUT, |timeout| timeout + Duration::from_millis(100));
    let margin = |asked| Duration::from_millis(1).max(margin(asked) / 2);
    asked_timeout(headers).map_or(longest, |asked| longest.min(asked.saturating_sub(margin(asked))))
}

fn asked_timeout(headers: &HeaderMap) -> Option<Duration> {
    headers.get(GRPC_TIMEOUT).and_then(|value| grpc_timeout(value.to_str().ok()?))
}

/// Returns the duration in a `grpc-timeout` field: 1 to 8 digits and a unit (gRPC over HTTP/2). Returns
/// `None` if it is malformed; on a socket the call is then refused.
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

#[cfg(test)]
mod tests;
