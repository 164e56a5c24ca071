//! Limits on the size of messages, per method: tonic has them per service only.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use http::{Request, Response};
use petstore_proto::v1::pet_store_server::PetStoreServer;
use tonic::{body::Body, server::NamedService};
use tower::Service;

use super::methods::{MAX_BULK, MAX_MESSAGE, Method};
use crate::Core;

/// `PetStore`, whose methods for many pets take larger messages than the others.
#[derive(Clone, Debug)]
pub(super) struct MessageSizeRouter {
    ordinary: PetStoreServer<Core>,
    bulk: PetStoreServer<Core>,
}

impl MessageSizeRouter {
    pub(super) fn new(core: &Core) -> Self {
        let with = |limit| {
            PetStoreServer::new(core.clone())
                .max_decoding_message_size(limit)
                .max_encoding_message_size(limit)
        };
        Self { ordinary: with(MAX_MESSAGE), bulk: with(MAX_BULK) }
    }
}

impl NamedService for MessageSizeRouter {
    const NAME: &'static str = <PetStoreServer<Core> as NamedService>::NAME;
}

impl Service<Request<Body>> for MessageSizeRouter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <PetStoreServer<Core> as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(())) // as both are always ready
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_bulk = Method::find(request.uri().path()).max_message > MAX_MESSAGE;
        let server = if is_bulk { &mut self.bulk } else { &mut self.ordinary };
        server.call(request)
    }
}
