//! `petstore migrate`: the schema of the store.

use clap::Subcommand;
use petstore_core::store::schema::{self, Migration, MigrationState};
use serde_json::{Value, json};

use crate::{administration::AdministrationSettings, error::Failure, output::columns};

#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Apply every pending change; a missing store is created
    Up(AdministrationSettings),
    /// Take back the newest changes, with the data that is in them
    Down {
        /// How many changes
        #[arg(long, env = "PETSTORE_STEPS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
        steps: u32,
        #[command(flatten)]
        settings: AdministrationSettings,
    },
    /// List every change, and whether the store has it
    Status(AdministrationSettings),
}

pub(crate) fn run(verb: Migrate) -> Result<(), Failure> {
    let (settings, migrations) = match verb {
        Migrate::Up(settings) => {
            let migrations = settings.on_url(async |url| Ok(schema::up(url).await?))?;
            (settings, migrations)
        }
        Migrate::Down { steps, settings } => {
            let migrations = settings.on_url(async |url| Ok(schema::down(url, steps).await?))?;
            (settings, migrations)
        }
        Migrate::Status(settings) => {
            let migrations = settings.on_url(async |url| Ok(schema::status(url).await?))?;
            (settings, migrations)
        }
    };
    settings.print(|| text(&migrations), || json(&migrations))
}

fn text(migrations: &[Migration]) -> String {
    let rows: Vec<_> = migrations
        .iter()
        .map(|migration| [migration.name.clone(), state(migration.state).to_owned()])
        .collect();
    columns(["MIGRATION", "STATE"], &rows)
}

fn json(migrations: &[Migration]) -> Value {
    migrations
        .iter()
        .map(|migration| json!({ "name": migration.name, "state": state(migration.state) }))
        .collect()
}

fn state(state: MigrationState) -> &'static str {
    match state {
        MigrationState::Applied => "applied",
        MigrationState::Pending => "pending",
        MigrationState::Unknown => "unknown",
    }
}
