//! What the OpenAPI document says of an operation beyond its row in the table. It stands beside the handler.

use serde_json::Value;

use crate::error::responses::ErrorResponse;

/// Header fields of a response, as (field, component of the OpenAPI document).
pub(crate) type HeaderFields = &'static [(&'static str, &'static str)];

/// An operation as the OpenAPI document describes it.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) tag: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) text: &'static str,
    /// Components of the document.
    pub(crate) parameters: &'static [&'static str],
    pub(crate) request_body: Option<fn() -> Value>,
    pub(crate) success: Success,
    /// Beside those that every operation may answer with.
    pub(crate) failures: &'static [&'static ErrorResponse],
}

/// The response of an operation that succeeds.
#[derive(Debug)]
pub(crate) struct Success {
    pub(crate) status: &'static str,
    pub(crate) description: &'static str,
    /// Beside those of every response of the operation.
    pub(crate) headers: HeaderFields,
    /// The schema of its body.
    pub(crate) schema: &'static str,
    pub(crate) example: Option<fn() -> Value>,
    /// What a client may do next.
    pub(crate) link: Option<Link>,
}

/// An OpenAPI link.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) name: &'static str,
    pub(crate) target: fn() -> Value,
}

/// The tag of every operation on pets.
pub(crate) const PETS: &str = "Pets";

/// The tag of every operation on orders.
pub(crate) const ORDERS: &str = "Orders";

/// The tag of every operation on the caller's account.
pub(crate) const ACCOUNT: &str = "Account";
