//! Domain types and their rules. Each rule is defined here once: both edges, REST and gRPC, answer with its
//! result and its text.

mod account;
mod api_key;
mod audit;
mod ban;
mod creation;
mod error;
mod operator;
mod order;
mod page;
mod pet;
mod refusal;
mod retention;
mod text;
mod usage;
mod violation;

pub use petstore_clock::{Day, Minute};
pub use petstore_plans::Quota;

pub(crate) use account::ListAccounts;
pub use account::{Account, AccountId, AccountName, AccountUpdate, Plan, PlanUpdate, Suspension};
pub use api_key::{ApiKeyRecord, IssuedKey, KeyId, KeyState, NewExpiry};
pub(crate) use audit::{Audited, Change, ListAuditEvents, Subject, ban_json};
pub(crate) use ban::BanNote;
pub use ban::{Ban, BanOrigin};
pub use creation::{Batch, BatchViolations, Created, IdempotencyKey, ImportChunk, ImportId, ImportProgress};
pub use error::{Cause, PetStoreError};
pub use operator::{Actor, Operator, OperatorName, Role};
pub use order::{NewOrder, Order, OrderId, OrderStatus, Quantity};
pub use page::{ListOrders, ListPets, Page, PageSize};
pub(crate) use page::{PageTokens, list_of_pets};
pub use pet::{NewPet, Pet, PetId, PetName, PetStatus, RawPet};
pub use refusal::{Refusal, RefusalCause, RefusalCount};
pub(crate) use retention::KEPT;
pub use text::Remark;
pub(crate) use usage::{MAX_COUNT, UsageMinute, UsageReport, check_reporter};
pub use violation::{Violation, Violations};
