//! `petstore.admin.v1.AdminService`: one file for each kind of resource.

use std::sync::Arc;

use petstore_core::{
    Core,
    server::{self, of_operators},
};
use petstore_grpc_server::Method;
use petstore_proto::admin::v1::{
    self as pb,
    admin_service_server::{AdminService, AdminServiceServer},
};
use tonic::{Request, Response, Status, service::Routes};
use tower::util::MapRequestLayer;

use crate::{domain::Role, store::AdminStore};

mod accounts;
mod caller;
mod convert;
mod explain;
mod keys;
mod operators;
mod usage;

use caller::{Guesses, LocalOperator};

/// The administration of a core, as a service. Clones share everything.
#[derive(Clone)]
pub struct Administration {
    core: Core,
    store: AdminStore,
    guesses: Arc<Guesses>,
}

impl Administration {
    /// Returns the administration of this core.
    pub fn new(core: Core) -> Self {
        let guesses = Arc::new(Guesses::new(core.clock.clone()));
        Self { store: AdminStore::new(&core.store), core, guesses }
    }

    /// Returns the services of the core, and that of its operators.
    pub fn services(&self) -> Routes {
        const MAX_MESSAGE: usize = of_operators("").max_message;
        let service = AdminServiceServer::new(self.clone());
        let service = service.max_decoding_message_size(MAX_MESSAGE).max_encoding_message_size(MAX_MESSAGE);
        server::services(&self.core).add_service(service)
    }

    /// Returns these services for a program that has the store itself, and so needs no token: its calls are
    /// those of the operator `local`. It must not forward calls of others.
    pub fn services_as_local_operator(&self) -> Routes {
        self.services().into_axum_router().layer(MapRequestLayer::new(mark_as_local_operator)).into()
    }
}

fn mark_as_local_operator<B>(mut request: http::Request<B>) -> http::Request<B> {
    request.extensions_mut().insert(LocalOperator);
    request
}

/// Defines each method by its path, the role that it needs, and the function that does its work.
macro_rules! methods {
    ($($method:ident $rpc:literal $role:ident $request:ident $response:ident $work:path;)*) => {
        #[tonic::async_trait]
        impl AdminService for Administration {
            $(
                async fn $method(
                    &self,
                    request: Request<pb::$request>,
                ) -> Result<Response<pb::$response>, Status> {
                    static METHOD: Method =
                        of_operators(concat!("petstore.admin.v1.AdminService/", $rpc));
                    self.administer(&METHOD, Role::$role, request, $work).await
                }
            )*
        }
    };
}

methods! {
    create_account "CreateAccount" Admin CreateAccountRequest CreateAccountResponse accounts::create;
    get_account "GetAccount" Viewer GetAccountRequest GetAccountResponse accounts::get;
    list_accounts "ListAccounts" Viewer ListAccountsRequest ListAccountsResponse accounts::list;
    update_account "UpdateAccount" Admin UpdateAccountRequest UpdateAccountResponse accounts::update;
    suspend_account "SuspendAccount" Admin SuspendAccountRequest SuspendAccountResponse accounts::suspend;
    resume_account "ResumeAccount" Admin ResumeAccountRequest ResumeAccountResponse accounts::resume;
    create_key "CreateKey" Admin CreateKeyRequest CreateKeyResponse keys::create;
    get_key "GetKey" Viewer GetKeyRequest GetKeyResponse keys::get;
    list_keys "ListKeys" Viewer ListKeysRequest ListKeysResponse keys::list;
    find_keys "FindKeys" Viewer FindKeysRequest FindKeysResponse keys::find;
    get_key_handover "GetKeyHandover" Viewer GetKeyHandoverRequest GetKeyHandoverResponse
        keys::get_key_handover;
    rotate_key "RotateKey" Admin RotateKeyRequest RotateKeyResponse keys::rotate;
    revoke_key "RevokeKey" Admin RevokeKeyRequest RevokeKeyResponse keys::revoke;
    create_ban "CreateBan" Admin CreateBanRequest CreateBanResponse keys::ban;
    lift_ban "LiftBan" Admin LiftBanRequest LiftBanResponse keys::lift_ban;
    list_bans "ListBans" Viewer ListBansRequest ListBansResponse keys::bans;
    get_usage "GetUsage" Viewer GetUsageRequest GetUsageResponse usage::get_usage;
    list_account_usage "ListAccountUsage" Viewer ListAccountUsageRequest ListAccountUsageResponse
        usage::list_account_usage;
    get_overview "GetOverview" Viewer GetOverviewRequest GetOverviewResponse usage::get_overview;
    list_deprecated_use "ListDeprecatedUse" Viewer ListDeprecatedUseRequest ListDeprecatedUseResponse
        usage::list_deprecated_use;
    create_brownout "CreateBrownout" Admin CreateBrownoutRequest CreateBrownoutResponse
        usage::create_brownout;
    cancel_brownout "CancelBrownout" Admin CancelBrownoutRequest CancelBrownoutResponse
        usage::cancel_brownout;
    list_brownouts "ListBrownouts" Viewer ListBrownoutsRequest ListBrownoutsResponse usage::list_brownouts;
    explain_refusal "ExplainRefusal" Viewer ExplainRefusalRequest ExplainRefusalResponse
        explain::explain_refusal;
    list_audit_events "ListAuditEvents" Viewer ListAuditEventsRequest ListAuditEventsResponse
        operators::events;
    create_session "CreateSession" Viewer CreateSessionRequest CreateSessionResponse operators::open_session;
    end_session "EndSession" Viewer EndSessionRequest EndSessionResponse operators::end_session;
    list_sessions "ListSessions" Viewer ListSessionsRequest ListSessionsResponse operators::sessions;
    revoke_session "RevokeSession" Admin RevokeSessionRequest RevokeSessionResponse operators::revoke_session;
    record_log_level "RecordLogLevel" Admin RecordLogLevelRequest RecordLogLevelResponse
        operators::record_log_level;
    get_current_operator "GetCurrentOperator" Viewer GetCurrentOperatorRequest GetCurrentOperatorResponse
        operators::current;
    create_operator "CreateOperator" Admin CreateOperatorRequest CreateOperatorResponse operators::create;
    list_operators "ListOperators" Viewer ListOperatorsRequest ListOperatorsResponse operators::list;
    rotate_operator "RotateOperator" Admin RotateOperatorRequest RotateOperatorResponse operators::rotate;
    revoke_operator "RevokeOperator" Admin RevokeOperatorRequest RevokeOperatorResponse operators::revoke;
}

#[cfg(test)]
pub(crate) mod tests;
