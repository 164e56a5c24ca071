//! The services that gateways call about keys, bans and usage, and the conversions that both need.

use std::collections::HashSet;

use petstore_clock::UnixMillis;
use petstore_proto::internal::v1 as internal;

use crate::{
    accounts::{Ban, BanOrigin, KeyId},
    errors::PetStoreError,
    grpc::CallResult,
    violations::Violation,
};

pub(crate) mod key_service;
pub(crate) mod usage_service;

fn reported_ban(ban: Option<internal::Ban>) -> CallResult<Ban> {
    let ban = ban.unwrap_or_default(); // an absent ban does not end after its start either
    let from = moment("ban.imposed_at_ms", ban.imposed_at_ms)?;
    let until = moment("ban.ends_at_ms", ban.ends_at_ms)?;
    Ban::new(from, until, BanOrigin::Limiter).map_err(refused)
}

/// Parses the keys that were used, each once, with the time of their last use.
fn key_uses(uses: Vec<internal::KeyUse>) -> CallResult<Vec<(String, UnixMillis)>> {
    let mut keys = HashSet::with_capacity(uses.len());
    let mut parse = |key: internal::KeyUse| {
        let id = key_id("uses.key_id", &key.key_id)?;
        if !keys.insert(id) {
            return Err(refuse("uses", "must name each key once"));
        }
        Ok((id.to_string(), moment("uses.last_used_at_ms", key.last_used_at_ms)?))
    };
    uses.into_iter().map(&mut parse).collect()
}

fn key_id(field: &'static str, raw: &str) -> CallResult<KeyId> {
    raw.parse().map_err(|_| refuse(field, "must be the UUID of a key"))
}

/// Parses a time that every column and every client can hold.
fn moment(field: &'static str, millis: i64) -> CallResult<UnixMillis> {
    UnixMillis::from_i64(millis).ok_or_else(|| refuse(field, "must be a time between 1970 and 9999"))
}

/// Returns the error for a parameter that breaks a rule.
fn refuse(field: &'static str, rule: &'static str) -> PetStoreError {
    refused(Violation::new(field, rule))
}

fn refused(violation: Violation) -> PetStoreError {
    PetStoreError::InvalidParameter(violation.into())
}

#[cfg(test)]
mod tests {
    use petstore_proto::admin::v1 as admin;

    use super::*;

    /// The domain has one number for each: that of both contracts.
    #[test]
    fn operators_and_gateways_have_the_same_numbers() {
        macro_rules! assert_alike {
            ($name:ident) => {
                for number in 0..10 {
                    let of_operators = admin::$name::try_from(number).ok().map(|it| it.as_str_name());
                    let of_gateways = internal::$name::try_from(number).ok().map(|it| it.as_str_name());
                    assert_eq!(of_operators, of_gateways);
                }
            };
        }
        assert_alike!(Plan);
        assert_alike!(KeyState);
        assert_alike!(BanOrigin);
    }
}
