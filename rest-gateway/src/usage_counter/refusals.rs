//! A sample of the refused requests, for operators who ask for the cause, and counts of all of them by minute
//! and cause. A refusal takes one short lock.

use std::{collections::HashMap, mem};

use parking_lot::Mutex;
use petstore_caller::client_address::ClientAddress;
use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::{Refusal, RefusalCause, RefusalCount};
use petstore_rate_limit::{BanCause, DAY, MINUTE, Outcome, WindowView};

use crate::error::ApiError;

/// Maximum number of refusals with a known key that are kept for one report. The first of each account and
/// cause has room before further ones.
const MAX_OF_ACCOUNTS: usize = 400;
/// Maximum number of refusals without a known key, so that a flood of them takes no room from accounts. The
/// first of each address and cause has room before further ones.
const MAX_OF_ADDRESSES: usize = 100;
/// Maximum number of refusals of one account or address and cause. A further one replaces the newest of its
/// key, which it then also stands for. The first one of a key replaces the oldest of all.
const MAX_OF_KIND: usize = 40;

/// Refusals since the last report.
#[derive(Default)]
pub(crate) struct RefusalLedger(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    of_accounts: Sample,
    of_addresses: Sample,
    /// Numbers by minute and cause.
    counts: HashMap<(i64, i32), i64>,
}

/// Refusals by subject and cause, each with the number of further ones that it stands for.
#[derive(Default)]
struct Sample {
    /// Subjects are accounts, or addresses without one.
    kinds: HashMap<(Result<i64, ClientAddress>, i32), Vec<Refusal>>,
    kept: usize,
}

impl RefusalLedger {
    /// Counts a refusal in that minute, and keeps it if there is room. The client at the address is its
    /// subject if no account is known.
    pub(crate) fn note(&self, minute: i64, refusal: Refusal, address: ClientAddress) {
        let mut waiting = self.0.lock();
        let count = (minute, refusal.cause);
        // Only a long outage of the core reaches this number of minutes and causes.
        if waiting.counts.len() < 1_000 || waiting.counts.contains_key(&count) {
            *waiting.counts.entry(count).or_default() += 1;
        }
        match refusal.account_id {
            0 => waiting.of_addresses.note(Err(address), refusal, MAX_OF_ADDRESSES),
            account_id => waiting.of_accounts.note(Ok(account_id), refusal, MAX_OF_ACCOUNTS),
        }
    }

    /// Returns the refusals and counts to report now, and begins again.
    pub(super) fn drain(&self) -> (Vec<Refusal>, Vec<RefusalCount>) {
        let Waiting { of_accounts, of_addresses, counts } = mem::take(&mut *self.0.lock());
        let refusals = of_accounts.kinds.into_values().chain(of_addresses.kinds.into_values()).flatten();
        let count = |((minute, cause), requests)| RefusalCount { minute, cause, requests };
        (refusals.collect(), counts.into_iter().map(count).collect())
    }
}

impl Sample {
    fn note(&mut self, subject: Result<i64, ClientAddress>, mut refusal: Refusal, max: usize) {
        let kind = (subject, refusal.cause);
        let kept = self.kinds.get(&kind).map_or(&[][..], Vec::as_slice);
        let newest_of_key = kept.iter().rposition(|it| it.key_id == refusal.key_id);
        let has_room = kept.len() < MAX_OF_KIND;
        if has_room && self.kept < max {
            self.kept += 1;
        } else if let Some((kept, newest)) = self.kinds.get_mut(&kind).zip(newest_of_key) {
            refusal.repeats = kept.remove(newest).repeats + 1;
        } else if !(has_room && self.evict()) {
            let Some(kept) = self.kinds.get_mut(&kind) else { return };
            drop_oldest(kept);
        }
        self.kinds.entry(kind).or_default().push(refusal);
    }

    /// Drops the oldest refusal of the account and cause that has most of them. Returns `false` if each has
    /// only one.
    fn evict(&mut self) -> bool {
        let most = self.kinds.values_mut().max_by_key(|kept| kept.len());
        most.filter(|kept| kept.len() > 1).map(drop_oldest).is_some()
    }
}

/// Drops the oldest refusal, and counts it with the next one of its key.
fn drop_oldest(kept: &mut Vec<Refusal>) {
    let oldest = kept.remove(0);
    if let Some(next) = kept.iter_mut().find(|it| it.key_id == oldest.key_id) {
        next.repeats += oldest.repeats + 1;
    }
}

/// Returns the refusal with its cause. `own_limit` is the limit that counts the request instead of those of
/// the account.
pub(crate) fn refusal_by(error: &ApiError, own_limit: Option<RefusalCause>) -> Option<Refusal> {
    let of_window = |cause, window: WindowView, length| {
        let limit = i64::try_from(window.limit).unwrap_or_default();
        let since = UnixMillis(window.resets_at.0.saturating_sub(length));
        (own_limit.unwrap_or(cause), limit, Some((since, window.resets_at)))
    };
    let (cause, limit, period) = match error {
        ApiError::MissingApiKey => (RefusalCause::MissingKey, 0, None),
        ApiError::InvalidApiKey => (RefusalCause::InvalidKey, 0, None),
        ApiError::ApiKeyRevoked => (RefusalCause::KeyRevoked, 0, None),
        ApiError::ApiKeyExpired => (RefusalCause::KeyExpired, 0, None),
        ApiError::AccountSuspended { .. } => (RefusalCause::AccountSuspended, 0, None),
        ApiError::InsufficientScope => (RefusalCause::InsufficientScope, 0, None),
        ApiError::AddressNotAllowed => (RefusalCause::AddressNotAllowed, 0, None),
        ApiError::OverLimit(decision, _) => match decision.outcome {
            Outcome::Admitted => return None,
            Outcome::RateLimited => of_window(RefusalCause::MinuteLimit, decision.minute, MINUTE),
            Outcome::QuotaExceeded => of_window(RefusalCause::DayLimit, decision.day, DAY),
        },
        ApiError::Banned(decision, cause) => {
            let cause = match cause {
                BanCause::Operator(_) => RefusalCause::OperatorBan,
                BanCause::IgnoredRefusals => RefusalCause::LimiterBan,
            };
            (cause, 0, decision.ban.map(|ban| (ban.from, ban.until)))
        }
        _ => return None,
    };
    Some(Refusal {
        cause: cause.into(),
        limit,
        since_ms: period.map(|(since, _)| since.as_i64()),
        until_ms: period.map(|(_, until)| until.as_i64()),
        ..Refusal::default()
    })
}

#[cfg(test)]
mod tests;
