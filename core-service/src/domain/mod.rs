//! What the values are, and which are allowed. Each rule lives here once: both edges, REST and gRPC, answer
//! with its verdict and its words.

mod account;
mod api_key;
mod ban;
mod batch;
mod error;
mod idempotency_key;
mod import;
mod order;
mod page;
mod page_token;
mod pet;
mod usage;
mod violation;

pub use account::{Account, AccountId, AccountName, Plan, Quota};
pub(crate) use api_key::NewApiKey;
pub use api_key::{ApiKeyRecord, IssuedKey, KeyId, KeyState};
pub(crate) use ban::BanNote;
pub use ban::{Ban, BanOrigin, BanReason, BanRecord};
pub use batch::{Batch, BatchViolations};
pub use error::{AccountError, Cause, PetStoreError};
pub use idempotency_key::{Created, IdempotencyKey};
pub use import::{ImportChunk, ImportId, ImportProgress, Imported};
pub use order::{NewOrder, Order, OrderId, OrderStatus, Quantity, ShipDate};
pub use page::{ListOrders, ListPets, Page, PageSize};
pub use page_token::{List, PageToken};
pub use pet::{CategoryId, NewPet, Pet, PetId, PetName, PetStatus, RawPet};
pub(crate) use usage::ReporterName;
pub use usage::{Day, Tally, UsageDay};
pub use violation::{Violation, Violations};
