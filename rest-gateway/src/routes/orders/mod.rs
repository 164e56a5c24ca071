//! `/v1/store/orders`: the orders. Experimental; they are placed over gRPC.

mod list;

pub(super) use list::{DESCRIPTION, list};
