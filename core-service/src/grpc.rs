//! The rules of methods, and limits, for the services of every area. A method parses its request, calls the
//! store and answers; [`Core::answer`] puts the same bounds around each, on every transport.

use tonic::{Request, Response};

use petstore_proto::rpc::Rpc;

use crate::{Core, errors::PetStoreError};

pub(crate) mod limits;
pub(crate) mod methods;

/// Result of the work of a method.
pub(crate) type CallResult<T> = Result<T, PetStoreError>;

impl Core {
    /// Runs the work of a method, within the bounds of that.
    pub(crate) async fn answer<M, T, F: Future<Output = CallResult<T>>>(
        &self,
        rpc: Rpc,
        request: Request<M>,
        work: impl FnOnce(M) -> F,
    ) -> tonic::Result<Response<T>> {
        let method = methods::of(rpc);
        self.calls.answer(self.calls.capacity().of(method.class), method, request, work).await
    }
}
