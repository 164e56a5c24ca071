//! The services that gateways call about keys, bans and usage.

mod convert;
pub(crate) mod key_service;
pub(crate) mod usage_service;
