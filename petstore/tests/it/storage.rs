//! The store: durability, faults of the database, and its operation on SQLite and PostgreSQL.

mod durability;
mod engines;
mod lost_pets;
mod postgres_outages;
mod postgres_tls;
mod power_cuts;
mod replicas;
mod sqlite_faults;
mod waiting_writes;
