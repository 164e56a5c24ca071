//! `petstore migrate`: the schema of the store.

use clap::Subcommand;
use petstore_command_line::{
    block_on,
    output::{Column, OutputSettings, column, table},
};
use petstore_core::store::SCHEMA;
use petstore_database::{Loss, Losses, Migration, MigrationState, schema};
use petstore_settings::{DatabaseSettings, value::whole_number};
use serde_json::{Value, json};

use crate::error::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Apply all pending changes; a missing store is created
    Up(SchemaSettings),
    /// Revert the newest changes, and delete the data in them; without --yes, show what would be deleted
    Down {
        /// Number of changes to revert
        #[arg(long, default_value_t = 1, value_parser = whole_number(1..=1_000_u32), value_name = "N")]
        steps: u32,
        /// Revert the changes. Without this flag nothing is changed
        #[arg(long)] // no variable: it must be given each time
        yes: bool,
        #[command(flatten)]
        settings: SchemaSettings,
    },
    /// List all changes and the state of each in the store
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

const MIGRATIONS: &[Column] = &[column("MIGRATION", "name"), column("STATE", "state")];
const REVERTED: &[Column] = &[column("WOULD BE REVERTED", "name")];
const LOSSES: &[Column] = &[column("TABLE", "table"), column("COLUMN", "column"), column("ROWS", "rows")];

pub(crate) fn run(command: &Migrate) -> Result<(), CliError> {
    let (Migrate::Up(settings) | Migrate::Down { settings, .. } | Migrate::Status(settings)) = command;
    let (url, output) = (settings.database.url()?, settings.output);
    let migrations = block_on::<_, CliError>(
        "warn",
        Box::pin(async {
            Ok(match *command {
                Migrate::Up(_) => json(&schema::up(&url, &SCHEMA).await?),
                Migrate::Down { steps, yes: false, .. } => {
                    output.print(&losses_json(&schema::losses(&url, &SCHEMA, steps).await?), losses_text)?;
                    return Err(CliError::NotConfirmed);
                }
                Migrate::Down { steps, yes: true, .. } => json(&schema::down(&url, &SCHEMA, steps).await?),
                Migrate::Status(_) => json(&schema::status(&url, &SCHEMA).await?),
            })
        }),
    )?;
    Ok(output.print(&migrations, |migrations| table(MIGRATIONS, migrations))?)
}

fn json(migrations: &[Migration]) -> Value {
    let state = |migration: &Migration| match migration.state {
        MigrationState::Applied => "applied",
        MigrationState::Pending => "pending",
        MigrationState::Unknown => "unknown",
    };
    migrations.iter().map(|migration| json!({ "name": migration.name, "state": state(migration) })).collect()
}

fn losses_json(losses: &Losses) -> Value {
    let removed: Value = losses
        .removed
        .iter()
        .map(|Loss { table, column, rows }| json!({ "table": table, "column": column, "rows": rows }))
        .collect();
    json!({ "migrations": losses.migrations, "removed": removed })
}

/// Returns the changes that would be reverted, newest first, and the data in them.
fn losses_text(losses: &Value) -> String {
    let names = losses["migrations"].as_array().into_iter().flatten();
    let names = names.map(|name| json!({ "name": name })).collect();
    table(REVERTED, &names) + "\n" + &table(LOSSES, &losses["removed"])
}
