//! The services, called by their generated clients on both transports.

use std::{net::SocketAddr, time::Duration};

use petstore_clock::{Clock, ManualClock, UnixMillis};
use petstore_proto::{
    internal::v1::{ResolveKeysRequest, ResolvedKey, key_service_client::KeyServiceClient},
    v1::{CreatePetRequest, NewPet, PetStatus, pet_store_client::PetStoreClient},
};
use petstore_test_servers::Home;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time};
use tonic::{
    Code, Request, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt;
use tower::{ServiceBuilder, util::BoxCloneSyncService};

use petstore_grpc_server::Class;

use super::*;
use crate::{
    grpc::{CHUNKS, MAX_BULK_MESSAGE, MAX_ENTRIES, MAX_KEYS_ANSWER, MAX_MESSAGE},
    store::test_support::{lock_for_writing, new_store},
};

mod batch;
mod bounds;
mod bulk;
mod internal_calls;
mod key_service;
mod server;
mod usage_service;

const START: UnixMillis = UnixMillis(1_800_000_000_000);

type Transport =
    BoxCloneSyncService<http::Request<tonic::body::Body>, http::Response<tonic::body::Body>, BoxError>;

struct Shop {
    core: Core,
    hand: ManualClock,
    home: Home,
}

impl Shop {
    async fn open() -> Self {
        let (store, home) = new_store().await;
        let (clock, hand) = Clock::manual(START);
        Self { core: Core::new(store, clock), hand, home }
    }

    fn client(&self) -> PetStoreClient<Transport> {
        PetStoreClient::new(BoxCloneSyncService::new(in_memory(services(&self.core))))
    }

    fn keys(&self) -> KeyServiceClient<Transport> {
        KeyServiceClient::new(BoxCloneSyncService::new(in_memory(services(&self.core))))
    }

    /// Returns the state of a key, and the revision of the answer.
    async fn resolve(&self, digest: &[u8]) -> (Option<ResolvedKey>, i64) {
        let request = ResolveKeysRequest { digests: vec![digest.to_vec()], ..Default::default() };
        let mut answer = self.keys().resolve_keys(request).await.unwrap().into_inner();
        (answer.keys.pop().and_then(|found| found.key), answer.revision)
    }

    async fn serve(&self, drain_deadline: Duration) -> Server {
        self.serve_renewing(drain_deadline, Duration::from_mins(1)).await
    }

    async fn serve_renewing(&self, drain_deadline: Duration, connection_age: Duration) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let stopped = async { stopped.await.unwrap_or_default() };
        let (listener, security) = (Listener::Tcp(listener), Security::default());
        let limits = GrpcServerLimits { connections: 1_024, connection_age, drain_deadline };
        let task = tokio::spawn(serve(
            listener,
            security,
            &self.core,
            services(&self.core),
            Box::pin(stopped),
            limits,
        ));
        Server { address, stop, task }
    }
}

struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Server {
    fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address)).unwrap().connect_lazy()
    }

    fn transport(&self) -> Transport {
        BoxCloneSyncService::new(ServiceBuilder::new().map_err(BoxError::from).service(self.channel()))
    }

    /// Stops the server, and returns the time that this took.
    async fn stop(self) -> Duration {
        let began = time::Instant::now();
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
        began.elapsed()
    }
}

fn new_pet(name: &str, status: PetStatus) -> CreatePetRequest {
    let mut pet = NewPet { name: name.into(), category_id: Some(7), ..NewPet::default() };
    pet.set_status(status);
    CreatePetRequest { pet: Some(pet), ..Default::default() }
}

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

fn verdict(status: &Status) -> (Code, String, String) {
    (status.code(), reason(status), status.message().to_owned())
}

fn refused(code: Code, reason: &str, message: &str) -> (Code, String, String) {
    (code, reason.to_owned(), message.to_owned())
}

fn assert_overloaded(error: &Status) {
    assert_eq!((error.code(), reason(error).as_str()), (Code::Unavailable, "OVERLOADED"));
    assert!(error.get_error_details().retry_info().is_some());
}
