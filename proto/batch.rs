//! Calls of unary methods whose messages the transport does not know: encoded in a batch, or as they are in
//! the same process.

use std::{any::Any, borrow::Cow, time::Duration};

use http::{HeaderMap, HeaderValue};
use prost::{
    DecodeError, Message,
    bytes::{Buf, BufMut, Bytes},
    encoding::{self, DecodeContext, WireType},
};

use crate::internal::v1::CallStatus;

/// Request of a unary method. Each is implemented from its descriptor.
pub trait UnaryRequest: Message + Default + Clone + 'static {
    /// Response of the method.
    type Response: Message + Default + 'static;
    /// `package.Service/Method`.
    const PATH: &'static str;
    /// `true` if the method changes nothing.
    const IS_READ: bool;
    /// Number of the field of a batch's call that carries the request.
    const FIELD: u32;
    /// Returns `true` if repeating the call changes no more than making it once: if its `idempotency_level`
    /// says so, or it has a `request_id` (AIP-155).
    fn is_idempotent(&self) -> bool;
}

include!(concat!(env!("OUT_DIR"), "/unary_requests.rs"));

/// Field that carries the messages of methods without a field of their own.
pub const NAMED: u32 = 8;

/// Field with the name of the method of such a message.
const PATH: u32 = 9;

/// `petstore.internal.v1.Call`: one call of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Call {
    /// Id of the call in logs and failures.
    pub request_id: Option<HeaderValue>,
    /// Span that the call belongs to.
    pub traceparent: Option<HeaderValue>,
    /// Timeout in milliseconds; 0 means that none is given.
    pub timeout_ms: u32,
    /// Number of the field that carries the message; 0 if the method is not known.
    pub field: u32,
    /// The request, encoded.
    pub message: Bytes,
    /// Method of a request in the field [`NAMED`].
    pub path: Cow<'static, str>,
}

impl Call {
    /// Returns a call with this request.
    pub fn new<M: UnaryRequest>(request: &M) -> Self {
        let path = if M::FIELD == NAMED { M::PATH } else { "" };
        let message = request.encode_to_vec().into();
        Self { field: M::FIELD, message, path: path.into(), ..Self::default() }
    }

    /// Returns the request if the call is of its method.
    pub fn request<M: UnaryRequest>(&self) -> Option<Result<M, DecodeError>> {
        let is_of_method = if self.field == NAMED { self.path == M::PATH } else { self.field == M::FIELD };
        is_of_method.then(|| M::decode(self.message.clone()))
    }

    /// Returns the fields with bytes, by their numbers.
    fn fields(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let [request_id, traceparent] =
            [&self.request_id, &self.traceparent].map(|value| value.as_ref().map(HeaderValue::as_bytes));
        let message = (self.field != 0).then_some(&*self.message);
        let path = (!self.path.is_empty()).then_some(self.path.as_bytes());
        let fields = [(1, request_id), (2, traceparent), (self.field, message), (PATH, path)];
        fields.into_iter().filter_map(|(tag, value)| Some((tag, value?)))
    }
}

impl Message for Call {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.fields().for_each(|(tag, value)| put(tag, value, buf));
        encoding::uint32::encode(3, &self.timeout_ms, buf);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            1 | 2 => {
                let mut value = Bytes::new();
                encoding::bytes::merge(wire_type, &mut value, buf, context)?;
                // One that is no field value is ignored, as in the metadata of a call.
                let value = HeaderValue::from_maybe_shared(value).ok();
                *(if tag == 1 { &mut self.request_id } else { &mut self.traceparent }) = value;
                Ok(())
            }
            3 => encoding::uint32::merge(wire_type, &mut self.timeout_ms, buf, context),
            4..=NAMED => {
                self.field = tag;
                encoding::bytes::merge(wire_type, &mut self.message, buf, context)
            }
            PATH => encoding::string::merge(wire_type, self.path.to_mut(), buf, context),
            _ => encoding::skip_field(wire_type, tag, buf, context),
        }
    }

    fn encoded_len(&self) -> usize {
        let fields: usize = self.fields().map(|(tag, value)| len(tag, value)).sum();
        fields + encoding::uint32::encoded_len(3, &self.timeout_ms)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// `petstore.internal.v1.Answer`: the answer to one call of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Answer {
    /// Position of the call in its batch.
    pub call: u32,
    /// The call was refused or failed.
    pub failure: Option<CallStatus>,
    /// Number of the field that carries the message: one less than that of the request. 0 if there is none.
    pub field: u32,
    /// The response, encoded.
    pub message: Bytes,
}

impl Answer {
    /// Puts the response to a call in.
    pub fn set(&mut self, call: &Call, response: &impl Message) {
        self.field = call.field - 1;
        self.message = response.encode_to_vec().into();
    }

    /// Returns the response of this method; `None` if there is none.
    pub fn response<M: UnaryRequest>(self) -> Option<Result<M::Response, DecodeError>> {
        (self.field == M::FIELD - 1).then(|| M::Response::decode(self.message))
    }
}

impl Message for Answer {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        encoding::uint32::encode(1, &self.call, buf);
        if let Some(failure) = &self.failure {
            encoding::message::encode(2, failure, buf);
        }
        if self.field != 0 {
            put(self.field, &self.message, buf);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            1 => encoding::uint32::merge(wire_type, &mut self.call, buf, context),
            2 => encoding::message::merge(wire_type, self.failure.get_or_insert_default(), buf, context),
            3..NAMED => {
                self.field = tag;
                encoding::bytes::merge(wire_type, &mut self.message, buf, context)
            }
            _ => encoding::skip_field(wire_type, tag, buf, context),
        }
    }

    fn encoded_len(&self) -> usize {
        let failure = self.failure.as_ref().map_or(0, |failure| encoding::message::encoded_len(2, failure));
        let message = if self.field == 0 { 0 } else { len(self.field, &self.message) };
        encoding::uint32::encoded_len(1, &self.call) + failure + message
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

fn put(tag: u32, value: &[u8], buf: &mut impl BufMut) {
    encoding::encode_key(tag, WireType::LengthDelimited, buf);
    encoding::encode_varint(value.len() as u64, buf);
    buf.put_slice(value);
}

fn len(tag: u32, value: &[u8]) -> usize {
    encoding::key_len(tag) + encoding::encoded_len_varint(value.len() as u64) + value.len()
}

/// A call in the same process.
#[expect(missing_debug_implementations, reason = "its messages have none")]
pub struct LocalCall<'a> {
    /// Id of the call in logs and failures.
    pub request_id: &'a HeaderValue,
    /// Header fields that name the span that the call belongs to.
    pub trace: HeaderMap,
    /// Time for the call.
    pub timeout: Duration,
    /// The request, an `Option`, which the core takes.
    pub request: &'a mut (dyn Any + Send),
    /// The response, an `Option`, which the core puts in.
    pub response: &'a mut (dyn Any + Send),
}
