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
    grpc::{CallResult, limits::LIMITS, methods::all_of_gateways},
};

#[async_trait]
impl KeyService for Core {
    async fn resolve_keys(
        &self,
        request: Request<ResolveKeysRequest>,
    ) -> Result<Response<ResolveKeysResponse>> {
        self.answer(RESOLVE_KEYS, request, |request| resolve(self, request)).await
    }

    async fn list_changes(
        &self,
        request: Request<ListChangesRequest>,
    ) -> Result<Response<ListChangesResponse>> {
        self.answer(LIST_CHANGES, request, |request| changes(self, request)).await
    }

    async fn report_use(&self, request: Request<ReportUseRequest>) -> Result<Response<ReportUseResponse>> {
        self.answer(REPORT_USE, request, |request| record_use(self, request)).await
    }

    async fn report_ban(&self, request: Request<ReportBanRequest>) -> Result<Response<ReportBanResponse>> {
        self.answer(REPORT_BAN, request, |request| record_ban(self, request)).await
    }
}

async fn resolve(core: &Core, request: ResolveKeysRequest) -> CallResult<ResolveKeysResponse> {
    let now = core.clock.now();
    if !request.key_id.is_empty() {
        return core.store.accounts.resolve_key(key_id("key_id", &request.key_id)?, now).await;
    }
    if !(1..=LIMITS.entries).contains(&request.digests.len()) {
        return Err(refuse("digests", "must be 1 to 1000"));
    }
    let digest = |bytes: Vec<u8>| bytes.try_into().map(KeyDigest);
    let digests = request.digests.into_iter().map(digest).collect::<std::result::Result<Vec<_>, _>>();
    let digests = digests.map_err(|_| refuse("digests", "must be 32 bytes long"))?;
    core.store.accounts.resolve_keys(&digests, core.environment, now).await
}

async fn changes(core: &Core, request: ListChangesRequest) -> CallResult<ListChangesResponse> {
    let now = core.clock.now();
    let changes = core.store.accounts.changes_after(request.after_revision, LIMITS.entries).await?;
    Ok(ListChangesResponse {
        brownouts: Some(core.store.accounts.brownout_calendar(changes.revision, now).await?),
        installation: core.installation().await?,
        methods: all_of_gateways().map(|method| method.path.to_owned()).collect(),
        now_ms: Some(core.clock.now().as_i64()),
        takes_no_writes: core.store.database().takes_no_writes(),
        ..changes
    })
}

async fn record_use(core: &Core, request: ReportUseRequest) -> CallResult<ReportUseResponse> {
    if request.uses.len() > LIMITS.entries {
        return Err(refuse("uses", "must be at most 1000"));
    }
    core.store.accounts.record_key_use(&key_uses(request.uses)?).await?;
    Ok(ReportUseResponse {})
}

async fn record_ban(core: &Core, request: ReportBanRequest) -> CallResult<ReportBanResponse> {
    let key_id = key_id("key_id", &request.key_id)?.to_string();
    let reported = reported_ban(request.ban)?;
    core.store.accounts.report_ban(&key_id, reported, core.clock.now()).await
}
