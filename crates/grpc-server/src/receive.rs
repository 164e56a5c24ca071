//! Access control of a call, and limits on its message while it is received, before its method runs.
//!
//! tonic and tower limit calls, not bytes. The calls that a few gateways may have in flight, each with the
//! largest message, would take a multiple of 64 MiB, although nearly all of them have some hundred bytes. So
//! the bytes are counted here, as they arrive. tonic's timeout is the same for all methods and gives a status
//! without a reason, so the deadline of a message is enforced here too, and tonic's other refusals get a
//! reason.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use parking_lot::Mutex;
use petstore_caller::call::{CallContext, X_REQUEST_ID};
use petstore_telemetry::abandoned::ToItsEnd;
use tokio::time::{Instant, Sleep, sleep, timeout_at};
use tonic::{Code, Status, body::Body, service::Routes};
use tower::{Service, service_fn};

use crate::{
    access::Security,
    call::{Calls, context, has_malformed_timeout, time_on_port},
    capacity::{Budgets, HeldBytes},
    connection::ConnectionInfo,
    error::CallFault,
    methods::{Class, Method},
};

/// Returns the service of a port: the routes, within the limits, for callers that `security` admits.
pub(super) fn guarded(
    routes: Routes,
    security: Security,
    calls: Calls,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let budgets = Budgets::new(calls.limits, 1);
    let shared = Arc::new((security, calls, budgets, Mutex::new(None)));
    service_fn(move |mut request: Request<Body>| {
        let begin = Instant::now();
        let (mut routes, shared) = (routes.clone(), Arc::clone(&shared));
        // A caller that cancels its call, or leaves, drops the future. The call then continues within its
        // capacity and deadline, so that it is recorded.
        ToItsEnd::new(Box::pin(async move {
            let (security, calls, budgets, last_logged) = &*shared;
            let is_post = request.method() == http::Method::POST;
            if !is_post || !is_grpc(request.headers()) {
                let mut answer = Response::new(Body::empty());
                let (status, field, supported) = if is_post {
                    (StatusCode::UNSUPPORTED_MEDIA_TYPE, header::ACCEPT, "application/grpc")
                } else {
                    (StatusCode::METHOD_NOT_ALLOWED, header::ALLOW, "POST")
                };
                *answer.status_mut() = status;
                answer.headers_mut().insert(field, HeaderValue::from_static(supported));
                return Ok(answer);
            }
            let method = calls.methods.find(request.uri().path());
            let caller = match security.check(method.callers, &request) {
                Ok(Some(peer)) => {
                    if let Some(connection) = request.extensions().get::<ConnectionInfo>() {
                        connection.is_trusted.store(true, Ordering::Relaxed);
                    }
                    let certificate = peer.certificate.clone();
                    request.extensions_mut().insert(peer);
                    certificate
                }
                Ok(None) => None,
                Err(refusal) => {
                    calls.refused(refusal);
                    refusal.log(last_logged, &request);
                    return Ok(refusal.status(method.callers).into_http());
                }
            };
            let context = context(request.headers(), caller, begin.into_std());
            request.extensions_mut().insert(context.clone());
            let connection = request.extensions().get::<ConnectionInfo>();
            let budgets = [budgets, connection.map_or(budgets, |connection| &connection.budgets)];
            let held = HeldBytes::new(budgets.map(|budgets| Arc::clone(budgets.of(method.class))));
            let is_refused = !held.take(2 * 1024); // the header fields of a call, and its bookkeeping
            let is_compressed = request.headers().get("grpc-encoding").is_some_and(|it| it != "identity");
            let call = Arc::new(Call { method, context, calls: calls.clone(), is_compressed, held });
            if has_malformed_timeout(request.headers()) {
                let fault = "grpc-timeout must be 1 to 8 digits and one of the units H, M, S, m, u, n";
                return Ok(call.named(call.refuse(CallFault::InvalidCall(fault.to_owned())).into_http()));
            }
            let time = time_on_port(request.headers(), method);
            let of_body = Arc::clone(&call);
            // The parsed message stays in memory until the call is answered: `call` holds its bytes.
            let answer = routes.call(
                request.map(|body| Body::new(ReceivedBody { body, call: of_body, is_refused, idle: None })),
            );
            Ok(call.named(match timeout_at(begin + time, answer).await {
                Ok(answer) => call.with_reason(answer?),
                Err(_) => call.refuse(CallFault::DeadlineExceeded).into_http(),
            }))
        }))
    })
}

/// Call whose message may still be incomplete.
struct Call {
    method: &'static Method,
    context: CallContext,
    calls: Calls,
    /// `true` if the caller declares an encoding of its messages.
    is_compressed: bool,
    /// Held until the call is answered, however it ends.
    held: HeldBytes,
}

impl Call {
    /// Returns the status for a call whose message is not received.
    fn refuse(&self, fault: CallFault) -> Status {
        self.calls.refuse(self.method, &self.context, fault)
    }

    /// Returns the response with the id of the call, if that has one.
    fn named(&self, mut response: Response<Body>) -> Response<Body> {
        if let Some(id) = &self.context.id {
            response.headers_mut().insert(X_REQUEST_ID, id.as_header().clone());
        }
        response
    }

    /// Returns the answer, with a reason if tonic itself refused the call: it sends a status alone.
    fn with_reason(&self, mut answer: Response<Body>) -> Response<Body> {
        let Some(status) = Status::from_header_map(answer.headers()) else { return answer };
        if !status.details().is_empty() {
            return answer;
        }
        let fault = match status.code() {
            Code::Unimplemented if self.is_compressed => CallFault::CompressedMessage,
            Code::Unimplemented => CallFault::UnknownMethod,
            Code::OutOfRange => CallFault::MessageTooLarge { max: self.method.max_message },
            // tonic cannot decode the message, or there is none. A method's own fault has a reason.
            Code::Internal => {
                CallFault::InvalidCall(format!("the message cannot be read: {}", status.message()))
            }
            _ => return answer,
        };
        // tonic's other fields stay, such as grpc-accept-encoding.
        answer.headers_mut().extend(self.refuse(fault).into_http::<()>().into_parts().0.headers);
        answer
    }
}

/// Returns `true` for the media type of gRPC, whose messages may name their encoding.
fn is_grpc(headers: &HeaderMap) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let media_type = headers.get(header::CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    media_type.split_at_checked(GRPC.len()).is_some_and(|(essence, rest)| {
        essence.eq_ignore_ascii_case(GRPC) && matches!(rest, [] | [b'+' | b';', ..])
    })
}

/// Body of a request, which fails with a status if it is too large, or idle.
struct ReceivedBody {
    body: Body,
    call: Arc<Call>,
    /// `true` if there was no room for the call. The status is given when the message is read, which only
    /// known methods do.
    is_refused: bool,
    /// Timeout of the frame that is awaited, for a stream of a tool. Imports have a timeout for each message.
    idle: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for ReceivedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let overloaded = |call: &Call| Poll::Ready(Some(Err(call.refuse(CallFault::Overloaded))));
        if self.is_refused {
            return overloaded(&self.call);
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if polled.is_ready() {
            self.idle = None;
        } else if self.call.method.class == Class::Tool {
            let timeout = self.call.calls.limits.call_timeout;
            let idle = self.idle.get_or_insert_with(|| Box::pin(sleep(timeout)));
            if idle.as_mut().poll(context).is_ready() {
                return Poll::Ready(Some(Err(self.call.refuse(CallFault::DeadlineExceeded))));
            }
        }
        // A stream, which has no timeout for all of it, holds one message at a time, and imports are limited
        // in number.
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref().filter(|_| self.call.method.timeout.is_some())
            && !self.call.held.take(data.len())
        {
            return overloaded(&self.call);
        }
        polled
    }
}
