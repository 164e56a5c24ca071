//! The form of a service.

use crate::domain::PetStoreError;

/// Result of the work of a method.
pub(super) type Result<T, E = PetStoreError> = std::result::Result<T, E>;

/// Writes a service: each method from its name, its row in the table of methods, its messages, and the
/// function that does its work. Items of another form may follow.
macro_rules! service {
    ($service:ident {
        $($method:ident $row:ident $request:ident $response:ident $work:path;)*
    } $($other:tt)*) => {
        #[tonic::async_trait]
        impl $service for Core {
            $(
                async fn $method(
                    &self,
                    request: tonic::Request<$request>,
                ) -> Result<tonic::Response<$response>, tonic::Status> {
                    let method = &super::methods::$row;
                    let capacity = self.calls.capacity().of(method.class);
                    self.calls.answer(capacity, method, request, |it| $work(self, it)).await
                }
            )*

            $($other)*
        }

        /// Answers a call in a batch, or from this process, if it is of one of these methods.
        pub(super) async fn answer(
            core: &Core,
            context: &petstore_grpc_server::CallContext,
            messages: &mut super::batch_service::Messages<'_>,
        ) -> Option<Result<(), tonic::Status>> {
            $(
                let method = &super::methods::$row;
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
pub(super) use service;
