//! `petstore.internal.v1.KeyService`.

use petstore_caller::api_key::KeyDigest;
use petstore_proto::internal::v1::{
    ListChangesRequest, ListChangesResponse, ReportBanRequest, ReportBanResponse, ReportUseRequest,
    ReportUseResponse, ResolveKeysRequest, ResolveKeysResponse, key_service_server::KeyService,
};

use super::convert::{self, refuse};
use crate::{
    Core,
    grpc::{
        call::{CallResult, service},
        limits::LIMITS,
        methods::all_of_gateways,
    },
};

service! {
    KeyService {
        resolve_keys RESOLVE_KEYS ResolveKeysRequest ResolveKeysResponse resolve;
        list_changes LIST_CHANGES ListChangesRequest ListChangesResponse changes;
        report_use REPORT_USE ReportUseRequest ReportUseResponse record_use;
        report_ban REPORT_BAN ReportBanRequest ReportBanResponse record_ban;
    }
}

async fn resolve(core: &Core, request: ResolveKeysRequest) -> CallResult<ResolveKeysResponse> {
    let now = core.clock.now();
    if !request.key_id.is_empty() {
        return core.store.accounts.resolve_key(convert::key_id("key_id", &request.key_id)?, now).await;
    }
    if !(1..=LIMITS.entries).contains(&request.digests.len()) {
        return Err(refuse("digests", "must be 1 to 1000"));
    }
    let digest = |bytes: Vec<u8>| bytes.try_into().map(KeyDigest);
    let digests = request.digests.into_iter().map(digest).collect::<Result<Vec<_>, _>>();
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
    core.store.accounts.record_key_use(&convert::key_uses(request.uses)?).await?;
    Ok(ReportUseResponse {})
}

async fn record_ban(core: &Core, request: ReportBanRequest) -> CallResult<ReportBanResponse> {
    let key_id = convert::key_id("key_id", &request.key_id)?.to_string();
    let reported = convert::reported_ban(request.ban)?;
    core.store.accounts.report_ban(&key_id, reported, core.clock.now()).await
}
