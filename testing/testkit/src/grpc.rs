//! Clients of the gRPC port.

use std::{error::Error, future::poll_fn, net::SocketAddr, sync::Arc};

use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, StreamBody};
use hyper::{
    body::{Body, Frame, Incoming},
    client::conn::http2::{self, SendRequest},
    server::conn::http2 as server,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use petstore_proto::v1::{pet_store_client::PetStoreClient, store_service_client::StoreServiceClient};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{
    codegen::Service,
    service::Routes,
    transport::{self, ClientTlsConfig, Endpoint, Identity, server::TcpIncoming},
};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_client::HealthClient};
use tonic_reflection::pb::{v1, v1alpha};
use tonic_types::StatusExt;

use crate::{Authority, Certificate, client};

pub use petstore_proto::v1 as pb;
pub use tonic::{Code, Request, Response, Status, Streaming, transport::Channel};
pub use tonic_health::pb::health_check_response::ServingStatus;

/// Returns a pet to be added. Its status may be a number that is not a status.
pub fn new_pet(name: impl Into<String>, category_id: Option<i64>, status: impl Into<i32>) -> pb::NewPet {
    let mut pet = pb::NewPet { name: name.into(), category_id, ..pb::NewPet::default() };
    pet.status = status.into();
    pet
}

/// Returns a connection to the port.
pub async fn channel(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("a URL");
    endpoint.connect().await.expect("the gRPC port accepts connections")
}

/// Returns a connection over TLS to the port, whose certificate must be the authority's. With `shown`, the
/// client presents a certificate itself.
///
/// # Errors
///
/// If either side refuses the other's certificate, as far as the handshake reports it.
pub async fn tls_channel(
    address: SocketAddr,
    authority: &Authority,
    shown: Option<&Certificate>,
) -> Result<Channel, transport::Error> {
    let mut tls = ClientTlsConfig::new().ca_certificate(transport::Certificate::from_pem(authority.pem()));
    if let Some(shown) = shown {
        tls = tls.identity(Identity::from_pem(&shown.pem, &shown.key));
    }
    Endpoint::from_shared(format!("https://{address}")).expect("a URL").tls_config(tls)?.connect().await
}

/// Returns a client of the pets' service.
pub async fn pet_store(address: SocketAddr) -> PetStoreClient<Channel> {
    PetStoreClient::new(channel(address).await)
}

/// Returns a client of the orders' service.
pub async fn store_service(address: SocketAddr) -> StoreServiceClient<Channel> {
    StoreServiceClient::new(channel(address).await)
}

/// Starts a proxy to a core and returns its address. It passes each message of the core's answers, with the
/// path of the method, to `rewrite`, as if the core were another release. It ends with the runtime.
pub async fn rewriting_proxy(
    core: SocketAddr,
    rewrite: impl Fn(&str, Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let (address, rewrite) = (listener.local_addr().expect("a bound socket"), Arc::new(rewrite));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let rewrite = Arc::clone(&rewrite);
            tokio::spawn(async move {
                let core = TokioIo::new(TcpStream::connect(core).await.ok()?);
                let (calls, driver) = http2::handshake(TokioExecutor::new(), core).await.ok()?;
                tokio::spawn(driver);
                let answer = service_fn(|request| rewritten(calls.clone(), request, Arc::clone(&rewrite)));
                server::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(client), answer)
                    .await
                    .ok()
            });
        }
    });
    address
}

async fn rewritten(
    mut core: SendRequest<Incoming>,
    request: http::Request<Incoming>,
    rewrite: Arc<impl Fn(&str, Vec<u8>) -> Vec<u8>>,
) -> Result<http::Response<impl Body<Data = Bytes, Error = hyper::Error>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let (head, body) = core.send_request(request).await?.into_parts();
    let body = body.collect().await?;
    let trailers = body.trailers().cloned();
    let (mut messages, mut frames) = (body.to_bytes(), Vec::new());
    while messages.has_remaining() {
        let (compression, length) = (messages.get_u8(), messages.get_u32());
        let message = rewrite(&path, messages.split_to(length as usize).into());
        let length = u32::try_from(message.len()).expect("a message of a core");
        let frame = [[compression].as_slice(), &length.to_be_bytes(), &message].concat();
        frames.push(Frame::data(Bytes::from(frame)));
    }
    frames.extend(trailers.map(Frame::trailers));
    Ok(http::Response::from_parts(head, StreamBody::new(tokio_stream::iter(frames.into_iter().map(Ok)))))
}

/// Starts a core that has no method at all, and returns its address. tonic answers each call, as it answers
/// for a method that an older release lacks. It ends with the runtime.
pub fn core_without_methods() -> SocketAddr {
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let address = incoming.local_addr().expect("a bound socket");
    let server = transport::Server::builder().add_routes(Routes::default());
    tokio::spawn(server.serve_with_incoming(incoming));
    address
}

/// Returns a stream of these messages to the service.
pub fn messages<T: Send + 'static>(messages: Vec<T>) -> impl Stream<Item = T> + Send + 'static {
    tokio_stream::iter(messages)
}

/// Returns a stream to the service that stays open and sends nothing.
pub fn silence<T: Send + 'static>() -> impl Stream<Item = T> + Send + 'static {
    tokio_stream::pending()
}

/// Makes a call whose message announces `announced` bytes, sends `sent` of them and stays open. Returns the
/// status with which the service ends it.
pub async fn unfinished_call(mut channel: Channel, path: &str, announced: u32, sent: usize) -> Status {
    let head = [&[0][..], &announced.to_be_bytes()].concat();
    let request = unfinished(path, [head, vec![b'x'; sent]].concat());
    poll_fn(|context| channel.poll_ready(context)).await.expect("a connection");
    match channel.call(request).await {
        Ok(answer) => Status::from_header_map(answer.headers()).expect("a status instead of an answer"),
        Err(error) => Status::from_error(error.into()),
    }
}

/// Returns a call that sends these bytes and stays open.
fn unfinished(path: &str, bytes: Vec<u8>) -> http::Request<tonic::body::Body> {
    let frames = (!bytes.is_empty()).then(|| Ok::<_, Status>(Frame::data(Bytes::from(bytes))));
    let body = StreamBody::new(tokio_stream::iter(frames).chain(tokio_stream::pending()));
    let request =
        http::Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
    request.body(tonic::body::Body::new(body)).expect("a request")
}

/// Client of HTTP/2, which unlike a [`Channel`] does not keep to a call's `grpc-timeout` itself.
#[derive(Clone, Debug)]
pub struct RawCalls(SendRequest<tonic::body::Body>);

impl RawCalls {
    /// Connects to the port.
    pub async fn to(address: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(address).await.expect("a connection"));
        let (calls, driver) = http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
        tokio::spawn(driver);
        Self(calls)
    }

    /// Makes a call with these header fields, sends these bytes and stays open. Returns the status with which
    /// the service ends it.
    pub async fn unfinished(&self, path: &str, fields: &[(&'static str, &str)], bytes: &[u8]) -> Status {
        let mut request = unfinished(&format!("http://petstore{path}"), bytes.to_vec());
        for (name, value) in fields {
            request.headers_mut().insert(*name, value.parse().expect("a header field"));
        }
        let answer = self.0.clone().send_request(request).await.expect("an answer");
        Status::from_header_map(answer.headers()).expect("a status instead of an answer")
    }
}

/// Makes a call with these header fields and bytes, whatever they are. Returns the head of the answer.
pub async fn raw_call(
    mut channel: Channel,
    path: &str,
    fields: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> http::response::Parts {
    let mut request = http::Request::post(path).header("te", "trailers");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let request = request.body(tonic::body::Body::new(http_body_util::Full::new(body.into())));
    poll_fn(|context| channel.poll_ready(context)).await.expect("a connection");
    channel.call(request.expect("a request")).await.expect("an answer").into_parts().0
}

/// Makes a call by this HTTP method, with these bytes, and returns its HTTP status and the status in its
/// trailers.
pub async fn ended_call(
    mut channel: Channel,
    method: &str,
    path: &str,
    body: &'static [u8],
) -> (u16, Option<Status>) {
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/grpc");
    let request = request.body(tonic::body::Body::new(http_body_util::Full::new(body.into())));
    poll_fn(|context| channel.poll_ready(context)).await.expect("a connection");
    let answer = channel.call(request.expect("a request")).await.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.expect("a body");
    (status, body.trailers().and_then(Status::from_header_map))
}

/// Returns the answer of `grpc.health.v1` for a service. The empty name stands for the whole server.
///
/// # Errors
///
/// If the service refuses the call.
pub async fn health(address: SocketAddr, service: &str) -> Result<ServingStatus, Box<Status>> {
    health_over(channel(address).await, service).await
}

/// Returns the answer of `grpc.health.v1` over this connection.
///
/// # Errors
///
/// If the service refuses the call.
pub async fn health_over(channel: Channel, service: &str) -> Result<ServingStatus, Box<Status>> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer = HealthClient::new(channel).check(request).await.map_err(Box::new)?;
    Ok(answer.into_inner().status())
}

/// Returns the stream of a service's health, as `grpc.health.v1` reports it to watchers.
///
/// # Errors
///
/// If the service refuses the call.
pub async fn watch_health(
    channel: Channel,
    service: &str,
) -> Result<Streaming<HealthCheckResponse>, Box<Status>> {
    let request = HealthCheckRequest { service: service.to_owned() };
    Ok(HealthClient::new(channel).watch(request).await.map_err(Box::new)?.into_inner())
}

/// Asks reflection, in this version of the protocol, for the files of symbols, all on one stream.
macro_rules! described {
    ($version:ident, $channel:expr, $symbols:expr) => {{
        use $version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let question = |symbol: &&str| ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol((*symbol).to_owned())),
        };
        let questions: Vec<_> = $symbols.iter().map(question).collect();
        let asked = tokio_stream::iter(questions.clone());
        let mut stream =
            ServerReflectionClient::new($channel).server_reflection_info(asked).await?.into_inner();
        let mut answers = Vec::new();
        while let Some(answer) = stream.message().await? {
            assert_eq!(answer.original_request.as_ref(), questions.get(answers.len()));
            answers.push(match answer.message_response {
                Some(MessageResponse::FileDescriptorResponse(files)) => {
                    Ok(files.file_descriptor_proto.concat())
                }
                Some(MessageResponse::ErrorResponse(error)) => Err(Code::from_i32(error.error_code)),
                other => panic!("no answer about a symbol: {other:?}"),
            });
        }
        Ok(answers)
    }};
}

/// Returns the encoded file of each symbol, as reflection version 1 answers on one stream, or the code of its
/// error.
///
/// # Errors
///
/// If the service ends the stream.
pub async fn described(channel: Channel, symbols: &[&str]) -> Result<Vec<Result<Vec<u8>, Code>>, Status> {
    described!(v1, channel, symbols)
}

/// Returns the same as `described` in version 1 alpha.
///
/// # Errors
///
/// If the service ends the stream.
pub async fn described_alpha(
    channel: Channel,
    symbols: &[&str],
) -> Result<Vec<Result<Vec<u8>, Code>>, Status> {
    described!(v1alpha, channel, symbols)
}

/// Lists the services by reflection, in this version of the protocol.
macro_rules! list_services {
    ($version:ident, $channel:expr) => {{
        use $version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let message_request = Some(MessageRequest::ListServices(String::new()));
        let requests = tokio_stream::once(ServerReflectionRequest { host: String::new(), message_request });
        let mut client = ServerReflectionClient::new($channel);
        let mut answers = client.server_reflection_info(requests).await?.into_inner();
        match answers.message().await?.and_then(|answer| answer.message_response) {
            Some(MessageResponse::ListServicesResponse(list)) => {
                Ok(list.service.into_iter().map(|service| service.name).collect())
            }
            other => panic!("not a list of services: {other:?}"),
        }
    }};
}

/// Returns the services that reflection version 1 lists.
///
/// # Errors
///
/// If the service refuses the call.
pub async fn services(channel: Channel) -> Result<Vec<String>, Status> {
    list_services!(v1, channel)
}

/// Returns the services that reflection version 1 alpha lists, which older tools use.
///
/// # Errors
///
/// If the service refuses the call.
pub async fn services_alpha(channel: Channel) -> Result<Vec<String>, Status> {
    list_services!(v1alpha, channel)
}

/// Checks the code and the `google.rpc.ErrorInfo` of a refusal, and returns the members that its
/// `google.rpc.BadRequest` names.
#[track_caller]
pub fn assert_refused<T: std::fmt::Debug>(
    answer: Result<T, Status>,
    code: Code,
    reason: &str,
) -> Vec<String> {
    let status = answer.expect_err("a refusal");
    assert_eq!(status.code(), code, "{status:?}");
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(
        (info.reason.as_str(), info.domain.as_str()),
        (reason, petstore_proto::ERROR_DOMAIN),
        "{status:?}"
    );
    let violations = details.bad_request().map(|bad_request| bad_request.field_violations.clone());
    violations.unwrap_or_default().into_iter().map(|violation| violation.field).collect()
}

/// Returns the reason in the `google.rpc.ErrorInfo` of a refusal; empty if it has none.
pub fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

/// Returns the values in the `google.rpc.ErrorInfo` of a refusal, as `name=value` in order.
pub fn values(status: &Status) -> Vec<String> {
    let info = status.get_details_error_info();
    let metadata = info.into_iter().flat_map(|info| info.metadata);
    let mut values: Vec<_> = metadata.map(|(name, value)| format!("{name}={value}")).collect();
    values.sort_unstable();
    values
}

/// Returns the page in the `google.rpc.Help` of a refusal; empty if it has none.
pub fn help(status: &Status) -> String {
    let links = status.get_details_help().map(|help| help.links).unwrap_or_default();
    links.into_iter().map(|link| link.url).next().unwrap_or_default()
}

/// Returns `true` if the core announced the end of the connection before it received the call. gRPC clients
/// then send the call over another connection; tonic leaves that to its caller.
pub fn was_not_processed(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref() {
            return client::was_not_processed(error);
        }
        cause = error.source();
    }
    false
}

/// Returns the delay in `google.rpc.RetryInfo` of a refusal, in seconds, rounded up.
pub fn retry_after(status: &Status) -> Option<u64> {
    let delay = status.get_error_details().retry_info()?.retry_delay?;
    Some(delay.as_secs() + u64::from(delay.subsec_nanos() > 0))
}

/// Returns the request id of a refusal, from `google.rpc.RequestInfo`.
pub fn request_info(status: &Status) -> Option<String> {
    status.get_error_details().request_info().map(|info| info.request_id.clone())
}
