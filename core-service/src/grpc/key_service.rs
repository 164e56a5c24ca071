//! `petstore.internal.v1.KeyService`.

use petstore_api_key::KeyDigest;
use petstore_proto::internal::v1::{
    AccountChange, FoundKey, ListChangesRequest, ListChangesResponse, ReportBanRequest, ReportBanResponse,
    ReportUseRequest, ReportUseResponse, ResolveKeyRequest, ResolveKeyResponse, ResolveKeysRequest,
    ResolveKeysResponse, key_service_server::KeyService,
};
use tonic::{Request, Response, Status};

use super::convert;
use crate::{
    Core,
    domain::{PetStoreError, Violation},
};

/// How many accounts one answer lists.
const MAX_CHANGES: usize = 1_000;
/// How many keys one question may be about.
const MAX_DIGESTS: usize = 1_000;
/// How many keys one report may be about.
const MAX_USES: usize = 1_000;

#[tonic::async_trait]
impl KeyService for Core {
    async fn resolve_key(
        &self,
        request: Request<ResolveKeyRequest>,
    ) -> Result<Response<ResolveKeyResponse>, Status> {
        self.answer("petstore.internal.v1.KeyService/ResolveKey", request, |request| async move {
            let digest = digest("digest", request.digest)?;
            let (key, revision) = self.store.keys().resolve(digest, self.environment).await?;
            let now = self.clock.now();
            Ok(ResolveKeyResponse { key: key.map(|key| convert::resolved_key(key, now)), revision })
        })
        .await
    }

    async fn resolve_keys(
        &self,
        request: Request<ResolveKeysRequest>,
    ) -> Result<Response<ResolveKeysResponse>, Status> {
        self.answer("petstore.internal.v1.KeyService/ResolveKeys", request, |request| async move {
            if !(1..=MAX_DIGESTS).contains(&request.digests.len()) {
                return Err(refuse("digests", "must be 1 to 1000"));
            }
            let digests = request.digests.into_iter().map(|bytes| digest("digests", bytes));
            let digests = digests.collect::<Result<Vec<_>, _>>()?;
            let (found, revision) = self.store.keys().resolve_all(&digests, self.environment).await?;
            let now = self.clock.now();
            let found = found.into_iter().map(|(digest, key)| FoundKey {
                digest: digest.0.to_vec(),
                key: Some(convert::resolved_key(key, now)),
            });
            Ok(ResolveKeysResponse { keys: found.collect(), revision })
        })
        .await
    }

    async fn list_changes(
        &self,
        request: Request<ListChangesRequest>,
    ) -> Result<Response<ListChangesResponse>, Status> {
        self.answer("petstore.internal.v1.KeyService/ListChanges", request, |request| async move {
            let changes = self.store.changes().after(request.after_revision, MAX_CHANGES).await?;
            let change = |(account, revision): (crate::domain::AccountId, i64)| AccountChange {
                account_id: account.0,
                revision,
            };
            Ok(ListChangesResponse {
                revision: changes.revision,
                changes: changes.accounts.into_iter().map(change).collect(),
                truncated: changes.truncated,
                installation: self.installation().await?,
            })
        })
        .await
    }

    async fn report_use(
        &self,
        request: Request<ReportUseRequest>,
    ) -> Result<Response<ReportUseResponse>, Status> {
        self.answer("petstore.internal.v1.KeyService/ReportUse", request, |request| async move {
            if request.uses.len() > MAX_USES {
                return Err(refuse("uses", "must be at most 1000"));
            }
            self.store.keys().record_use(&convert::key_uses(request.uses)?).await?;
            Ok(ReportUseResponse {})
        })
        .await
    }

    async fn report_ban(
        &self,
        request: Request<ReportBanRequest>,
    ) -> Result<Response<ReportBanResponse>, Status> {
        self.answer("petstore.internal.v1.KeyService/ReportBan", request, |request| async move {
            let key_id = convert::key_id("key_id", &request.key_id)?.to_string();
            let reported = convert::reported_ban(request.ban)?;
            let now = self.clock.now();
            let (kept, revision) = self.store.bans().report(&key_id, reported, now).await?;
            Ok(convert::reported(kept.as_ref(), revision, now))
        })
        .await
    }
}

fn digest(field: &'static str, bytes: Vec<u8>) -> Result<KeyDigest, PetStoreError> {
    bytes.try_into().map(KeyDigest).map_err(|_| refuse(field, "must be 32 bytes long"))
}

fn refuse(field: &'static str, rule: &'static str) -> PetStoreError {
    PetStoreError::InvalidParameter(Violation::new(field, rule).into())
}
