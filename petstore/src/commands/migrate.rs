//! `petstore migrate`: the schema of the store.

use clap::Subcommand;
use petstore_core::{
    DatabaseUrl,
    store::schema::{self, Loss, Losses, Migration, MigrationState},
};
use serde_json::{Value, json};
use tokio::runtime;

use crate::{
    error::CliError,
    output::{OutputSettings, columns, command_log},
    settings::{DatabaseSettings, value::whole_number},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Apply all pending changes; a missing store is created
    Up(SchemaSettings),
    /// Revert the newest changes, and delete the data in them; without --yes, show what would be deleted
    Down {
        /// How many changes to revert
        #[arg(long, default_value_t = 1, value_parser = whole_number(1..=1_000_u32), value_name = "N")]
        steps: u32,
        /// Revert them. Without it nothing is changed
        #[arg(long)] // no variable: it must be given each time
        yes: bool,
        #[command(flatten)]
        settings: SchemaSettings,
    },
    /// List all changes, and whether the store has them
    Status(SchemaSettings),
}

/// Store, and form of the result.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SchemaSettings {
    #[command(flatten)]
    database: DatabaseSettings,

    #[command(flatten)]
    output: OutputSettings,
}

impl SchemaSettings {
    /// Does the work on the store at the URL.
    fn on_url<T>(&self, work: impl AsyncFnOnce(&DatabaseUrl) -> Result<T, CliError>) -> Result<T, CliError> {
        command_log();
        let url = self.database.url()?;
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::runtime)?;
        runtime.block_on(work(&url))
    }
}

pub(crate) fn run(verb: Migrate) -> Result<(), CliError> {
    let (settings, migrations) = match verb {
        Migrate::Up(settings) => {
            let migrations = settings.on_url(async |url| Ok(schema::up(url).await?))?;
            (settings, migrations)
        }
        Migrate::Down { steps, yes: false, settings } => {
            let losses = settings.on_url(async |url| Ok(schema::losses(url, steps).await?))?;
            settings.output.print(|| losses_text(&losses), || losses_json(&losses))?;
            return Err(CliError::NotConfirmed);
        }
        Migrate::Down { steps, yes: true, settings } => {
            let migrations = settings.on_url(async |url| Ok(schema::down(url, steps).await?))?;
            (settings, migrations)
        }
        Migrate::Status(settings) => {
            let migrations = settings.on_url(async |url| Ok(schema::status(url).await?))?;
            (settings, migrations)
        }
    };
    Ok(settings.output.print(|| text(&migrations), || json(&migrations))?)
}

fn text(migrations: &[Migration]) -> String {
    let rows: Vec<_> = migrations
        .iter()
        .map(|migration| vec![migration.name.clone(), state(migration.state).to_owned()])
        .collect();
    columns(&["MIGRATION", "STATE"], &rows)
}

fn json(migrations: &[Migration]) -> Value {
    migrations
        .iter()
        .map(|migration| json!({ "name": migration.name, "state": state(migration.state) }))
        .collect()
}

/// Returns the data that would be deleted, newest change first.
fn losses_text(losses: &Losses) -> String {
    let migrations: Vec<_> = losses.migrations.iter().map(|name| vec![name.clone()]).collect();
    let removed: Vec<_> = losses
        .removed
        .iter()
        .map(|Loss { table, column, rows }| {
            vec![table.clone(), column.clone().unwrap_or_default(), rows.to_string()]
        })
        .collect();
    columns(&["WOULD BE TAKEN BACK"], &migrations) + "\n" + &columns(&["TABLE", "COLUMN", "ROWS"], &removed)
}

fn losses_json(losses: &Losses) -> Value {
    let removed: Value = losses
        .removed
        .iter()
        .map(|Loss { table, column, rows }| json!({ "table": table, "column": column, "rows": rows }))
        .collect();
    json!({ "migrations": losses.migrations, "removed": removed })
}

fn state(state: MigrationState) -> &'static str {
    match state {
        MigrationState::Applied => "applied",
        MigrationState::Pending => "pending",
        MigrationState::Unknown => "unknown",
    }
}
