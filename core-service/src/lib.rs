//! The core of the Animal Store Service: it keeps the pets, the accounts and their API keys, and serves them
//! over gRPC.
//!
//! - [`domain`]: what the values are and which are allowed. Pure.
//! - [`store`]: the database. Nothing else names `SeaORM`.
//! - [`grpc`]: one method per rpc: parse, call, answer. Nothing else names tonic.

use std::{sync::Arc, time::Duration};

use petstore_api_key::Environment;
use petstore_clock::Clock;
use petstore_telemetry::metrics::Collectors;
use petstore_telemetry::traces::Traces;
use tokio::sync::OnceCell;

mod background;
pub mod domain;
pub mod grpc;
pub mod store;

pub use store::{DatabaseUrl, DatabaseUrlError};

use domain::PetStoreError;
use grpc::{CallMetrics, Capacity, Guesses};
use store::{StatementMetrics, Store};

/// How long the next message of an import may take.
const IMPORT_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the gRPC services work with. Clones share everything.
#[derive(Clone, Debug)]
pub struct Core {
    store: Store,
    clock: Clock,
    /// Whose keys are known; `None` for those of every environment.
    environment: Option<Environment>,
    /// What the store is named, once it was asked.
    store_name: Arc<OnceCell<String>>,
    capacity: Capacity,
    guesses: Guesses,
    import_idle_timeout: Duration,
    calls: CallMetrics,
    statements: StatementMetrics,
    traces: Traces,
}

impl Core {
    /// The core on this store, at this time.
    #[must_use]
    pub fn new(store: Store, clock: Clock) -> Self {
        let (store, statements) = store.counted();
        Self {
            store,
            clock,
            environment: None,
            store_name: Arc::default(),
            capacity: Capacity::default(),
            guesses: Guesses::default(),
            import_idle_timeout: IMPORT_IDLE_TIMEOUT,
            calls: CallMetrics::default(),
            statements,
            traces: Traces::off(),
        }
    }

    /// The core of one installation: keys of the other environment are unknown to it.
    #[must_use]
    pub fn for_environment(self, environment: Environment) -> Self {
        Self { environment: Some(environment), ..self }
    }

    /// Names the installation for gateways, which may share a Redis with those of others: `live-` or `test-`,
    /// after the environment, and the store's name.
    async fn installation(&self) -> Result<String, PetStoreError> {
        let store_name = self.store_name.get_or_try_init(|| self.store.installation()).await?;
        let environment = self.environment.map_or("", |environment| match environment {
            Environment::Production => "live-",
            Environment::Staging => "test-",
        });
        Ok(format!("{environment}{store_name}"))
    }

    /// The same core, whose calls are traced.
    #[must_use]
    pub fn traced(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// What the core counts.
    #[must_use]
    pub fn metrics(&self) -> Collectors {
        [self.calls.collectors(), self.statements.collectors(), self.store.pool_metrics()]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The store that the core works on.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }
}
