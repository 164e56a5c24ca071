//! The deprecation of `GET /v1/pets/{petId}`, and the rehearsals of its removal (docs/contract.md, 7.5).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::{HeaderMap, HeaderName, HeaderValue, header, request::Parts};
use parking_lot::RwLock;
use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::{Brownout, ListChangesResponse};

use crate::{error::ApiError, gateway::GatewayState, request_id::Caller};

/// Deprecation of an operation that will be removed.
#[derive(Debug)]
pub(crate) struct Deprecation {
    /// `Deprecation` (RFC 9745): `@` and the Unix time in seconds.
    since: HeaderValue,
    /// `Sunset` (RFC 8594): `removed_at` as an HTTP date.
    sunset: HeaderValue,
    /// Time from which the operation is gone (410).
    pub(crate) removed_at: UnixMillis,
    /// `Link` (RFC 8288) to the successor.
    successor: HeaderValue,
    /// `Link` to the page that says how to live without the operation (RFC 9745 §3).
    advice: HeaderValue,
}

/// Deprecation of `GET /v1/pets/{petId}`: deprecated since 2025-12-05, removed on 2030-12-05, each at 00:00
/// UTC.
pub(crate) static GET_PET_DEPRECATION: Deprecation = Deprecation {
    since: HeaderValue::from_static("@1764892800"),
    sunset: HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT"),
    removed_at: UnixMillis::from_secs(1_922_659_200),
    successor: HeaderValue::from_static(r#"</v1/pets?status=available>; rel="successor-version""#),
    advice: HeaderValue::from_static(r#"</docs/deprecation>; rel="deprecation"; type="text/html""#),
};

impl Deprecation {
    /// Adds `Deprecation`, `Sunset` and both `Link` fields: clients of 1.0.0 find the first one as it was.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.append(HeaderName::from_static("deprecation"), self.since.clone());
        headers.append(HeaderName::from_static("sunset"), self.sunset.clone());
        headers.append(header::LINK, self.successor.clone());
        headers.append(header::LINK, self.advice.clone());
    }
}

/// Proof that `GET /v1/pets/{petId}` is in service: neither removed, nor off for a rehearsal.
#[derive(Debug)]
pub(crate) struct InService;

impl FromRequestParts<Arc<GatewayState>> for InService {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, gateway: &Arc<GatewayState>) -> Result<Self, ApiError> {
        if gateway.clock.now() >= GET_PET_DEPRECATION.removed_at {
            return Err(ApiError::OperationRemoved);
        }
        let caller: &Caller = parts.extensions.get().ok_or(ApiError::Internal)?;
        let brownout = gateway.brownouts.in_force_until(caller.account_id, gateway.keys.core_now());
        brownout.map_or(Ok(Self), |until| Err(ApiError::OperationBrownout { until }))
    }
}

/// Maximum number of brownouts that are kept: as many as a core plans.
const MAX_KEPT: usize = 32;

/// Brownouts that the core's change feed listed last. They begin and end by the core's clock, even while the
/// core is away.
#[derive(Debug, Default)]
pub(crate) struct Brownouts(RwLock<Vec<Brownout>>);

impl Brownouts {
    /// Learns what the core lists. A core that knows no brownouts changes nothing.
    pub(crate) fn learn(&self, changes: &ListChangesResponse) {
        let Some(listed) = &changes.brownouts else { return };
        let listed = listed.brownouts.get(..MAX_KEPT).unwrap_or(&listed.brownouts);
        if *self.0.read() != listed {
            *self.0.write() = listed.to_vec();
        }
    }

    /// Returns the brownouts of the account that have not ended: start and end of each.
    pub(crate) fn announced(&self, account_id: i64, now: UnixMillis) -> Vec<(UnixMillis, UnixMillis)> {
        let moment = |millis: i64| UnixMillis(u64::try_from(millis).unwrap_or_default());
        let planned = self.0.read();
        let own = planned.iter().filter(|it| it.account_id == 0 || it.account_id == account_id);
        let periods = own.map(|it| (moment(it.starts_at_ms), moment(it.ends_at_ms)));
        periods.filter(|(_, until)| now < *until).collect()
    }

    /// Returns the end of the brownout in force, of several the last one.
    fn in_force_until(&self, account_id: i64, now: UnixMillis) -> Option<UnixMillis> {
        let announced = self.announced(account_id, now);
        announced.into_iter().filter(|(from, _)| *from <= now).map(|(_, until)| until).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_removal_date_is_the_same_in_clock_and_header() {
        assert_eq!(GET_PET_DEPRECATION.removed_at.to_string(), "2030-12-05T00:00:00Z");
        assert_eq!(GET_PET_DEPRECATION.sunset, "Thu, 05 Dec 2030 00:00:00 GMT");
    }
}
