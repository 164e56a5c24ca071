//! `petstore migrate`, `backup` and `restore`: the schema of a store, and a copy of one in a SQLite file.

use std::{
    env,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt, fchown},
    path::{Path, PathBuf},
};

use clap::Subcommand;
use petstore_command_line::{
    Signals, block_on,
    output::{self, Column, OutputSettings, column, reason, table},
    output_file::{OutputFile, OutputFileError, OutputKind, beside, folder_of, is_private},
};
use petstore_core::store::SCHEMA;
use petstore_database::{Loss, Losses, Migration, MigrationState, OpenError, backup, schema};
use petstore_settings::{DatabaseSettings, InvalidSetting, value::whole_number};
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use serde_json::{Value, json};

use crate::error::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum Migrate {
    /// Apply all pending changes; a missing SQLite store is created
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

const NOT_CONFIRMED: &str = "nothing was changed; with --yes, this command reverts these changes and deletes \
    their data";

pub(crate) fn migrate(command: &Migrate) -> Result<(), CliError> {
    let (Migrate::Up(settings) | Migrate::Down { settings, .. } | Migrate::Status(settings)) = command;
    let (url, output) = (settings.database.url()?, settings.output);
    let migrations = block_on::<_, CliError>(
        "warn",
        Box::pin(async {
            Ok(match *command {
                Migrate::Up(_) => json(&schema::up(&url, &SCHEMA).await?),
                Migrate::Down { steps, yes: false, .. } => {
                    output.print(&losses_json(&schema::losses(&url, &SCHEMA, steps).await?), losses_text)?;
                    return Err(CliError::Refused(NOT_CONFIRMED.to_owned()));
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

#[derive(Debug, clap::Args)]
pub(crate) struct BackupSettings {
    /// File to write, mode 0600. It appears under its name only when complete
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace FILE if it exists
    #[arg(long)] // no variable: it must be given each time
    force: bool,

    #[command(flatten)]
    database: DatabaseSettings,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RestoreSettings {
    /// Backup, which stays as it is
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Replace the store that is there, with all that was added since the backup
    #[arg(long)] // no variable: it must be given each time
    force: bool,

    #[command(flatten)]
    database: DatabaseSettings,
}

/// Ends of the names of SQLite's logs. The content of such a file beside a database is applied to it when it
/// is opened, even if it belongs to another database.
const LOGS: [&str; 2] = ["-wal", "-journal"];

pub(crate) fn back_up(settings: &BackupSettings) -> Result<(), CliError> {
    let BackupSettings { file, force, database } = settings;
    let store = sqlite_file(database)?;
    run(async {
        let copy = OutputFile::create(file, OutputKind::Backup, *force)?;
        require_no_log(copy.target())?;
        let temporary = copy.temporary();
        if is_private(folder_of(&temporary)).map_err(CliError::file(file))? {
            backup::copy(&store, &SCHEMA, &temporary).await.map_err(CliError::Copy)?;
        } else {
            // SQLite needs a path, whose folder another user could exchange.
            let folder = tempfile::tempdir().map_err(CliError::file(&env::temp_dir()))?;
            let private = folder.path().join("copy.db");
            backup::copy(&store, &SCHEMA, &private).await.map_err(CliError::Copy)?;
            let copied = File::open(&private).and_then(|from| io::copy(&mut &from, &mut copy.file()));
            copied.map_err(CliError::file(file))?;
        }
        Ok(copy.complete()?)
    })?;
    Ok(output::print(&format!("wrote {}\n", file.display()))?)
}

pub(crate) fn restore(settings: &RestoreSettings) -> Result<(), CliError> {
    let RestoreSettings { file, force, database } = settings;
    let store = sqlite_file(database)?;
    run(async {
        let mut backup = tokio::fs::File::from_std(open_backup(file)?);
        require_no_log(&file.canonicalize().map_err(CliError::file(file))?)?;
        fs::create_dir_all(folder_of(&store)).map_err(CliError::file(&store))?;
        // The copy is checked, not the backup, which may change meanwhile.
        let copy = OutputFile::create(&store, OutputKind::Store, *force)?;
        let mut new = tokio::fs::File::from_std(copy.file().try_clone().map_err(CliError::file(&store))?);
        let names = format!("{} to {}", file.display(), store.display());
        let failed = |error| CliError::Failed(format!("cannot copy {names}: {}", reason(&error)));
        tokio::io::copy(&mut backup, &mut new).await.map_err(failed)?;
        backup::check(&copy.temporary(), &SCHEMA, file).await.map_err(CliError::Copy)?;
        let (user, group) = copy.previous_owner().map_err(CliError::file(&store))?;
        let _ = fchown(copy.file(), Some(user), Some(group)); // only root may, and has to
        let target = copy.target();
        let is_there = target.try_exists().map_err(CliError::file(&store))?;
        let _lock = if is_there { Some(close(target).await?) } else { None };
        require_no_log(target)?;
        Ok(copy.complete()?)
    })?;
    Ok(output::print(&format!("restored {}\n", store.display()))?)
}

/// Opens a backup, which is a regular file: nobody may ever write to a FIFO, and a device may never end.
fn open_backup(file: &Path) -> Result<File, CliError> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let backup =
        OpenOptions::new().read(true).custom_flags(flags).open(file).map_err(CliError::file(file))?;
    let is_regular = backup.metadata().map_err(CliError::file(file))?.is_file();
    if is_regular { Ok(backup) } else { Err(OutputFileError::NotRegular(file.to_owned()).into()) }
}

/// Makes the store's file complete without its log, and locks it against every connection of SQLite. A
/// damaged file keeps its log.
async fn close(store: &Path) -> Result<File, CliError> {
    let in_use = || CliError::Failed(format!("{} is in use: stop the service first", store.display()));
    match backup::remove_log(store).await {
        Ok(()) | Err(OpenError::Corrupt(..)) => {}
        Err(OpenError::Busy(..)) => return Err(in_use()),
        Err(error) => return Err(error.into()),
    }
    let open = OpenOptions::new().read(true).write(true).open(store).map_err(CliError::file(store))?;
    fcntl_lock(&open, FlockOperation::NonBlockingLockExclusive).map_err(|_| in_use())?;
    Ok(open)
}

fn require_no_log(file: &Path) -> Result<(), CliError> {
    for log in LOGS.map(|end| beside(file, end)) {
        if log.try_exists().map_err(CliError::file(&log))? {
            return Err(CliError::Failed(format!(
                "{} is there, and SQLite would apply it to {}, to which it may not belong: copy a store with \
                 `petstore backup`, or move it away first",
                log.display(),
                file.display()
            )));
        }
    }
    Ok(())
}

fn sqlite_file(database: &DatabaseSettings) -> Result<PathBuf, InvalidSetting> {
    let url = database.url()?;
    let rule = "is not a SQLite file; use pg_dump and pg_restore for PostgreSQL";
    url.sqlite_file().map(Path::to_owned).ok_or_else(|| InvalidSetting::new("--database-url", rule))
}

/// Runs the work until it ends, or until SIGTERM or SIGINT. Then it leaves nothing behind.
fn run(work: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    let interruptible = async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = work => done,
            signal = signals.received() => {
                Err(CliError::Failed(format!("ended by {signal}; nothing was changed")))
            }
        }
    };
    block_on("warn", Box::pin(interruptible))
}
