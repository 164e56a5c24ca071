//! Test double of the core's key service, to count its calls and to make it unavailable. It keeps the
//! contract of `key_service.proto`; the contract is also tested with the real core.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard},
};

use petstore_caller::api_key::ApiKey;
use petstore_core_client::CoreTransport;
use petstore_proto::internal::v1::{
    AccountChange, FoundKey, KeyState, KeyUse, ListChangesRequest, ListChangesResponse, Plan,
    ReportBanRequest, ReportBanResponse, ReportUseRequest, ReportUseResponse, ResolveKeysRequest,
    ResolveKeysResponse, ResolvedKey, key_service_server,
};
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tower::ServiceBuilder;

/// Methods that tests need their core to have.
pub(super) const METHODS: [&str; 2] =
    ["petstore.internal.v1.BatchService/Call", "petstore.internal.v1.KeyService/ResolveKeys"];

/// Core that a test controls. Clones are the same core.
#[derive(Clone)]
pub(super) struct CoreDouble {
    state: Arc<Mutex<CoreState>>,
    /// While `true`, answers about keys are ready but do not arrive.
    held: watch::Sender<bool>,
}

#[derive(Default)]
pub(super) struct CoreState {
    pub(super) keys: HashMap<Vec<u8>, ResolvedKey>,
    pub(super) revision: i64,
    pub(super) changes: BTreeMap<i64, i64>,
    pub(super) away: bool,
    pub(super) resolved: usize,
    pub(super) asked_for_changes: usize,
    /// Time by its clock, which older cores do not give.
    pub(super) now_ms: Option<i64>,
    pub(super) reports: Vec<Vec<KeyUse>>,
    pub(super) ban_reports: Vec<String>,
    /// Keys about which reports are refused.
    pub(super) refused: HashSet<String>,
    /// Methods that the core lacks.
    pub(super) lacks: HashSet<&'static str>,
    pub(super) takes_no_writes: bool,
}

impl CoreState {
    fn accept<'a>(&self, mut key_ids: impl Iterator<Item = &'a String>) -> Result<(), Status> {
        let is_refused = key_ids.any(|key_id| self.refused.contains(key_id));
        if is_refused { Err(Status::invalid_argument("refused")) } else { Ok(()) }
    }
}

impl CoreDouble {
    pub(super) fn new() -> Self {
        Self { state: Arc::default(), held: watch::Sender::new(false) }
    }

    pub(super) fn transport(&self) -> CoreTransport {
        let service = key_service_server::KeyServiceServer::new(self.clone());
        let service = ServiceBuilder::new().map_err(|never: Infallible| match never {}).service(service);
        CoreTransport::new(service)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, CoreState> {
        self.state.lock().unwrap()
    }

    /// Adds or changes a key of the account.
    pub(super) fn set(&self, key: &ApiKey, account_id: i64, change: impl FnOnce(&mut ResolvedKey)) {
        let mut state = self.state();
        state.revision += 1;
        let revision = state.revision;
        state.changes.insert(account_id, revision);
        change(state.keys.entry(key.digest().0.to_vec()).or_insert_with(|| ResolvedKey {
            key_id: format!("key-{revision}"), // of its first change
            account_id,
            state: KeyState::Active.into(),
            expires_at_ms: None,
            plan: Plan::Free.into(),
            per_minute: 60,
            per_day: 1_000,
            ..ResolvedKey::default()
        }));
    }

    pub(super) fn hold_answers(&self, held: bool) {
        self.held.send_replace(held);
    }

    pub(super) fn resolved(&self) -> usize {
        self.state().resolved
    }

    fn up(&self) -> Result<MutexGuard<'_, CoreState>, Status> {
        let state = self.state();
        if state.away { Err(Status::unavailable("away")) } else { Ok(state) }
    }
}

#[tonic::async_trait]
impl key_service_server::KeyService for CoreDouble {
    async fn resolve_keys(
        &self,
        request: Request<ResolveKeysRequest>,
    ) -> Result<Response<ResolveKeysResponse>, Status> {
        let answer = {
            let mut state = self.up()?;
            state.resolved += 1;
            let found = request.into_inner().digests.into_iter().filter_map(|digest| {
                let key = Some(state.keys.get(&digest)?.clone());
                Some(FoundKey { digest, key })
            });
            ResolveKeysResponse { keys: found.collect(), revision: state.revision, now_ms: state.now_ms }
        };
        let mut held = self.held.subscribe();
        held.wait_for(|held| !held).await.expect("the sender lives in self");
        Ok(Response::new(answer))
    }

    async fn list_changes(
        &self,
        request: Request<ListChangesRequest>,
    ) -> Result<Response<ListChangesResponse>, Status> {
        let mut state = self.up()?;
        state.asked_for_changes += 1;
        let after = request.into_inner().after_revision;
        let changes = state.changes.iter().filter(|(_, revision)| **revision > after);
        let changes =
            changes.map(|(&account_id, &revision)| AccountChange { account_id, revision }).collect();
        let revision = state.revision;
        let methods = METHODS.iter().filter(|method| !state.lacks.contains(**method));
        let methods = methods.map(|method| (*method).to_owned()).collect();
        Ok(Response::new(ListChangesResponse {
            revision,
            changes,
            methods,
            now_ms: state.now_ms,
            takes_no_writes: state.takes_no_writes,
            ..ListChangesResponse::default()
        }))
    }

    async fn report_use(
        &self,
        request: Request<ReportUseRequest>,
    ) -> Result<Response<ReportUseResponse>, Status> {
        let mut state = self.up()?;
        let uses = request.into_inner().uses;
        state.accept(uses.iter().map(|used| &used.key_id))?;
        state.reports.push(uses);
        Ok(Response::new(ReportUseResponse {}))
    }

    async fn report_ban(
        &self,
        request: Request<ReportBanRequest>,
    ) -> Result<Response<ReportBanResponse>, Status> {
        let mut state = self.up()?;
        let ReportBanRequest { key_id, ban } = request.into_inner();
        state.ban_reports.push(key_id.clone());
        state.accept(std::iter::once(&key_id))?;
        state.revision += 1;
        for key in state.keys.values_mut().filter(|key| key.key_id == key_id) {
            key.last_ban.clone_from(&ban);
        }
        let revision = state.revision;
        Ok(Response::new(ReportBanResponse { last_ban: ban, revision, bans_lifted_at_ms: None }))
    }
}
