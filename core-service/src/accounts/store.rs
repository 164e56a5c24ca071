//! Accounts in the database.

use std::fmt;

use petstore_database::Database;

pub mod accounts;
pub mod bans;
pub mod brownouts;
mod changes;
mod entity;
pub mod keys;
mod refusals;
mod usage;

pub use usage::{AccountDay, DaysOf, MinutesOf, UsedShare};

use brownouts::SentCalendar;
use changes::Answered;

/// The accounts and what belongs to them. Clones share the connections.
#[derive(Clone)]
pub struct Accounts {
    database: Database,
    answered: Answered,
    calendar: SentCalendar,
}

impl Accounts {
    /// Returns the accounts in this database.
    pub(crate) fn new(database: Database) -> Self {
        Self { database, answered: Answered::default(), calendar: SentCalendar::default() }
    }

    /// Returns the accounts with this handle of their database.
    pub(crate) fn on(self, database: Database) -> Self {
        Self { database, ..self }
    }
}

impl fmt::Debug for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accounts").finish_non_exhaustive()
    }
}
