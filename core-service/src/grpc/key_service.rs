//! `petstore.internal.v1.KeyService`.

use petstore_api_key::KeyDigest;
use petstore_proto::internal::v1::{
    ListChangesRequest, ListChangesResponse, ReportBanRequest, ReportBanResponse, ReportUseRequest,
    ReportUseResponse, ResolveKeysRequest, ResolveKeysResponse, key_service_server::KeyService,
};

use super::{
    call::{Result, service},
    convert::{self, refuse},
    limits::LIMITS,
    methods::all_of_gateways,
};
use crate::Core;

service! {
    KeyService {
        resolve_keys RESOLVE_KEYS ResolveKeysRequest ResolveKeysResponse resolve;
        list_changes LIST_CHANGES ListChangesRequest ListChangesResponse changes;
        report_use REPORT_USE ReportUseRequest ReportUseResponse record_use;
        report_ban REPORT_BAN ReportBanRequest ReportBanResponse record_ban;
    }
}

async fn resolve(core: &Core, request: ResolveKeysRequest) -> Result<ResolveKeysResponse> {
    let now = core.clock.now();
    if !request.key_id.is_empty() {
        return core.store.resolve_key(convert::key_id("key_id", &request.key_id)?, now).await;
    }
    if !(1..=LIMITS.entries).contains(&request.digests.len()) {
        return Err(refuse("digests", "must be 1 to 1000"));
    }
    let digest = |bytes: Vec<u8>| bytes.try_into().map(KeyDigest);
    let digests = request.digests.into_iter().map(digest).collect::<Result<Vec<_>, _>>();
    let digests = digests.map_err(|_| refuse("digests", "must be 32 bytes long"))?;
    core.store.resolve_keys(&digests, core.environment, now).await
}

async fn changes(core: &Core, request: ListChangesRequest) -> Result<ListChangesResponse> {
    Ok(ListChangesResponse {
        installation: core.installation().await?,
        methods: all_of_gateways().map(|method| method.path.to_owned()).collect(),
        now_ms: Some(core.clock.now().as_i64()),
        takes_no_writes: core.store.database().takes_no_writes(),
        ..core.store.changes_after(request.after_revision, LIMITS.entries).await?
    })
}

async fn record_use(core: &Core, request: ReportUseRequest) -> Result<ReportUseResponse> {
    if request.uses.len() > LIMITS.entries {
        return Err(refuse("uses", "must be at most 1000"));
    }
    core.store.record_key_use(&convert::key_uses(request.uses)?).await?;
    Ok(ReportUseResponse {})
}

async fn record_ban(core: &Core, request: ReportBanRequest) -> Result<ReportBanResponse> {
    let key_id = convert::key_id("key_id", &request.key_id)?.to_string();
    let reported = convert::reported_ban(request.ban)?;
    core.store.report_ban(&key_id, reported, core.clock.now()).await
}
