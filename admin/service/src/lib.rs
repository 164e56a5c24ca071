//! The service that operators call, beside the core's own services: `petstore.admin.v1.AdminService`.
//!
//! It makes the core's changes of accounts, keys and bans, and records each in the audit log, in the
//! transaction that makes it. It has tables of its own: operators, their sessions, and the audit log. The
//! core does not know it: a process that needs no operators leaves it out.
//!
//! - [`domain`]: operators and events, and their rules. Pure.
//! - [`store`]: the changes, in the core's database.
//! - `grpc`: one function per method of the service.
//!
//! How it fails: every error is an [`AdminError`], whose text is safe for any caller.
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use petstore_admin_service::{Administration, domain::{Actor, OperatorName, Role}, store::AdminStore};
//! use petstore_clock::Clock;
//! use petstore_core::{Core, store::Store};
//! use petstore_database::OpenOptions;
//!
//! let folder = tempfile::tempdir()?;
//! let url = format!("sqlite://{}/petstore.db", folder.path().display()).parse()?;
//! let options = OpenOptions { migrate: true, quick_check: true };
//! let store = Store::open(&url, &[], options).await?;
//!
//! let (clock, name) = (Clock::system(), OperatorName::parse("ann").expect("a valid name"));
//! let changes = AdminStore::new(&store);
//! let (ann, token) = changes.create_operator(&Actor::LOCAL, &name, Role::Admin, None, clock.now()).await?;
//! assert_eq!(ann.last_four.as_deref(), Some(token.last_four()));
//!
//! let core = Core::new(store, clock);
//! let _for_grpc_serve = Administration::new(core).services();
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub mod domain;
mod error;
mod grpc;
pub mod store;

pub use error::AdminError;
pub use grpc::Administration;
