//! The name that a caller gives a call, so that both sides' logs can be matched.

use http::HeaderMap;
use petstore_api_key::ApiKey;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

const KEY: &str = "x-request-id";

/// A name of the form that REST takes too: 8 to 64 letters, digits, `.`, `_` or `-`. It comes back in the answer's
/// metadata, and with a failure as `google.rpc.RequestInfo`.
#[derive(Clone, Debug)]
pub(super) struct RequestId(MetadataValue<Ascii>);

impl RequestId {
    /// The call's name, if it has one. One of another form is passed over, as it could be meant to forge a log, and one
    /// with an API key in it, which has no place in a log.
    pub(super) fn of(metadata: &MetadataMap) -> Option<Self> {
        Self::parse(metadata.get(KEY)?.as_bytes())
    }

    /// The same, before the header fields have become metadata.
    pub(super) fn of_headers(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(KEY)?.as_bytes())
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let is_name = (8..=64).contains(&bytes.len()) && bytes.iter().all(allowed);
        let holds_key = std::str::from_utf8(bytes).is_ok_and(ApiKey::begins_in);
        (is_name && !holds_key).then(|| MetadataValue::try_from(bytes).ok().map(Self)).flatten()
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default() // always ASCII
    }

    pub(super) fn write(self, metadata: &mut MetadataMap) {
        metadata.insert(KEY, self.0);
    }
}
