//! The authenticated sender of a request.

use petstore_proto::internal::v1::Plan;

use crate::request_id::RequestId;

/// Authenticated sender of a request. Only a request with a valid key has one, so a handler that takes it
/// cannot be reached without a valid key. Its limits allow the request, or will before a read is answered.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) account_id: i64,
    pub(crate) plan: Plan,
    pub(crate) request_id: RequestId,
}
