//! Methods that can be called in batches.

use petstore_proto::{
    internal::v1::{answer::Outcome, call::Method},
    v1::{
        CreatePetRequest, CreatePetResponse, GetPetRequest, GetPetResponse, ListOrdersRequest,
        ListOrdersResponse, ListPetsRequest, ListPetsResponse,
    },
};

/// Methods that a gateway needs its core to have.
pub(crate) const METHODS: [&str; 10] = [
    GetPetRequest::METHOD,
    ListPetsRequest::METHOD,
    CreatePetRequest::METHOD,
    ListOrdersRequest::METHOD,
    "petstore.internal.v1.BatchService/Call",
    "petstore.internal.v1.KeyService/ResolveKeys",
    "petstore.internal.v1.KeyService/ReportUse",
    "petstore.internal.v1.KeyService/ReportBan",
    "petstore.internal.v1.UsageService/ReportUsage",
    "petstore.internal.v1.UsageService/GetUsage",
];

/// Message of a unary method that may be called in a batch. The method must be idempotent.
pub(crate) trait BatchedMessage: Clone + Send + 'static {
    /// Answer of the method.
    type Response: Send;
    /// `package.Service/Method`.
    const METHOD: &'static str;
    /// `true` if the method changes something.
    const IS_WRITE: bool;
    /// Returns the message as a batch carries it.
    fn into_method(self) -> Method;
    /// Returns the answer from a batch; `None` if it belongs to another method.
    fn response(outcome: Outcome) -> Option<Self::Response>;
}

macro_rules! batched {
    ($request:ty => $response:ty, $variant:ident, $method:literal, is_write: $is_write:literal) => {
        impl BatchedMessage for $request {
            type Response = $response;
            const METHOD: &'static str = $method;
            const IS_WRITE: bool = $is_write;

            fn into_method(self) -> Method {
                Method::$variant(self)
            }

            fn response(outcome: Outcome) -> Option<$response> {
                if let Outcome::$variant(response) = outcome { Some(response) } else { None }
            }
        }
    };
}

batched!(GetPetRequest => GetPetResponse, GetPet, "petstore.v1.PetStore/GetPet", is_write: false);
batched!(ListPetsRequest => ListPetsResponse, ListPets, "petstore.v1.PetStore/ListPets", is_write: false);
batched!(CreatePetRequest => CreatePetResponse, CreatePet, "petstore.v1.PetStore/CreatePet", is_write: true);
batched!(ListOrdersRequest => ListOrdersResponse, ListOrders, "petstore.v1.StoreService/ListOrders",
    is_write: false);
