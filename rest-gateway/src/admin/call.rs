//! A call of the admin service in the core, on behalf of an operator.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use bytes::{Buf, BufMut};
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use petstore_api_key::OperatorToken;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tokio::time::timeout;
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::MetadataValue,
};

use super::{error::AdminError, method::AdminMethod};
use crate::{client_address::TrustedProxies, core_client::TracedTransport, error::ApiError};

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Longer ones are no tokens.
const MAX_TOKEN: usize = 128;

/// Where the request came from, for the audit.
const CLIENT_ADDRESS: &str = "petstore-client-address";

/// Who calls: a token that only the core can judge, and an address.
#[derive(Debug)]
pub(super) struct Credentials {
    authorization: HeaderValue,
    pub(super) address: IpAddr,
}

impl Credentials {
    /// Reads exactly one `Authorization: Bearer …`.
    pub(super) fn read(
        headers: &HeaderMap,
        peer: Option<IpAddr>,
        proxies: &TrustedProxies,
    ) -> Result<Self, AdminError> {
        let mut fields = headers.get_all(AUTHORIZATION).into_iter();
        let (Some(field), None) = (fields.next(), fields.next()) else {
            return Err(AdminError::MissingToken);
        };
        let token = field.to_str().ok().and_then(|field| field.split_once(' '));
        let is_token = token.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("Bearer") && (1..=MAX_TOKEN).contains(&token.trim().len())
        });
        if !is_token {
            return Err(AdminError::MissingToken);
        }
        let mut authorization = field.clone();
        authorization.set_sensitive(true);
        // Only a router that is called without a socket has no peer.
        let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Ok(Self { authorization, address: proxies.client_ip(peer, headers) })
    }
}

impl Credentials {
    /// The token, if its form and checksum are right.
    pub(super) fn token(&self) -> Option<OperatorToken> {
        let (_, token) = self.authorization.to_str().ok()?.split_once(' ')?;
        OperatorToken::parse(token)
    }
}

/// Makes the call. It is not repeated when its answer is lost: most methods change something.
pub(super) async fn call(
    core: &TracedTransport,
    method: &AdminMethod,
    message: &DynamicMessage,
    credentials: &Credentials,
) -> Result<DynamicMessage, AdminError> {
    let mut request = Request::new(message.clone());
    request.set_timeout(DEADLINE);
    let metadata = request.metadata_mut();
    if let Ok(authorization) = MetadataValue::try_from(credentials.authorization.as_bytes()) {
        metadata.insert("authorization", authorization);
    }
    if let Ok(address) = MetadataValue::try_from(credentials.address.to_canonical().to_string()) {
        metadata.insert(CLIENT_ADDRESS, address);
    }
    let mut client = Grpc::new(core.clone());
    let codec = DynamicCodec(method.output());
    let answer = async {
        let is_ready = client.ready().await;
        is_ready.map_err(|error| Status::unavailable(error.to_string()))?;
        client.unary(request, method.grpc_path(), codec).await
    };
    match timeout(DEADLINE, answer).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(AdminError::from(&status)),
        Err(_) => Err(ApiError::DeadlineExceeded.into()),
    }
}

/// Messages that are known by their descriptors alone.
struct DynamicCodec(MessageDescriptor);

impl Codec for DynamicCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = DynamicEncoder;
    type Decoder = Self;

    fn encoder(&mut self) -> DynamicEncoder {
        DynamicEncoder
    }

    fn decoder(&mut self) -> Self {
        Self(self.0.clone())
    }
}

struct DynamicEncoder;

impl Encoder for DynamicEncoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message.encode_to_vec().as_slice());
        Ok(())
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
