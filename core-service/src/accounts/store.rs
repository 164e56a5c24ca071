//! Accounts in the database.

use petstore_database::Database;
use petstore_telemetry::metrics::Collectors;

pub mod accounts;
pub mod bans;
pub mod brownouts;
mod changes;
#[expect(missing_docs, reason = "the schema of the first migration describes the columns")]
pub mod entity;
pub mod keys;
mod refusals;
mod usage;

pub use usage::{AccountDay, DaysOf, MinutesOf, UsedShare, sum_of};

use brownouts::SentCalendar;
use changes::Answered;
use usage::UsageMetrics;

/// The accounts and what belongs to them. Clones share the connections.
#[derive(Clone)]
pub struct Accounts {
    database: Database,
    answered: Answered,
    calendar: SentCalendar,
    metrics: UsageMetrics,
}

impl Accounts {
    /// Returns the accounts in this database.
    pub fn new(database: Database) -> Self {
        let (answered, calendar) = (Answered::default(), SentCalendar::default());
        Self { database, answered, calendar, metrics: UsageMetrics::default() }
    }

    /// Returns the metrics.
    pub fn metrics(&self) -> Collectors {
        self.metrics.collectors()
    }

    /// Returns the accounts with this handle of their database.
    pub fn on(self, database: Database) -> Self {
        Self { database, ..self }
    }
}

#[cfg(test)]
mod test_support;
#[cfg(test)]
mod testing;
