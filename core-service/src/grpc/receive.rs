//! Limits on messages that are still being received.
//!
//! tonic and tower limit calls, not bytes. The calls that a few gateways may have in flight, each with the
//! largest message, would take a multiple of 64 MiB, although nearly all of them have some hundred bytes. So
//! the bytes are counted here, as they arrive. tonic's timeout is the same for all methods and gives a status
//! without a reason, so the deadline of a message is enforced here too.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, timeout_at};
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use super::{
    CallMetrics,
    budgets::{Budgets, HeldBytes},
    call_id::CallId,
    connection::ConnectionInfo,
    methods::Method,
    status,
};
use crate::domain::PetStoreError;

/// Bytes counted for a call before its message arrives: its header fields and its bookkeeping.
const CALL_OVERHEAD: usize = 2 * 1024;
/// Time after the deadline in which a method may still give its own answer.
const MARGIN: Duration = Duration::from_millis(100);

/// Layer that applies the limits to every service of a server. A connection's own budgets are an extension of
/// its requests.
#[derive(Clone, Debug)]
pub(super) struct ReceiveBounds {
    budgets: Budgets,
    calls: CallMetrics,
}

impl ReceiveBounds {
    pub(super) fn new(calls: CallMetrics) -> Self {
        Self { budgets: Budgets::divided_by(1), calls }
    }
}

impl<S> Layer<S> for ReceiveBounds {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded { bounds: self.clone(), inner }
    }
}

/// Time at which the first header fields of a call arrived, as an extension of its request. Its deadline runs
/// from then on.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallBegin(pub(super) Instant);

/// Service whose messages are received within the limits.
#[derive(Clone, Debug)]
pub(super) struct Bounded<S> {
    bounds: ReceiveBounds,
    inner: S,
}

impl<S> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let begin = Instant::now();
        request.extensions_mut().insert(CallBegin(begin));
        let method = Method::find(request.uri().path());
        let connection = request.extensions().get::<ConnectionInfo>().map(|connection| &connection.budgets);
        let budgets =
            [Some(&self.bounds.budgets), connection].map(|it| Some(Arc::clone(it?.of(method.class))));
        let held = HeldBytes::new(budgets);
        let is_refused = !held.take(CALL_OVERHEAD);
        let id = CallId::from_headers(request.headers());
        let call = Arc::new(Call { method, id, begin, calls: self.bounds.calls.clone(), held });
        let of_body = Arc::clone(&call);
        // A stream holds one message at a time, and imports are bounded in number.
        let is_counted = method.timeout.is_some();
        let receive = |body| ReceivedBody { body, call: of_body, is_refused, is_counted };
        let answer = self.inner.call(request.map(|body| Body::new(receive(body))));
        // The parsed message stays in memory until the call is answered: `call` holds its bytes.
        async move {
            let Some(timeout) = method.timeout else { return answer.await };
            // Once the message is complete, the call itself answers in time.
            match timeout_at(begin + timeout + MARGIN, answer).await {
                Ok(answer) => answer,
                Err(_) => Ok(call.refuse(&PetStoreError::DeadlineExceeded).into_http()),
            }
        }
        .boxed()
    }
}

/// Call whose message may still be incomplete.
#[derive(Debug)]
struct Call {
    method: &'static Method,
    id: Option<CallId>,
    begin: Instant,
    calls: CallMetrics,
    /// Held until the call is answered, however it ends.
    held: HeldBytes,
}

impl Call {
    /// Returns the status for a call whose message is not received. Any caller could repeat it at will, so no
    /// log line is above debug.
    fn refuse(&self, error: &PetStoreError) -> Status {
        tracing::debug!(rpc = self.method.path, "a call failed before its message was whole: {error}");
        self.calls.answered(self.method, self.begin.elapsed(), Some(error));
        let mut status = status::without_log(self.id.as_ref(), error);
        if let Some(id) = self.id.clone() {
            id.write(status.metadata_mut());
        }
        status
    }
}

/// Body of a request, which fails with a status if it is too large.
struct ReceivedBody {
    body: Body,
    call: Arc<Call>,
    /// `true` if there was no room for the call. The status is given when the message is read, which only
    /// known methods do.
    is_refused: bool,
    is_counted: bool,
}

impl http_body::Body for ReceivedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let overloaded = |call: &Call| Poll::Ready(Some(Err(call.refuse(&PetStoreError::Overloaded))));
        if this.is_refused {
            return overloaded(&this.call);
        }
        let polled = Pin::new(&mut this.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref().filter(|_| this.is_counted)
            && !this.call.held.take(data.len())
        {
            return overloaded(&this.call);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
