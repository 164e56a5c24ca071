//! Context of a call between the parts of a service.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderValue};
use uuid::{Uuid, fmt::Hyphenated};

use crate::api_key::is_request_id;

/// Header field, and metadata of gRPC, with the id of a request.
pub const X_REQUEST_ID: &str = "x-request-id";

/// Id that a client gives a request, and a caller a call, so that both sides' logs can be matched. It has the
/// form of [`is_request_id`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// Returns the id with this text. Returns `None` for another form, which could be meant to forge a log
    /// line, and for a text with an API key, which must not be logged.
    pub fn parse(text: &HeaderValue) -> Option<Self> {
        let id = text.to_str().ok().filter(|id| is_request_id(id))?;
        HeaderValue::from_str(id).ok().map(Self) // a copy: `text` keeps the buffer of the whole head
    }

    /// Returns the id that is this UUID.
    pub fn new(uuid: Uuid) -> Self {
        let mut text = [0; Hyphenated::LENGTH];
        let text: &str = uuid.hyphenated().encode_lower(&mut text);
        // Hexadecimal digits and hyphens are always a field value.
        Self(HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("unnamed-request")))
    }

    /// Returns the id as a header field's value.
    pub const fn as_header(&self) -> &HeaderValue {
        &self.0
    }

    /// Returns the id's text.
    pub fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default() // always ASCII
    }
}

/// Context of a call: an extension of its request, and the only source of these values, whether the call was
/// made on a socket, in a batch or from the same process.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// Id that the caller gave it.
    pub id: Option<RequestId>,
    /// Name in the caller's certificate.
    pub caller: Option<Arc<str>>,
    /// Time for which the caller waits, from `started` on; `None` stands for the maximum of the method.
    pub timeout: Option<Duration>,
    /// Header fields that name the span that the call belongs to (W3C Trace Context).
    pub trace: HeaderMap,
    /// Time at which the first byte of the call arrived.
    pub started: Instant,
}
