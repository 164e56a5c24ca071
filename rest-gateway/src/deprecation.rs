//! The deprecation of `GET /v1/pets/{petId}`, and the rehearsals of its removal (docs/contract.md, 7.5).

use http::{HeaderName, HeaderValue, header};
use parking_lot::RwLock;
use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::{Brownout, ListChangesResponse};

/// Time from which `GET /v1/pets/{petId}` is gone (410): 5 December 2030, 00:00 UTC.
pub(crate) const GET_PET_REMOVED_AT: UnixMillis = UnixMillis::from_secs(1_922_659_200);

/// Header fields of every response of its path. Clients of 1.0.0 find the first `Link` as it was.
pub(crate) const DEPRECATION: [(HeaderName, HeaderValue); 4] = [
    // `@` and the Unix time in seconds (RFC 9745): 5 December 2025
    (HeaderName::from_static("deprecation"), HeaderValue::from_static("@1764892800")),
    // RFC 8594
    (HeaderName::from_static("sunset"), HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT")),
    // The successor (RFC 8288), and the page that says how to live without the operation (RFC 9745 §3).
    (header::LINK, HeaderValue::from_static(r#"</v1/pets?status=available>; rel="successor-version""#)),
    (header::LINK, HeaderValue::from_static(r#"</docs/deprecation>; rel="deprecation"; type="text/html""#)),
];

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
        let planned = self.0.read();
        let own = planned.iter().filter(|it| it.account_id == 0 || it.account_id == account_id);
        let periods = own.map(|it| (UnixMillis::stored(it.starts_at_ms), UnixMillis::stored(it.ends_at_ms)));
        periods.filter(|(_, until)| now < *until).collect()
    }

    /// Returns the end of the brownout in force, of several the last one.
    pub(crate) fn in_force_until(&self, account_id: i64, now: UnixMillis) -> Option<UnixMillis> {
        let announced = self.announced(account_id, now);
        announced.into_iter().filter(|(from, _)| *from <= now).map(|(_, until)| until).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_removal_date_is_the_same_in_clock_and_header() {
        assert_eq!(DEPRECATION[1].1, GET_PET_REMOVED_AT.to_http_date());
    }
}
