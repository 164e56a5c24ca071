//! Domain types and their rules. Each rule is defined here once: both edges, REST and gRPC, answer with its
//! result and its text.

mod account;
mod api_key;
mod audit;
mod ban;
mod batch;
mod error;
mod idempotency_key;
mod import;
mod operator;
mod order;
mod page;
mod pet;
mod position;
mod refusal;
mod text;
mod usage;
mod violation;

pub(crate) use account::ListAccounts;
pub use petstore_clock::{Day, Minute};
pub use petstore_plans::Quota;

pub use account::{Account, AccountId, AccountName, AccountUpdate, Plan, PlanUpdate, Suspension};
pub use api_key::{ApiKeyRecord, IssuedKey, KeyId, KeyLabel, KeyState, NewExpiry};
pub(crate) use audit::{Change, ListAuditEvents, Subject, account_json, ban_json, key_json, operator_json};
pub(crate) use ban::BanNote;
pub use ban::{Ban, BanOrigin, StatedReason};
pub use batch::{Batch, BatchViolations};
pub use error::{Cause, PetStoreError};
pub use idempotency_key::{Created, IdempotencyKey};
pub use import::{ImportChunk, ImportId, ImportProgress, Imported};
pub use operator::{Actor, Operator, OperatorName, Role};
pub use order::{NewOrder, Order, OrderId, OrderStatus, Quantity};
pub(crate) use page::list_of_pets;
pub use page::{ListOrders, ListPets, Page, PageSize};
pub use pet::{CategoryId, NewPet, Pet, PetId, PetName, PetStatus, RawPet};
pub(crate) use position::{AdminList, PageTokens};
pub use refusal::{Refusal, RefusalCause, RefusalCount};
pub(crate) use usage::{MAX_COUNT, UsageMinute, UsageReport, check_reporter};
pub use violation::{Violation, Violations};
