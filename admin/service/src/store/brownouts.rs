//! Changes of the calendar of brownouts.

use std::time::Duration;

use petstore_clock::UnixMillis;
use petstore_core::accounts::{
    AccountName,
    store::brownouts::{self, Brownout},
};

use super::{AdminStore, audit};
use crate::{
    domain::{Actor, Audited, Change},
    error::Result,
};

impl AdminStore {
    /// Plans a brownout, from a time and for a length, for one account or for all.
    ///
    /// # Errors
    ///
    /// See [`brownouts::plan`].
    pub(crate) async fn plan_brownout(
        &self,
        actor: &Actor,
        account: Option<AccountName>,
        period: (UnixMillis, Duration),
        now: UnixMillis,
    ) -> Result<Brownout> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let planned = brownouts::plan(change.session, account.as_ref(), period, now).await?;
                change.record("CreateBrownout", None, &planned).await?;
                Ok(planned)
            })
        })
        .await
    }

    /// Cancels a brownout, unless it has ended or does not exist.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub(crate) async fn cancel_brownout(&self, actor: &Actor, id: i64, now: UnixMillis) -> Result<()> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let Some(cancelled) = brownouts::cancel(change.session, id, now).await? else {
                    return Ok(());
                };
                let (subject, before) = (cancelled.subject(), Some(cancelled.json()));
                let cancellation = Change { action: "CancelBrownout", subject, before, after: None };
                Ok(audit::record(change.session, &change.actor, now, cancellation).await?)
            })
        })
        .await
    }
}
