//! The core of the Animal Store Service: it keeps the pets, the accounts and their API keys, and serves them
//! over gRPC.
//!
//! - [`pets`], [`orders`], [`accounts`]: a folder for each resource.
//! - [`server`]: their services, on a socket or in memory.
//! - [`errors`], [`violations`], [`pages`]: what they have in common.
//!
//! A resource has its values and rules, which are pure; `entity` and `store`, which alone use `SeaORM`; and
//! `grpc`, which alone uses tonic, with one function per method: it parses, calls the store and responds.
//! Orders know pets. Otherwise no resource knows another one.

use std::{sync::Arc, time::Duration};

use petstore_caller::api_key::Environment;
use petstore_clock::Clock;
use petstore_grpc_server::Calls;
use petstore_telemetry::metrics::Collectors;
use petstore_telemetry::traces::Traces;
use tokio::sync::{OnceCell, Semaphore};

mod background;
pub mod errors;
mod grpc;
pub mod pages;
pub mod server;
pub mod store;
pub mod violations;

/// Pets, the ways of adding them, and their lists.
pub mod pets {
    mod creation;
    pub(crate) mod entity;
    pub(crate) mod grpc;
    mod pet;
    pub(crate) mod store;

    #[cfg(feature = "fuzzing")]
    pub use self::grpc::{fuzz_list, fuzz_pet};
    pub use self::{creation::*, pet::*};
}

/// Orders for pets.
pub mod orders {
    pub(crate) mod entity;
    pub(crate) mod grpc;
    mod order;
    pub(crate) mod store;

    pub use self::order::*;
}

pub mod accounts {
    //! Accounts, their plans and keys, bans of keys, the feed of changes that gateways follow, and the counts
    //! of requests.
    //!
    //! # Promises
    //!
    //! - The store has no key, only its digest, so that a key is shown once, when it is created.
    //! - A change of an account, its keys or their bans and the revision under which gateways learn of it are
    //!   one transaction. A gateway whose revision comes from before a restore of the database is told to
    //!   forget all.
    //! - No report of a gateway counts twice, shortens a ban or undoes a later change of an operator, even if
    //!   it is sent again.
    //! - What is no longer in use is deleted in bounded steps ([`KEPT`]).
    //!
    //! The types and their rules are pure. [`store`] alone uses `SeaORM`; it answers gateways in the messages
    //! of the internal contract. Functions there that take a transaction leave it to their caller, which may
    //! record in it who makes the change.
    //!
    //! How it fails: a call that is refused, and one that the database does not answer, is a
    //! [`PetStoreError`](crate::errors::PetStoreError).

    mod account;
    mod api_key;
    mod ban;
    pub(crate) mod grpc;
    mod remark;
    mod retention;
    pub mod store;
    mod usage;

    pub use petstore_caller::plans::Quota;
    pub use petstore_clock::{Day, Minute};

    pub use self::{account::*, api_key::*, ban::*, remark::Remark, retention::*, usage::*};
}

use errors::PetStoreError;
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
