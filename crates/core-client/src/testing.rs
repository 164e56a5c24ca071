//! Methods for tests.

use petstore_proto::{NAMED, UnaryRequest};
use prost::Message;

/// Request of a method whose answers tests make.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Get {
    #[prost(int64, tag = "1")]
    pub(crate) number: i64,
}

/// Response to [`Get`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Got {
    #[prost(int64, tag = "1")]
    pub(crate) number: i64,
}

impl UnaryRequest for Get {
    type Response = Got;
    const PATH: &'static str = "package.Service/Get";
    const IS_READ: bool = true;
    const FIELD: u32 = 4;

    fn is_idempotent(&self) -> bool {
        true
    }
}

/// Request of a method that changes something. It is idempotent if it has a name.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Add {
    #[prost(string, tag = "1")]
    pub(crate) request_id: String,
}

impl UnaryRequest for Add {
    type Response = Got;
    const PATH: &'static str = "package.Service/Add";
    const IS_READ: bool = false;
    const FIELD: u32 = NAMED;

    fn is_idempotent(&self) -> bool {
        !self.request_id.is_empty()
    }
}
