//! Limits on the size of messages, per method: tonic has them per service only.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use http::{Request, Response};
use petstore_proto::v1::pet_store_server::PetStoreServer;
use tonic::{body::Body, server::NamedService};
use tower::Service;

use super::MAX_MESSAGE;
use crate::Core;

/// The largest message of the methods that carry up to 1,000 pets: with the longest names those have 1.03
/// MiB.
pub(super) const MAX_BULK_MESSAGE: usize = 1_280 * 1024;

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
        Self { ordinary: with(MAX_MESSAGE), bulk: with(MAX_BULK_MESSAGE) }
    }
}

fn is_bulk(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("BatchCreatePets" | "ImportPets"))
}

impl NamedService for MessageSizeRouter {
    const NAME: &'static str = <PetStoreServer<Core> as NamedService>::NAME;
}

impl Service<Request<Body>> for MessageSizeRouter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = <PetStoreServer<Core> as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(())) // as both are, always
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let server = if is_bulk(request.uri().path()) { &mut self.bulk } else { &mut self.ordinary };
        server.call(request)
    }
}
