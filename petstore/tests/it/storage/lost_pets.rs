//! Durability of acknowledged calls: each is kept once, even if faults strike between a core and its
//! database.
//!
//! Callers make every kind of call on one of two cores, and a fault strikes its database: on PostgreSQL at
//! single messages of the protocol, on SQLite at the file. What was acknowledged must be seen through the
//! other core at once, and must still be there when the first core has been killed; nothing may be there
//! twice; and no connection may be left inside a transaction.
//!
//! `PETSTORE_TEST_LONG=1` (`scripts/test --long`) injects every fault at every message that there is, a
//! thousand at least.

mod answers;
mod callers;
mod cores;
mod postgres;
mod sqlite;
