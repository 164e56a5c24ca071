//! Calls in a batch. Their messages stay encoded: the transport does not know them.

use prost::{Message, Oneof, bytes::Bytes};

use crate::{
    internal::v1::CallStatus,
    rpc::{CREATE_PET, GET_PET, LIST_ORDERS, LIST_PETS, Rpc},
};

/// `petstore.internal.v1.Call`: one call of a batch.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Call {
    /// Id of the call in logs and failures.
    #[prost(bytes = "bytes", tag = "1")]
    pub request_id: Bytes,
    /// Span that the call belongs to.
    #[prost(bytes = "bytes", tag = "2")]
    pub traceparent: Bytes,
    /// Timeout in milliseconds; 0 means that none is given.
    #[prost(uint32, tag = "3")]
    pub timeout_ms: u32,
    /// The request, encoded; `None` if the method is not known.
    #[prost(oneof = "RequestForm", tags = "4, 5, 6, 7, 8")]
    pub request: Option<RequestForm>,
    /// Method of a request in the form [`RequestForm::Named`].
    #[prost(bytes = "bytes", tag = "9")]
    pub path: Bytes,
}

/// Request of a call, in a field that says of which method. All but the last are those of
/// gateways before 1.2, until 1.3.
#[derive(Clone, PartialEq, Eq, Hash, Oneof)]
pub enum RequestForm {
    /// `PetStore/GetPet`.
    #[prost(bytes = "bytes", tag = "4")]
    GetPet(Bytes),
    /// `PetStore/ListPets`.
    #[prost(bytes = "bytes", tag = "5")]
    ListPets(Bytes),
    /// `PetStore/CreatePet`.
    #[prost(bytes = "bytes", tag = "6")]
    CreatePet(Bytes),
    /// `StoreService/ListOrders`.
    #[prost(bytes = "bytes", tag = "7")]
    ListOrders(Bytes),
    /// The method in the call's path.
    #[prost(bytes = "bytes", tag = "8")]
    Named(Bytes),
}

impl Call {
    /// Returns a call of the method with this request.
    pub fn new(rpc: Rpc, request: &impl Message) -> Self {
        let request = Some(RequestForm::Named(request.encode_to_vec().into()));
        Self { request, path: Bytes::from_static(rpc.path.as_bytes()), ..Self::default() }
    }

    /// Returns the method and the encoded request; `None` if the method is not known.
    pub fn method(&self) -> Option<(Rpc, &Bytes)> {
        Some(match self.request.as_ref()? {
            RequestForm::GetPet(message) => (GET_PET, message),
            RequestForm::ListPets(message) => (LIST_PETS, message),
            RequestForm::CreatePet(message) => (CREATE_PET, message),
            RequestForm::ListOrders(message) => (LIST_ORDERS, message),
            RequestForm::Named(message) => (Rpc::find(&self.path)?, message),
        })
    }

    /// Returns the outcome with this encoded response, in the form of the call.
    pub fn answered(&self, response: Bytes) -> Outcome {
        match &self.request {
            Some(RequestForm::GetPet(_)) => Outcome::GetPet(response),
            Some(RequestForm::ListPets(_)) => Outcome::ListPets(response),
            Some(RequestForm::CreatePet(_)) => Outcome::CreatePet(response),
            Some(RequestForm::ListOrders(_)) => Outcome::ListOrders(response),
            Some(RequestForm::Named(_)) | None => Outcome::Named(response),
        }
    }
}

/// `petstore.internal.v1.Answer`: the response to one call of a batch.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct Answer {
    /// Position of the call in its batch.
    #[prost(uint32, tag = "1")]
    pub call: u32,
    /// The response or failure.
    #[prost(oneof = "Outcome", tags = "2, 3, 4, 5, 6, 7")]
    pub outcome: Option<Outcome>,
}

/// Outcome of a call: its failure, or the encoded response in the form of its [request](RequestForm).
#[derive(Clone, PartialEq, Eq, Hash, Oneof)]
pub enum Outcome {
    /// The call was refused or failed.
    #[prost(message, tag = "2")]
    Failure(CallStatus),
    /// `PetStore/GetPet`.
    #[prost(bytes = "bytes", tag = "3")]
    GetPet(Bytes),
    /// `PetStore/ListPets`.
    #[prost(bytes = "bytes", tag = "4")]
    ListPets(Bytes),
    /// `PetStore/CreatePet`.
    #[prost(bytes = "bytes", tag = "5")]
    CreatePet(Bytes),
    /// `StoreService/ListOrders`.
    #[prost(bytes = "bytes", tag = "6")]
    ListOrders(Bytes),
    /// The method in the call's path.
    #[prost(bytes = "bytes", tag = "7")]
    Named(Bytes),
}
