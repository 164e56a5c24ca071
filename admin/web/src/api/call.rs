//! A call of the admin service in the core, on behalf of an operator.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use axum::extract::ConnectInfo;
use bytes::Buf;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use petstore_caller::api_key::{ApiKey, bearer};
use petstore_core_client::{CoreTransport, TracedTransport};
use petstore_gateway::{Gateway, X_REQUEST_ID};
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use serde_json::Value as Json;
use tokio::time::timeout;
use tonic::{
    Request, Status,
    body::Body,
    client::Grpc,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder},
    metadata::MetadataMap,
};
use tonic_prost::ProstEncoder;
use tower::{BoxError, Service};

use super::{error::AdminApiError, method::AdminMethod};

/// Maximum duration of a call.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Parts of a log line that a handler knows, as an extension of its response.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallRecord {
    pub(super) operator: Option<String>,
    /// Name of the method.
    pub(super) method: Option<String>,
    /// Account, key or operator of the call.
    pub(super) subject: Option<String>,
}

/// Returns the header fields that a call copies from its request, and the address that the request came from.
/// The core will judge the bearer credential.
pub(super) fn credentials(headers: &HeaderMap, client: IpAddr) -> Result<HeaderMap, AdminApiError> {
    bearer(headers).map_err(|_| AdminApiError::MissingToken)?;
    let mut own = HeaderMap::new();
    for name in [AUTHORIZATION, X_REQUEST_ID] {
        if let Some(value) = headers.get(&name) {
            own.insert(name, value.clone());
        }
    }
    if let Some(authorization) = own.get_mut(AUTHORIZATION) {
        authorization.set_sensitive(true);
    }
    if let Ok(client) = HeaderValue::try_from(client.to_canonical().to_string()) {
        own.insert(HeaderName::from_static("petstore-client-address"), client); // for the audit log
    }
    Ok(own)
}

/// Returns the address that a request came from. Only a router that is called without a socket has no peer.
pub(super) fn client(gateway: &Gateway, headers: &HeaderMap, extensions: &Extensions) -> IpAddr {
    let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
    gateway.client_of(peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), headers)
}

impl CallRecord {
    /// Records the method, and the account, key or operator that its message names.
    pub(super) fn note(&mut self, method: &AdminMethod, message: &DynamicMessage) {
        self.method = Some(method.name().to_owned());
        let named = ["key_id", "account", "name"].into_iter().find_map(|field| {
            match message.get_field_by_name(field).as_deref()? {
                Value::String(text) => Some(text.clone()),
                Value::Message(inner) => inner.get_field_by_name("name")?.as_str().map(str::to_owned),
                _ => None,
            }
            .filter(|text| !text.is_empty())
        });
        // The core has yet to judge it.
        let is_fit = |text: &String| {
            text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_graphic()) && !ApiKey::begins_in(text)
        };
        self.subject = named.filter(is_fit);
    }

    fn note_operator(&mut self, metadata: &MetadataMap) {
        // The core names the operator of the call.
        let name = metadata.get("petstore-operator").and_then(|name| name.to_str().ok());
        self.operator = name.map(str::to_owned).or(self.operator.take());
    }
}

/// Makes the call. It is not retried if its answer is lost, because most methods change something.
pub(super) async fn call(
    core: &TracedTransport,
    method: &AdminMethod,
    message: &DynamicMessage,
    credentials: &HeaderMap,
    record: &mut CallRecord,
) -> Result<DynamicMessage, AdminApiError> {
    let mut request = Request::new(message.clone());
    request.metadata_mut().as_mut().extend(credentials.clone());
    match send(core.clone(), method, request, CALL_TIMEOUT).await {
        Ok(answer) => {
            record.note_operator(answer.metadata());
            Ok(answer.into_inner())
        }
        Err(status) => {
            record.note_operator(status.metadata());
            Err(AdminApiError::from(&status))
        }
    }
}

/// Calls a method of `AdminService`. The request is a JSON object with the fields of the method's message,
/// and the answer is the body of the admin API's response. The metadata is sent with the call.
///
/// # Errors
///
/// If the core refuses the call. If the object is not such a request:
/// the status is `INVALID_ARGUMENT`.
pub async fn call_admin(
    core: CoreTransport,
    method: &str,
    request: Request<&Json>,
    deadline: Duration,
) -> Result<Json, Status> {
    let method = AdminMethod::find(method).ok_or_else(|| Status::unimplemented(method.to_owned()))?;
    let (metadata, extensions, members) = request.into_parts();
    let message = method.read(members).map_err(Status::invalid_argument)?;
    let request = Request::from_parts(metadata, extensions, message);
    let answer = send(core, &method, request, deadline).await?;
    Ok(method.body(answer.get_ref()))
}

async fn send<T>(
    core: T,
    method: &AdminMethod,
    mut request: Request<DynamicMessage>,
    deadline: Duration,
) -> Result<tonic::Response<DynamicMessage>, Status>
where
    T: Service<http::Request<Body>, Response = http::Response<Body>>,
    T::Error: Into<BoxError>,
{
    request.set_timeout(deadline);
    let mut client = Grpc::new(core);
    let answer = async {
        client.ready().await.map_err(|error| Status::from_error(error.into()))?;
        client.unary(request, method.grpc_path(), DynamicCodec(method.descriptor().output())).await
    };
    let elapsed = |_| Status::deadline_exceeded("the core did not answer in time");
    timeout(deadline, answer).await.map_err(elapsed)?
}

/// Codec of messages that are known only by their descriptors.
struct DynamicCodec(MessageDescriptor);

impl Codec for DynamicCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = ProstEncoder<DynamicMessage>;
    type Decoder = Self;

    fn encoder(&mut self) -> ProstEncoder<DynamicMessage> {
        ProstEncoder::new(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self {
        Self(self.0.clone())
    }
}

impl Decoder for DynamicCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let message = DynamicMessage::decode(self.0.clone(), bytes);
        message.map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}
