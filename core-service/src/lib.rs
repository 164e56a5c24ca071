//! The core of the Animal Store Service: it keeps the pets, the accounts and their API keys, and serves them
//! over gRPC.
//!
//! - [`catalogue`]: pets and orders, all that a service with other resources replaces.
//! - [`accounts`]: accounts, keys, plans, bans, the change feed and usage, which are a crate of their own.
//! - [`server`]: the services of both, on a socket or in memory.
//!
//! Each of the first two has its types and rules, which are pure; `store`, which alone uses `SeaORM`; and,
//! here, `grpc`, which alone uses tonic, with one function per method: it parses, calls and answers.
//! [`domain`], another crate, has the values and errors that they share.

use std::{sync::Arc, time::Duration};

use petstore_caller::api_key::Environment;
use petstore_clock::Clock;
use petstore_grpc_server::Calls;
use petstore_telemetry::metrics::Collectors;
use petstore_telemetry::traces::Traces;
use tokio::sync::{OnceCell, Semaphore};

pub mod accounts;
mod background;
pub mod catalogue;
mod grpc;
pub mod server;
pub mod store;

pub use petstore_domain as domain;

use domain::PetStoreError;
use store::Store;

/// Timeout for the next message of an import.
const IMPORT_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// State of the gRPC services. Clones share everything.
#[derive(Clone, Debug)]
pub struct Core {
    store: Store,
    clock: Clock,
    /// Environment whose keys are known; `None` for every environment.
    environment: Option<Environment>,
    /// Name of the store, once it was read.
    store_name: Arc<OnceCell<String>>,
    calls: Calls,
    /// Permits of chunks of pets that are written.
    chunks: Arc<Semaphore>,
    import_idle_timeout: Duration,
}

impl Core {
    /// Returns a core on this store with this clock.
    pub fn new(store: Store, clock: Clock) -> Self {
        Self {
            store: store.counted(),
            clock,
            environment: None,
            store_name: Arc::default(),
            calls: server::calls(),
            chunks: Arc::new(Semaphore::new(server::CHUNKS)),
            import_idle_timeout: IMPORT_IDLE_TIMEOUT,
        }
    }

    /// Returns the core of one installation: keys of the other environment are unknown to it.
    pub fn for_environment(self, environment: Environment) -> Self {
        Self { environment: Some(environment), ..self }
    }

    /// Returns the name of the installation, for gateways that may share a Redis with those of other
    /// installations: `live-` or `test-`, after the environment, and the store's name.
    async fn installation(&self) -> Result<String, PetStoreError> {
        let store_name = self.store_name.get_or_try_init(|| self.store.installation()).await?;
        let environment = self.environment.map_or("", |environment| match environment {
            Environment::Production => "live-",
            Environment::Staging => "test-",
        });
        Ok(format!("{environment}{store_name}"))
    }

    /// Returns this core with tracing of its calls.
    pub fn traced(self, traces: Traces) -> Self {
        Self { calls: self.calls.traced(traces), ..self }
    }

    /// Returns the core's metrics.
    pub fn metrics(&self) -> Collectors {
        let mut metrics = self.calls.metrics();
        metrics.extend(self.store.database().metrics());
        metrics.extend(self.store.accounts().metrics());
        metrics
    }

    /// Returns the core's store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the core's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the environment whose keys are known; `None` for every environment.
    pub fn environment(&self) -> Option<Environment> {
        self.environment
    }

    /// Returns the bounds of the core's calls.
    pub fn calls(&self) -> &Calls {
        &self.calls
    }
}
