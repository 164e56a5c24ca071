//! Id that a caller gives a call (`x-request-id`), so that both sides' logs can be matched.

use http::HeaderMap;
use petstore_api_key::ApiKey;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

const KEY: &str = "x-request-id";

/// Id of the form that REST accepts too: 8 to 64 letters, digits, `.`, `_` or `-`. It is returned in the
/// answer's metadata, and with a failure as `google.rpc.RequestInfo`.
#[derive(Clone, Debug)]
pub(super) struct CallId(MetadataValue<Ascii>);

impl CallId {
    /// Returns the call's id, if it has one. Ignores an id of another form, which could be meant to forge a
    /// log line, and one that contains an API key, which must not be logged.
    pub(super) fn from_metadata(metadata: &MetadataMap) -> Option<Self> {
        Self::parse(metadata.get(KEY)?.as_bytes())
    }

    /// Returns the call's id before the header fields have become metadata.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(KEY)?.as_bytes())
    }

    /// Parses the id of a call in a batch.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let is_id = (8..=64).contains(&bytes.len()) && bytes.iter().all(allowed);
        let holds_key = std::str::from_utf8(bytes).is_ok_and(ApiKey::begins_in);
        (is_id && !holds_key).then(|| MetadataValue::try_from(bytes).ok().map(Self)).flatten()
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default() // always ASCII
    }

    pub(super) fn write(self, metadata: &mut MetadataMap) {
        metadata.insert(KEY, self.0);
    }
}
