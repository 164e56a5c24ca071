//! The name that a caller gives a call, so that both sides' logs can be matched.

use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

const KEY: &str = "x-request-id";

/// A name of the form that REST takes too: 8 to 64 letters, digits, `.`, `_` or `-`. It comes back in the answer's
/// metadata, and with a failure as `google.rpc.RequestInfo`.
#[derive(Clone, Debug)]
pub(super) struct RequestId(MetadataValue<Ascii>);

impl RequestId {
    /// The call's name, if it has one. One of another form is passed over: it could be meant to forge a log.
    pub(super) fn of(metadata: &MetadataMap) -> Option<Self> {
        let value = metadata.get(KEY)?;
        let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        let bytes = value.as_bytes();
        ((8..=64).contains(&bytes.len()) && bytes.iter().all(allowed)).then(|| Self(value.clone()))
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default() // always ASCII
    }

    pub(super) fn write(self, metadata: &mut MetadataMap) {
        metadata.insert(KEY, self.0);
    }
}
