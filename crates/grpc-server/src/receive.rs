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
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
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
    let budgets = Budgets::of_server(calls.limits);
    let shared = Arc::new((security, calls, budgets, Mutex::new(None)));
    service_fn(move |mut request: Request<Body>| {
        let begin = Instant::now();
        let (mut routes, shared) = (routes.clone(), Arc::clone(&shared));
        // A caller that cancels its call, or leaves, drops the future. The call then continues within its
        // capacity and deadline, so that it is recorded.
        ToItsEnd::new(Box::pin(async move {
            let (security, calls, budgets, last_logged) = &*shared;
            if request.method() != http::Method::POST {
                return Ok(unsupported(StatusCode::METHOD_NOT_ALLOWED, header::ALLOW, "POST"));
            }
            if !is_grpc(request.headers()) {
                let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                return Ok(unsupported(status, header::ACCEPT, "application/grpc"));
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
            let received = |body| {
                Body::new(ReceivedBody {
                    body,
                    call: of_body,
                    is_refused,
                    arrived: BytesMut::new(),
                    idle: None,
                })
            };
            // The parsed message stays in memory until the call is answered: `call` holds its bytes.
            let answer = routes.call(request.map(received));
            let answer = call.named(match timeout_at(begin + time, answer).await {
                Ok(answer) => call.with_reason(answer?),
                Err(_) => call.refuse(CallFault::DeadlineExceeded).into_http(),
            });
            Ok(if method.class == Class::Watch { answer.map(|body| call.held_for(body)) } else { answer })
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

    /// Returns the body of an answer, which holds the bytes of the call until its end.
    fn held_for(self: Arc<Self>, body: Body) -> Body {
        Body::new(body.map_frame(move |frame| {
            let _held = &self;
            frame
        }))
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

/// Returns the answer to a request that is no call, with a field that names what is supported.
fn unsupported(status: StatusCode, field: HeaderName, supported: &'static str) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer.headers_mut().insert(field, HeaderValue::from_static(supported));
    answer
}

/// Returns `true` for the media type of gRPC, whose messages may name their encoding.
fn is_grpc(headers: &HeaderMap) -> bool {
    const GRPC: &[u8] = b"application/grpc";
    let media_type = headers.get(header::CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    media_type.split_at_checked(GRPC.len()).is_some_and(|(essence, rest)| {
        essence.eq_ignore_ascii_case(GRPC) && matches!(rest, [] | [b'+' | b';', ..])
    })
}

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// Body of a request, which fails with a status if it is too large, or idle.
struct ReceivedBody {
    body: Body,
    call: Arc<Call>,
    /// `true` if there was no room for the call. The status is given when the message is read, which only
    /// known methods do.
    is_refused: bool,
    /// Bytes of the message of a call that has one.
    arrived: BytesMut,
    /// Timeout of the frame that is awaited, for a stream of a tool. Imports have a timeout for each message.
    idle: Option<Pin<Box<Sleep>>>,
}

impl ReceivedBody {
    /// Returns the only message when the caller has sent all of it, or more than it may have: parsed, it may
    /// take a hundred times its bytes, for which a caller that never ends it would not pay.
    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        while self.arrived.len() <= self.call.method.max_message + PREFIX {
            let data = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(), // trailers have none
                None if !self.arrived.is_empty() => break,
                end => return Poll::Ready(end),
            };
            if !self.call.held.take(data.len()) {
                return self.overloaded();
            }
            if self.arrived.is_empty() && self.body.is_end_stream() {
                return Poll::Ready(Some(self.only_message(data)));
            }
            self.arrived.extend_from_slice(&data);
        }
        let arrived = self.arrived.split().freeze();
        Poll::Ready(Some(self.only_message(arrived)))
    }

    /// Returns the bytes, unless more follow the first message: another message, which tonic would ignore.
    fn only_message(&self, bytes: Bytes) -> Result<Frame<Bytes>, Status> {
        let len = bytes.get(1..PREFIX).and_then(|len| len.try_into().ok()).map(u32::from_be_bytes);
        if len.is_some_and(|len: u32| bytes.len() - PREFIX > len as usize) {
            let fault = "the call must have one message".to_owned();
            return Err(self.call.refuse(CallFault::InvalidCall(fault)));
        }
        Ok(Frame::data(bytes))
    }

    fn overloaded<T>(&self) -> Poll<Option<Result<T, Status>>> {
        Poll::Ready(Some(Err(self.call.refuse(CallFault::Overloaded))))
    }
}

impl http_body::Body for ReceivedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.is_refused {
            return self.overloaded();
        }
        // A stream, which has no timeout for all of it, holds one message at a time, and imports are limited
        // in number.
        if self.call.method.timeout.is_some() {
            return self.poll_message(context);
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
        polled
    }
}
