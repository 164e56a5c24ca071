//! Handover of a rotated key: how far its clients have moved to the key that replaces it.

use std::time::Duration;

use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{ApiKeyRecord, KeyState, Minute, store::MinutesOf},
    errors::PetStoreError,
};
use petstore_proto::admin::v1::{GetKeyHandoverRequest, GetKeyHandoverResponse, HandoverState};

use super::{caller::Call, convert, keys};
use crate::error::Result;

/// Time without a request after which a key counts as abandoned. A client that works once a day is seen in
/// it.
const SILENCE: Duration = Duration::from_hours(24);

pub(super) async fn get(call: Call, request: GetKeyHandoverRequest) -> Result<GetKeyHandoverResponse> {
    let key = call.accounts().find_key(convert::key_id(&request.key_id)?).await?;
    let (old, new) = match (call.accounts().successor_of(key.id).await?, key.replaces) {
        (Some(new), _) => (key, new),
        (None, Some(old)) => (call.accounts().find_key(old).await?, key),
        (None, None) => {
            let sentence = format!("key {} neither replaces a key nor was replaced", key.id);
            let state = HandoverState::NotRotated.into();
            return Ok(GetKeyHandoverResponse { state, sentence, ..GetKeyHandoverResponse::default() });
        }
    };
    let progress =
        Progress { old: Use::of(&call, &old).await?, new: Use::of(&call, &new).await?, now: call.now };
    let (state, sentence) = progress.judged();
    let (old_requests, new_requests) = (progress.old.last_hour, progress.new.last_hour);
    let first_use = progress.new.first;
    let mut shown = keys::with_bans(&call, &[old, new]).await?.into_iter();
    Ok(GetKeyHandoverResponse {
        state: state.into(),
        old_key: shown.next(),
        new_key: shown.next(),
        new_first_use_time: first_use.map(|(from, _)| from.to_timestamp()),
        old_requests,
        new_requests,
        sentence,
    })
}

/// Use of one key.
struct Use {
    state: KeyState,
    /// Begin and end of the first minute of use, or of its part since the key's creation, if the key is not
    /// older than the minutes that are stored.
    first: Option<(UnixMillis, UnixMillis)>,
    last: Option<UnixMillis>,
    /// Number of requests in the last 60 minutes.
    last_hour: i64,
}

impl Use {
    async fn of(call: &Call, key: &ApiKeyRecord) -> Result<Self, PetStoreError> {
        let of = MinutesOf { account: Some(key.account_id), key_id: Some(key.id), by_key: false };
        let this_minute = Minute::containing(call.now);
        let since = this_minute.minus(Minute::PER_DAY - 1);
        let minutes = call.accounts().usage_by_minute(of, since, Minute::PER_DAY.unsigned_abs()).await?;
        let in_last_hour = minutes.iter().filter(|it| it.minute > this_minute.minus(60));
        let is_young = Minute::containing(key.created_at) >= since;
        let first = minutes.first().filter(|_| is_young).map(|it| it.minute.start());
        let last_minute = minutes.last().map(|it| it.minute.start());
        Ok(Self {
            state: key.state(call.now),
            first: first
                .map(|start| (start.max(key.created_at), start.plus(Duration::from_mins(1)).min(call.now))),
            last: key.last_used_at.max(last_minute),
            // The calls of getPet, the last number, are among the others.
            last_hour: in_last_hour.flat_map(|it| &it.counts[..4]).sum(),
        })
    }
}

/// Use of both keys of a rotation at a time.
struct Progress {
    old: Use,
    new: Use,
    now: UnixMillis,
}

impl Progress {
    /// Returns the state of the handover, and a sentence about it.
    fn judged(&self) -> (HandoverState, String) {
        let Self { old, new, .. } = self;
        let uses = format!("{}, {}", self.new_use(), self.old_use());
        if old.state != KeyState::Active {
            return (HandoverState::Ended, format!("{uses}: the old key is {} already", old.state));
        }
        let last_silent = old.last.filter(|last| self.now.since(*last) < SILENCE);
        let obstacle = if new.state != KeyState::Active {
            Some(format!("the new key is {}", new.state))
        } else if new.last.is_none() {
            Some("no client has the new key".to_owned())
        } else {
            last_silent.map(|last| format!("safe if it stays unused until {}", last.plus(SILENCE)))
        };
        match obstacle {
            Some(obstacle) => {
                (HandoverState::NotYetSafe, format!("{uses}: not yet safe to revoke, {obstacle}"))
            }
            None => (HandoverState::Safe, format!("{uses}: safe to revoke")),
        }
    }

    fn new_use(&self) -> String {
        match (self.new.first, self.new.last) {
            (Some((from, until)), _) => format!("new key first used between {from} and {until}"),
            (None, Some(last)) => format!("new key last used {}", self.ago(last)),
            (None, None) => "new key never used".to_owned(),
        }
    }

    fn old_use(&self) -> String {
        let Some(last) = self.old.last else { return "old key never used".to_owned() };
        let all = self.old.last_hour + self.new.last_hour;
        // Rounded up, so that a few requests are not 0 %.
        let share = (self.old.last_hour * 100 + all - 1).checked_div(all).unwrap_or_default();
        format!("old key last used {} ({share} % of requests in the last hour)", self.ago(last))
    }

    /// Returns a past time for people, in whole units.
    fn ago(&self, time: UnixMillis) -> String {
        let seconds = self.now.since(time).as_secs();
        let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
        let (length, unit) = units.into_iter().find(|(length, _)| seconds >= *length).unwrap_or((1, "s"));
        format!("{} {unit} ago", seconds / length)
    }
}
