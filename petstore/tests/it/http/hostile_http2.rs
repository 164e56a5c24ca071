//! Abuses of HTTP/2, at the HTTPS port and at the gRPC port. Each time the service stays within its limits,
//! and other clients are not affected.

mod abandoned;
mod bounds;
mod floods;
mod frames;
mod malformed;

use std::time::Duration;

use petstore_testkit::{
    Authority, Client, Installation, Protocol, Server, Tls,
    grpc::{self, ServingStatus, new_pet, pb},
    raw,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

use crate::{FIRST_KEY, memory, petstore, serve};

/// Timeout of another client's answer meanwhile. It is generous: the machine may be busy with other tests.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum growth of the service's memory by one hostile connection, in bytes, in a build that is not
/// optimized.
const MEMORY: u64 = 64 << 20;

/// Port that speaks HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Https,
    Grpc,
}

impl Port {
    const ALL: [Self; 2] = [Self::Https, Self::Grpc];

    /// Returns the maximum number of concurrent requests on one connection.
    fn most_streams(self) -> u32 {
        match self {
            Self::Https => 100,
            Self::Grpc => 256,
        }
    }
}

/// Stream of bytes in both directions.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Wire for S {}

/// Service that is attacked at one of its ports.
struct Target {
    port: Port,
    authority: Authority,
    installation: Installation,
    server: Server,
}

impl Target {
    async fn open(port: Port) -> Self {
        let (authority, installation) = (Authority::new(), petstore());
        let certificate = authority.issue("127.0.0.1");
        let flags = [
            "--drain-deadline",
            "500ms",
            "--https-addr",
            "127.0.0.1:0",
            "--https-cert",
            &certificate.file,
            "--https-key",
            &certificate.key_file,
        ];
        let server = installation.start(&serve(&flags)).await;
        Self { port, authority, installation, server }
    }

    /// Adds a hundred pets with the longest names, so that a page of them is more than 100 KiB.
    async fn fill(&self) {
        let mut client = grpc::pet_store(self.server.address("gRPC")).await;
        for _ in 0..100 {
            let name = "\u{1F415}".repeat(255);
            let pet = new_pet(name, Some(7), pb::PetStatus::Sold);
            let request = pb::CreatePetRequest { pet: Some(pet), ..Default::default() };
            client.create_pet(request).await.unwrap();
        }
    }

    /// Opens a connection on which HTTP/2 can begin.
    async fn connect(&self) -> Box<dyn Wire> {
        match self.port {
            Port::Https => {
                let tls = Tls::trusting(&self.authority, Protocol::Http2);
                Box::new(tls.connect(self.server.address("HTTPS")).await.unwrap())
            }
            Port::Grpc => Box::new(raw::connect(self.server.address("gRPC")).await),
        }
    }

    fn key(&self) -> String {
        self.installation.read(FIRST_KEY).trim().to_owned()
    }

    /// Checks that another client is answered at this port, over its own connection.
    async fn serves_others(&self) {
        let begin = Instant::now();
        match self.port {
            Port::Https => {
                let client = Client::new(self.server.address("HTTPS"));
                let client = client.over_tls(&self.authority, Protocol::Http2);
                client.get("/nothing").await.assert_status(404); // which has no limits
            }
            Port::Grpc => {
                let health = grpc::health(self.server.address("gRPC"), "").await;
                assert_eq!(health.unwrap(), ServingStatus::Serving);
            }
        }
        assert!(begin.elapsed() < ANSWER_TIMEOUT, "{:?}: answered after {:?}", self.port, begin.elapsed());
    }

    /// Checks that others are served as long as the attack continues, and once more when it is over. No
    /// memory leaks.
    async fn withstands(&self, name: &str, attack: impl Future<Output = ()> + Send + 'static) {
        self.serves_others().await;
        let before = memory(&self.server, "VmRSS");
        let attack = tokio::spawn(attack);
        while !attack.is_finished() {
            self.serves_others().await;
        }
        attack.await.unwrap();
        self.serves_others().await;
        let grown = memory(&self.server, "VmRSS").saturating_sub(before);
        assert!(grown < MEMORY, "{name} at {:?}: {} KiB more are in use", self.port, grown >> 10);
    }

    /// Checks that the service ends gracefully, and not much later than at the end of its drain.
    async fn ends_in_order(self) {
        let exit = self.server.terminate().await;
        assert_eq!(exit.code, Some(0), "{:?}: {exit:?}", self.port);
        assert!(exit.took < Duration::from_secs(15), "{:?}: {exit:?}", self.port);
        assert!(!exit.stderr.contains("panicked"), "{:?}: {exit:?}", self.port);
    }
}
