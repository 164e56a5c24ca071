//! State of the gRPC services.

use std::{sync::Arc, time::Duration};

use petstore_caller::api_key::Environment;
use petstore_clock::Clock;
use petstore_grpc_server::Calls;
use petstore_telemetry::{metrics::Collectors, traces::Traces};
use tokio::sync::{OnceCell, Semaphore};

use crate::{errors::PetStoreError, grpc::CHUNKS, server, store::Store};

/// Timeout for the next message of an import.
const IMPORT_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// State of the gRPC services. Clones share everything.
#[derive(Clone)]
pub struct Core {
    /// The store.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// Environment whose keys are known; `None` for every environment.
    pub environment: Option<Environment>,
    /// Name of the store, once it was read.
    store_name: Arc<OnceCell<String>>,
    /// Bounds of the calls.
    pub calls: Calls,
    /// Permits of chunks of pets that are written.
    pub(crate) chunks: Arc<Semaphore>,
    pub(crate) import_idle_timeout: Duration,
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
            chunks: Arc::new(Semaphore::new(CHUNKS)),
            import_idle_timeout: IMPORT_IDLE_TIMEOUT,
        }
    }

    /// Returns the core of one installation: keys of the other environment are unknown to it.
    pub fn for_environment(self, environment: Environment) -> Self {
        Self { environment: Some(environment), ..self }
    }

    /// Returns the name of the installation, for gateways that may share a Redis with those of other
    /// installations: `live-` or `test-`, after the environment, and the store's name.
    pub(crate) async fn installation(&self) -> Result<String, PetStoreError> {
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
        metrics.extend(self.store.accounts.metrics());
        metrics
    }
}
