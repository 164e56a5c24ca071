//! The tables, as `petstore-migrations` makes them.

pub(super) mod account;
pub(super) mod api_key;
pub(super) mod audit_event;
pub(super) mod ban;
pub(super) mod create_request;
pub(super) mod import;
pub(super) mod installation;
pub(super) mod operator;
pub(super) mod operator_session;
pub(super) mod order;
pub(super) mod pet;
pub(super) mod refusal;
pub(super) mod refusal_count;
pub(super) mod revision;
pub(super) mod usage_day;
pub(super) mod usage_minute;
pub(super) mod usage_reporter;
