//! `petstore.internal.v1.KeyService`.

use petstore_api_key::KeyDigest;
use petstore_proto::internal::v1::{
    ListChangesRequest, ListChangesResponse, ReportBanRequest, ReportBanResponse, ReportUseRequest,
    ReportUseResponse, ResolveKeysRequest, ResolveKeysResponse, key_service_server::KeyService,
};
use tonic::{Request, Response, Status};

use super::{
    convert,
    methods::{LIST_CHANGES, Method, REPORT_BAN, REPORT_USE, RESOLVE_KEYS},
};
use crate::{
    Core,
    domain::{PetStoreError, Violation},
};

/// Maximum number of accounts in one answer.
const MAX_CHANGES: usize = 1_000;
/// Maximum number of keys in one request.
pub(super) const MAX_DIGESTS: usize = 1_000;
/// Maximum size of an answer about keys in bytes. One key takes at most 1.8 KiB: the reasons of a suspension
/// and of a ban have 200 characters each, and so up to 800 bytes.
pub(super) const MAX_ANSWER: usize = MAX_DIGESTS * 2 * 1024;
/// Maximum number of keys in one report.
const MAX_USES: usize = 1_000;

#[tonic::async_trait]
impl KeyService for Core {
    async fn resolve_keys(
        &self,
        request: Request<ResolveKeysRequest>,
    ) -> Result<Response<ResolveKeysResponse>, Status> {
        self.answer(&RESOLVE_KEYS, request, |request| async move {
            if !(1..=MAX_DIGESTS).contains(&request.digests.len()) {
                return Err(refuse("digests", "must be 1 to 1000"));
            }
            let digest = |bytes: Vec<u8>| bytes.try_into().map(KeyDigest);
            let digests = request.digests.into_iter().map(digest).collect::<Result<Vec<_>, _>>();
            let digests = digests.map_err(|_| refuse("digests", "must be 32 bytes long"))?;
            self.store.resolve_keys(&digests, self.environment, self.clock.now()).await
        })
        .await
    }

    async fn list_changes(
        &self,
        request: Request<ListChangesRequest>,
    ) -> Result<Response<ListChangesResponse>, Status> {
        self.answer(&LIST_CHANGES, request, |request| async move {
            Ok(ListChangesResponse {
                installation: self.installation().await?,
                methods: Method::all_of_gateways().map(|method| method.path.to_owned()).collect(),
                ..self.store.changes_after(request.after_revision, MAX_CHANGES).await?
            })
        })
        .await
    }

    async fn report_use(
        &self,
        request: Request<ReportUseRequest>,
    ) -> Result<Response<ReportUseResponse>, Status> {
        self.answer(&REPORT_USE, request, |request| async move {
            if request.uses.len() > MAX_USES {
                return Err(refuse("uses", "must be at most 1000"));
            }
            self.store.record_key_use(&convert::key_uses(request.uses)?).await?;
            Ok(ReportUseResponse {})
        })
        .await
    }

    async fn report_ban(
        &self,
        request: Request<ReportBanRequest>,
    ) -> Result<Response<ReportBanResponse>, Status> {
        self.answer(&REPORT_BAN, request, |request| async move {
            let key_id = convert::key_id("key_id", &request.key_id)?.to_string();
            let reported = convert::reported_ban(request.ban)?;
            self.store.report_ban(&key_id, reported, self.clock.now()).await
        })
        .await
    }
}

fn refuse(field: &'static str, rule: &'static str) -> PetStoreError {
    PetStoreError::InvalidParameter(Violation::new(field, rule).into())
}
