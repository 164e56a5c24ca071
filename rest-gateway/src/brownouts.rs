//! Rehearsals of the removal of getPet (docs/contract.md, 7.5), as the core's change feed lists them.

use parking_lot::RwLock;
use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::{Brownout, ListChangesResponse};

/// Maximum number of brownouts that are kept: as many as a core plans.
const MAX_KEPT: usize = 32;

/// Brownouts that the core listed last. They begin and end by the core's clock, even while the core is away.
#[derive(Debug, Default)]
pub(crate) struct Calendar(RwLock<Vec<Brownout>>);

impl Calendar {
    /// Learns what the core lists. A core that knows no brownouts changes nothing.
    pub(crate) fn learn(&self, answer: &ListChangesResponse) {
        let Some(listed) = &answer.brownouts else { return };
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
    pub(crate) fn in_force_until(&self, account_id: i64, now: UnixMillis) -> Option<UnixMillis> {
        let announced = self.announced(account_id, now);
        announced.into_iter().filter(|(from, _)| *from <= now).map(|(_, until)| until).max()
    }
}
