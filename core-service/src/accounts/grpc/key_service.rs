//! `petstore.internal.v1.KeyService`.

use petstore_caller::api_key::KeyDigest;
use petstore_proto::{
    internal::v1::{
        ListChangesRequest, ListChangesResponse, ReportBanRequest, ReportBanResponse, ReportUseRequest,
        ReportUseResponse, ResolveKeysRequest, ResolveKeysResponse, key_service_server::KeyService,
    },
    rpc::{LIST_CHANGES, REPORT_BAN, REPORT_USE, RESOLVE_KEYS},
};
use tonic::{Request, Response, Result, async_trait};

use super::{key_id, key_uses, refuse, reported_ban};
use crate::{
    Core,
    grpc::{MAX_ENTRIES, all_of_gateways},
};

#[async_trait]
impl KeyService for Core {
    async fn resolve_keys(
        &self,
        request: Request<ResolveKeysRequest>,
    ) -> Result<Response<ResolveKeysResponse>> {
        self.answer(RESOLVE_KEYS, request, |request| async move {
            let now = self.clock.now();
            if !request.key_id.is_empty() {
                return self.store.accounts.resolve_key(key_id("key_id", &request.key_id)?, now).await;
            }
            if !(1..=MAX_ENTRIES).contains(&request.digests.len()) {
                return Err(refuse("digests", "must be 1 to 1000"));
            }
            let digest = |bytes: Vec<u8>| bytes.try_into().map(KeyDigest);
            let digests = request.digests.into_iter().map(digest).collect::<std::result::Result<Vec<_>, _>>();
            let digests = digests.map_err(|_| refuse("digests", "must be 32 bytes long"))?;
            self.store.accounts.resolve_keys(&digests, self.environment, now).await
        })
        .await
    }

    async fn list_changes(
        &self,
        request: Request<ListChangesRequest>,
    ) -> Result<Response<ListChangesResponse>> {
        self.answer(LIST_CHANGES, request, |request| async move {
            let now = self.clock.now();
            let changes = self.store.accounts.changes_after(request.after_revision, MAX_ENTRIES).await?;
            Ok(ListChangesResponse {
                brownouts: Some(self.store.accounts.brownout_calendar(changes.revision, now).await?),
                installation: self.installation().await?,
                methods: all_of_gateways().map(|method| method.path.to_owned()).collect(),
                now_ms: Some(self.clock.now().as_i64()),
                takes_no_writes: self.store.database().takes_no_writes(),
                ..changes
            })
        })
        .await
    }

    async fn report_use(&self, request: Request<ReportUseRequest>) -> Result<Response<ReportUseResponse>> {
        self.answer(REPORT_USE, request, |request| async move {
            if request.uses.len() > MAX_ENTRIES {
                return Err(refuse("uses", "must be at most 1000"));
            }
            self.store.accounts.record_key_use(&key_uses(request.uses)?).await?;
            Ok(ReportUseResponse {})
        })
        .await
    }

    async fn report_ban(&self, request: Request<ReportBanRequest>) -> Result<Response<ReportBanResponse>> {
        self.answer(REPORT_BAN, request, |request| async move {
            let key_id = key_id("key_id", &request.key_id)?.to_string();
            let reported = reported_ban(request.ban)?;
            self.store.accounts.report_ban(&key_id, reported, self.clock.now()).await
        })
        .await
    }
}
