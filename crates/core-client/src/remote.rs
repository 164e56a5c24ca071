//! The services of a core that gateways call, and a core across a network that has them.

use std::sync::Arc;

use http::HeaderName;
use petstore_caller::call::{CallContext, X_REQUEST_ID};
use petstore_proto::{
    internal::v1::{
        Call, GetUsageRequest, GetUsageResponse, ReportUsageRequest, ReportUsageResponse, call,
        usage_service_client::UsageServiceClient, usage_service_server::UsageService,
    },
    rpc::{ADVANCE_ORDER, CREATE_PET, GET_ORDER, GET_PET, LIST_ORDERS, LIST_PETS, PLACE_ORDER, Rpc},
    v1::{
        AdvanceOrderRequest, AdvanceOrderResponse, BatchCreatePetsRequest, BatchCreatePetsResponse,
        CreatePetRequest, CreatePetResponse, GetOrderRequest, GetOrderResponse, GetPetRequest,
        GetPetResponse, ImportPetsRequest, ImportPetsResponse, ListOrdersRequest, ListOrdersResponse,
        ListPetsRequest, ListPetsResponse, PlaceOrderRequest, PlaceOrderResponse, pet_store_server::PetStore,
        store_service_server::StoreService,
    },
};
use prost::Message;
use tokio::time::Instant;
use tonic::{Request, Response, Result, Status, Streaming, async_trait, metadata::MetadataMap};

use super::{
    batch::CallQueue,
    breaker::CoreBreaker,
    traced::TracedTransport,
    transport::{NamedTransport, lost_or_answered},
};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The services of a core that are called on behalf of accounts. Two types implement their traits: `Core`, in
/// this process, in `core-service/src/pets/grpc.rs` and its namesakes; and `RemoteCore`, across a network.
#[derive(Clone)]
pub struct CoreServices {
    /// Pets.
    pub pets: Arc<dyn PetStore>,
    /// Orders.
    pub orders: Arc<dyn StoreService>,
    /// Usage.
    pub usage: Arc<dyn UsageService>,
}

impl<C: PetStore + StoreService + UsageService> From<Arc<C>> for CoreServices {
    fn from(core: Arc<C>) -> Self {
        Self { pets: Arc::clone(&core) as _, orders: Arc::clone(&core) as _, usage: core }
    }
}

/// The services of a core, over its transport: calls of clients in batches, those of the gateway alone. Those
/// that gateways do not make answer UNIMPLEMENTED.
pub(super) struct RemoteCore {
    batches: Arc<CallQueue>,
    usage: UsageServiceClient<NamedTransport>,
    breaker: Arc<CoreBreaker>,
}

impl RemoteCore {
    pub(super) fn new(transport: &TracedTransport) -> Self {
        let (core, breaker) = (transport.core.clone(), Arc::clone(&transport.breaker));
        let batches = CallQueue::new(core.clone(), Arc::clone(&breaker));
        Self { batches, usage: UsageServiceClient::new(core), breaker }
    }

    /// Makes a call in a batch with others that wait.
    async fn batched<T: Message + Default>(
        &self,
        rpc: Rpc,
        mut request: Request<impl Message>,
    ) -> Result<Response<T>> {
        let CallContext { id, trace, timeout, started, .. } = context(&mut request)?;
        let traceparent = trace.get(&TRACEPARENT).and_then(|it| it.to_str().ok());
        let call = Call {
            request_id: id.map(|id| id.as_str().to_owned()).unwrap_or_default(),
            traceparent: traceparent.unwrap_or_default().to_owned(),
            timeout_ms: 0, // until it is sent
            path: rpc.path.to_owned(),
            method: Some(call::Method::Message(request.get_ref().encode_to_vec().into())),
        };
        let deadline = Instant::from_std(started + timeout.unwrap_or_default());
        let response = T::decode(self.batches.call(call, deadline).await?);
        let unknown = |_| Status::internal("the core answered in a way that this gateway does not know");
        response.map(Response::new).map_err(unknown)
    }
}

/// Takes the context of a call, which [`CoreClient`](super::CoreClient) has put into its request.
fn context<M>(request: &mut Request<M>) -> Result<CallContext> {
    request.extensions_mut().remove().ok_or_else(|| Status::internal("a call without a context"))
}

fn not_called<T>() -> Result<T> {
    Err(Status::unimplemented("gateways do not call it"))
}

#[async_trait]
impl PetStore for RemoteCore {
    async fn list_pets(&self, request: Request<ListPetsRequest>) -> Result<Response<ListPetsResponse>> {
        self.batched(LIST_PETS, request).await
    }

    async fn create_pet(&self, request: Request<CreatePetRequest>) -> Result<Response<CreatePetResponse>> {
        self.batched(CREATE_PET, request).await
    }

    async fn get_pet(&self, request: Request<GetPetRequest>) -> Result<Response<GetPetResponse>> {
        self.batched(GET_PET, request).await
    }

    async fn batch_create_pets(
        &self,
        _: Request<BatchCreatePetsRequest>,
    ) -> Result<Response<BatchCreatePetsResponse>> {
        not_called()
    }

    async fn import_pets(
        &self,
        _: Request<Streaming<ImportPetsRequest>>,
    ) -> Result<Response<ImportPetsResponse>> {
        not_called()
    }
}

#[async_trait]
impl StoreService for RemoteCore {
    async fn place_order(&self, request: Request<PlaceOrderRequest>) -> Result<Response<PlaceOrderResponse>> {
        self.batched(PLACE_ORDER, request).await
    }

    async fn get_order(&self, request: Request<GetOrderRequest>) -> Result<Response<GetOrderResponse>> {
        self.batched(GET_ORDER, request).await
    }

    async fn list_orders(&self, request: Request<ListOrdersRequest>) -> Result<Response<ListOrdersResponse>> {
        self.batched(LIST_ORDERS, request).await
    }

    async fn advance_order(
        &self,
        request: Request<AdvanceOrderRequest>,
    ) -> Result<Response<AdvanceOrderResponse>> {
        self.batched(ADVANCE_ORDER, request).await
    }
}

#[async_trait]
impl UsageService for RemoteCore {
    async fn report_usage(&self, _: Request<ReportUsageRequest>) -> Result<Response<ReportUsageResponse>> {
        not_called()
    }

    async fn get_usage(&self, mut request: Request<GetUsageRequest>) -> Result<Response<GetUsageResponse>> {
        let CallContext { id, mut trace, timeout, .. } = context(&mut request)?;
        trace.extend(id.map(|id| (HeaderName::from_static(X_REQUEST_ID), id.as_header().clone())));
        *request.metadata_mut() = MetadataMap::from_headers(trace);
        request.set_timeout(timeout.unwrap_or_default());
        let mut client = self.usage.clone();
        self.breaker.guard(lost_or_answered(client.get_usage(request))).await?
    }
}
