//! The methods that travel in batches.

use petstore_proto::{
    internal::v1::{answer::Outcome, call::Method},
    v1::{
        CreatePetRequest, CreatePetResponse, GetPetRequest, GetPetResponse, ListOrdersRequest,
        ListOrdersResponse, ListPetsRequest, ListPetsResponse, pet_store_client::PetStoreClient,
        store_service_client::StoreServiceClient,
    },
};
use tonic::{Request, Response, Status};

use super::traced::TracedTransport;

/// Makes calls one by one.
#[derive(Clone, Debug)]
pub(crate) struct SingleCalls {
    pets: PetStoreClient<TracedTransport>,
    orders: StoreServiceClient<TracedTransport>,
}

impl From<TracedTransport> for SingleCalls {
    fn from(core: TracedTransport) -> Self {
        Self { pets: PetStoreClient::new(core.clone()), orders: StoreServiceClient::new(core) }
    }
}

/// The message of a unary method that may be called in a batch. Called twice, it has to mean the same as
/// once.
pub(crate) trait BatchedMessage: Clone + Send + 'static {
    /// What the method answers with.
    type Response: Send;
    /// `package.Service/Method`.
    const METHOD: &'static str;
    /// The message in a batch.
    fn into_method(self) -> Method;
    /// The answer from a batch; `None` if it belongs to another method.
    fn response(outcome: Outcome) -> Option<Self::Response>;
    /// Makes the call by itself.
    fn call_alone(
        request: Request<Self>,
        calls: SingleCalls,
    ) -> impl Future<Output = Result<Response<Self::Response>, Status>> + Send;
}

macro_rules! batched {
    (
        $request:ty => $response:ty, $variant:ident, $method:literal, $client:ident.$rpc:ident
        $(, #[$lint:meta])?
    ) => {
        impl BatchedMessage for $request {
            type Response = $response;
            const METHOD: &'static str = $method;

            fn into_method(self) -> Method {
                Method::$variant(self)
            }

            fn response(outcome: Outcome) -> Option<$response> {
                if let Outcome::$variant(response) = outcome { Some(response) } else { None }
            }

            $(#[$lint])?
            async fn call_alone(
                request: Request<Self>,
                mut calls: SingleCalls,
            ) -> Result<Response<$response>, Status> {
                calls.$client.$rpc(request).await
            }
        }
    };
}

batched!(GetPetRequest => GetPetResponse, GetPet, "petstore.v1.PetStore/GetPet", pets.get_pet,
    #[expect(deprecated, reason = "served until its removal date")]);
batched!(ListPetsRequest => ListPetsResponse, ListPets, "petstore.v1.PetStore/ListPets", pets.list_pets);
batched!(CreatePetRequest => CreatePetResponse, CreatePet, "petstore.v1.PetStore/CreatePet", pets.create_pet);
batched!(ListOrdersRequest => ListOrdersResponse, ListOrders, "petstore.v1.StoreService/ListOrders",
    orders.list_orders);
