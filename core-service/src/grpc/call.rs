//! The form of a service.

use std::any::Any;

use petstore_grpc_server::Method;
use petstore_proto::{Answer, Call, UnaryRequest};
use prost::Message;
use tonic::Status;

use super::methods::is_batched;
use crate::domain::PetStoreError;

/// Result of the work of a method.
pub(crate) type CallResult<T> = Result<T, PetStoreError>;

/// Writes a service: each method from its name, its row in the table of methods, its messages, and the
/// function that does its work. Items of another form may follow.
macro_rules! service {
    ($service:ident {
        $($method:ident $row:ident $request:ident $response:ident $work:path;)*
    } $($other:tt)*) => {
        #[tonic::async_trait]
        impl $service for crate::Core {
            $(
                async fn $method(
                    &self,
                    request: tonic::Request<$request>,
                ) -> Result<tonic::Response<$response>, tonic::Status> {
                    let method = &crate::grpc::methods::$row;
                    let capacity = self.calls.capacity().of(method.class);
                    self.calls.answer(capacity, method, request, |it| $work(self, it)).await
                }
            )*

            $($other)*
        }

        /// Answers a call in a batch, or from this process, if it is of one of these methods.
        pub(crate) async fn answer(
            core: &crate::Core,
            context: &petstore_grpc_server::CallContext,
            messages: &mut crate::grpc::call::Messages<'_>,
        ) -> Option<Result<(), tonic::Status>> {
            $(
                let method = &crate::grpc::methods::$row;
                if let Some(request) = messages.take::<$request>(method) {
                    let request = match request {
                        Ok(request) => request,
                        Err(status) => return Some(Err(status)),
                    };
                    let answered = core.calls.answer_call(method, context, || $work(core, request)).await;
                    return Some(answered.map(|response| messages.set(response)));
                }
            )*
            None
        }
    };
}
pub(crate) use service;

/// Messages of a call that is not made on its own.
pub(crate) enum Messages<'a> {
    /// In a batch.
    Encoded { call: &'a Call, answer: &'a mut Answer },
    /// From this process, in an `Option` each.
    Local { request: &'a mut (dyn Any + Send), response: &'a mut (dyn Any + Send) },
}

impl Messages<'_> {
    /// Takes the request if it is of this method, and the method may be called in this way.
    pub(crate) fn take<M: UnaryRequest>(&mut self, method: &Method) -> Option<Result<M, Status>> {
        match self {
            Self::Encoded { call, .. } if is_batched(method) => {
                let invalid = |_| Status::internal("the message of a call in a batch cannot be decoded");
                call.request::<M>().map(|request| request.map_err(invalid))
            }
            Self::Encoded { .. } => None,
            Self::Local { request, .. } => request.downcast_mut::<Option<M>>()?.take().map(Ok),
        }
    }

    /// Puts in the response of the method.
    pub(crate) fn set<T: Message + 'static>(&mut self, answered: T) {
        match self {
            Self::Encoded { call, answer } => answer.set(call, &answered),
            Self::Local { response, .. } => {
                if let Some(response) = response.downcast_mut() {
                    *response = Some(answered);
                }
            }
        }
    }
}
