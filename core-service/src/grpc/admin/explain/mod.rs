//! Why requests are refused, or were: from what gateways reported of the last 24 hours, and from what is
//! known of the account, its keys, their bans and its usage.

mod recorded;
mod state;

use std::cmp::Reverse;

use petstore_clock::UnixMillis;
use petstore_proto::admin::v1::{self as pb, explain_refusal_request::Subject};

use self::recorded::{Group, groups};
use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{
        Account, AccountId, ApiKeyRecord, Ban, Day, KeyId, PetStoreError, Refusal, RefusalCause, Violation,
    },
    store::REFUSALS_KEPT,
};

/// How many explanations are told.
const MAX_EXPLANATIONS: usize = 20;

/// Whose requests they are, and what is known of them now.
#[derive(Debug)]
struct Known {
    account: Account,
    keys: Vec<ApiKeyRecord>,
    /// Those in force.
    bans: Vec<(KeyId, Ban)>,
    now: UnixMillis,
}

impl Known {
    async fn read(
        core: &Core,
        account: Account,
        keys: Vec<ApiKeyRecord>,
        now: UnixMillis,
    ) -> Result<Self, PetStoreError> {
        let ids: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
        let bans = core.store.bans().in_force(&ids, now).await?;
        Ok(Self { account, keys, bans, now })
    }

    fn key(&self, id: KeyId) -> Option<&ApiKeyRecord> {
        self.keys.iter().find(|key| key.id == id)
    }

    fn ban(&self, id: KeyId) -> Option<&Ban> {
        self.bans.iter().find(|(key_id, _)| *key_id == id).map(|(_, ban)| ban)
    }
}

pub(super) async fn explain(
    core: &Core,
    caller: Caller,
    request: pb::ExplainRefusalRequest,
) -> Result<pb::ExplainRefusalResponse, PetStoreError> {
    let now = caller.now;
    let mut explanations = match request.subject {
        None => {
            return Err(convert::refused(Violation::new("account", "is required, or key_id or request_id")));
        }
        Some(Subject::RequestId(id)) => of_request(core, &id, now).await?,
        Some(Subject::Account(name)) => {
            let name = convert::account_name(&name)?;
            let account = core.store.accounts().find(&name).await?;
            let keys = core.store.keys().list(Some(&name)).await?;
            let refusals = core.store.refusals().of_account(account.id, now.minus(REFUSALS_KEPT)).await?;
            let known = Known::read(core, account, keys, now).await?;
            of_account(core, &known, &refusals, now.minus(REFUSALS_KEPT)).await?
        }
        Some(Subject::KeyId(id)) => {
            let key = core.store.keys().find(convert::key_id(&id)?).await?;
            let account = core.store.accounts().find(&key.account).await?;
            let refusals = core.store.refusals().of_account(account.id, now.minus(REFUSALS_KEPT)).await?;
            let refusals: Vec<_> = refusals.into_iter().filter(|it| it.key_id == Some(key.id)).collect();
            let known = Known::read(core, account, vec![key], now).await?;
            // Of a key that is asked about its end is told, however long ago that was.
            of_account(core, &known, &refusals, UnixMillis(0)).await?
        }
    };
    let begin = |it: &pb::RefusalExplanation| it.start_time.map_or(0, |time| time.seconds);
    explanations.sort_by_key(|it| (!it.in_force, Reverse(begin(it))));
    explanations.truncate(MAX_EXPLANATIONS);
    Ok(pb::ExplainRefusalResponse { explanations })
}

/// What refuses the account's requests now, and what refused those. Keys that ended before `recent` are told
/// only if they were used since.
async fn of_account(
    core: &Core,
    known: &Known,
    refusals: &[Refusal],
    recent: UnixMillis,
) -> Result<Vec<pb::RefusalExplanation>, PetStoreError> {
    let groups = groups(refusals);
    let mut explanations: Vec<_> = state::of_suspension(&known.account).into_iter().collect();
    for key in &known.keys {
        let was_used = groups.iter().any(|group| group.is_end_of(key.id));
        let recent = if was_used { UnixMillis(0) } else { recent };
        explanations.extend(state::of_end(key, known.now, recent));
        explanations.extend(known.ban(key.id).map(|ban| state::of_ban(key, ban)));
    }
    for group in &groups {
        let is_told = |told: &&mut pb::RefusalExplanation| {
            told.cause == group.cause.number()
                && told.key_id == group.key_id.map(|id| id.to_string()).unwrap_or_default()
                && group.newest.since.is_none_or(|since| told.start_time == Some(convert::timestamp(since)))
        };
        match explanations.iter_mut().find(is_told) {
            Some(told) => group.count_in(told),
            None => explanations.push(group.explain(Some(known), known.now)),
        }
    }
    let today = core.store.usage().by_day(Some(known.account.id), Day::containing(known.now)).await?.pop();
    if let Some(today) = today {
        let is_of_today = |group: &Group<'_>| group.newest.until.is_some_and(|until| until > known.now);
        let has_day = groups.iter().any(|it| it.cause == RefusalCause::DayLimit && is_of_today(it));
        // What gateways did not report is told by what was counted.
        let inferred = state::of_limits(&known.account, today, !known.bans.is_empty() || !groups.is_empty());
        explanations.extend(inferred.filter(|_| !has_day));
    }
    for explanation in &mut explanations {
        explanation.account = known.account.name.to_string();
    }
    Ok(explanations)
}

/// Why requests of that name were refused: clients may use a name again.
async fn of_request(
    core: &Core,
    request_id: &str,
    now: UnixMillis,
) -> Result<Vec<pb::RefusalExplanation>, PetStoreError> {
    let mut explanations = Vec::new();
    for refusal in core.store.refusals().of_request(request_id).await? {
        let (known, same) = match refusal.account {
            Some(account) => whose(core, account, &refusal, now).await?,
            None => (None, Vec::new()),
        };
        let mut explanation = Group::of_request(&refusal).explain(known.as_ref(), now);
        if let Some(group) = groups(&same).first() {
            group.count_in(&mut explanation);
        }
        explanation.account = known.map(|known| known.account.name.to_string()).unwrap_or_default();
        explanations.push(explanation);
    }
    Ok(explanations)
}

/// What is known of the account of a refusal, and what was refused in the same window or by the same ban.
async fn whose(
    core: &Core,
    account: AccountId,
    refusal: &Refusal,
    now: UnixMillis,
) -> Result<(Option<Known>, Vec<Refusal>), PetStoreError> {
    let account = match core.store.accounts().find_by_id(account).await {
        Ok(account) => account,
        Err(PetStoreError::AccountIdNotFound(_)) => return Ok((None, Vec::new())),
        Err(error) => return Err(error),
    };
    let mut same = core.store.refusals().of_account(account.id, now.minus(REFUSALS_KEPT)).await?;
    same.retain(|other| {
        (other.cause, other.key_id, other.until) == (refusal.cause, refusal.key_id, refusal.until)
    });
    let key = match refusal.key_id {
        Some(id) => core.store.keys().find(id).await.ok(),
        None => None,
    };
    Ok((Some(Known::read(core, account, key.into_iter().collect(), now).await?), same))
}

/// The reason as the end of a sentence.
fn because(reason: Option<&crate::domain::StatedReason>) -> String {
    reason.map(|reason| format!(": {}", reason.as_str())).unwrap_or_default()
}
