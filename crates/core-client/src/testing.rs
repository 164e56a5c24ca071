//! Methods for tests.

use petstore_proto::{
    internal::v1::{answer::Outcome, call::Method},
    v1::{GetPetRequest, GetPetResponse, ListOrdersRequest, ListOrdersResponse},
};

use crate::BatchedMethod;

/// Method whose answers tests make.
pub(crate) struct Get;

impl BatchedMethod for Get {
    type Request = GetPetRequest;
    type Response = GetPetResponse;
    const NAME: &'static str = "package.Service/Get";
    const IS_WRITE: bool = false;

    fn into_call(request: GetPetRequest) -> Method {
        Method::GetPet(request)
    }

    fn response(outcome: Outcome) -> Option<GetPetResponse> {
        if let Outcome::GetPet(response) = outcome { Some(response) } else { None }
    }
}

/// Method that tests call and never answer.
pub(crate) struct List;

impl BatchedMethod for List {
    type Request = ListOrdersRequest;
    type Response = ListOrdersResponse;
    const NAME: &'static str = "package.Service/List";
    const IS_WRITE: bool = false;

    fn into_call(request: ListOrdersRequest) -> Method {
        Method::ListOrders(request)
    }

    fn response(outcome: Outcome) -> Option<ListOrdersResponse> {
        if let Outcome::ListOrders(response) = outcome { Some(response) } else { None }
    }
}
