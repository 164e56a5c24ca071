//! `petstore backup` and `petstore restore`: a copy of a store in a SQLite file.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, fchown},
    path::{Path, PathBuf},
};

use petstore_command_line::{
    Signals, block_on, output,
    partial_file::{Mode, PartialFile, beside, folder_of, identity},
};
use petstore_core::store::SCHEMA;
use petstore_database::{OpenError, backup};
use petstore_settings::{DatabaseSettings, InvalidSetting};
use rustix::fs::{FlockOperation, fcntl_lock};

use crate::error::{BackupError, CliError};

#[derive(Debug, clap::Args)]
pub(crate) struct BackupSettings {
    /// File to write, mode 0600. It gets its name once it is complete
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
        let there = identity(file).map_err(BackupError::io(file))?;
        if there.is_some() && identity(&store).map_err(BackupError::io(&store))? == there {
            return Err(BackupError::Itself(file.clone()).into());
        }
        if there.is_some() && !force {
            return Err(BackupError::Exists(file.clone()).into());
        }
        require_no_log(file)?;
        let copy = PartialFile::create(file, Mode::Owner).map_err(BackupError::io(file))?;
        backup::copy(&store, &SCHEMA, copy.path()).await?;
        Ok(copy.complete().map_err(BackupError::io(file))?)
    })?;
    Ok(output::print(&format!("wrote {}\n", file.display()))?)
}

pub(crate) fn restore(settings: &RestoreSettings) -> Result<(), CliError> {
    let RestoreSettings { file, force, database } = settings;
    let store = sqlite_file(database)?;
    run(async {
        let is_there = identity(&store).map_err(BackupError::io(&store))?.is_some();
        if is_there && !force {
            return Err(BackupError::Exists(store.clone()).into());
        }
        require_no_log(file)?;
        fs::create_dir_all(folder_of(&store)).map_err(BackupError::io(&store))?;
        // The copy is checked, not the backup, which may change meanwhile.
        let copy = PartialFile::create(&store, Mode::Owner).map_err(BackupError::io(&store))?;
        let mut backup = File::open(file).map_err(BackupError::io(file))?;
        io::copy(&mut backup, &mut copy.file()).map_err(BackupError::io(file))?;
        backup::check(copy.path(), &SCHEMA, file).await?;
        let owner = if is_there { fs::metadata(&store) } else { fs::metadata(folder_of(&store)) };
        let owner = owner.map_err(BackupError::io(&store))?;
        let _ = fchown(copy.file(), Some(owner.uid()), Some(owner.gid())); // only root may, and has to
        let _lock = if is_there { Some(close(&store).await?) } else { None };
        require_no_log(&store)?;
        Ok(copy.complete().map_err(BackupError::io(&store))?)
    })?;
    Ok(output::print(&format!("restored {}\n", store.display()))?)
}

/// Makes the store's file complete without its log, and locks it against every connection of SQLite. A
/// damaged file keeps its log.
async fn close(store: &Path) -> Result<File, CliError> {
    match backup::remove_log(store).await {
        Ok(()) | Err(OpenError::Corrupt(..)) => {}
        Err(OpenError::Busy(..)) => return Err(BackupError::InUse(store.to_owned()).into()),
        Err(error) => return Err(error.into()),
    }
    let open = OpenOptions::new().read(true).write(true).open(store).map_err(BackupError::io(store))?;
    fcntl_lock(&open, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| BackupError::InUse(store.to_owned()))?;
    Ok(open)
}

fn require_no_log(file: &Path) -> Result<(), BackupError> {
    for log in LOGS.map(|end| beside(file, end)) {
        if identity(&log).map_err(BackupError::io(&log))?.is_some() {
            return Err(BackupError::Log { log, file: file.to_owned() });
        }
    }
    Ok(())
}

fn sqlite_file(database: &DatabaseSettings) -> Result<PathBuf, InvalidSetting> {
    let url = database.url()?;
    url.sqlite_file().map(Path::to_owned).ok_or_else(|| {
        InvalidSetting::new(
            "--database-url",
            "is not a SQLite file; use pg_dump and pg_restore for PostgreSQL",
        )
    })
}

/// Runs the work until it ends, or until SIGTERM or SIGINT. Then it leaves nothing behind.
fn run(work: impl Future<Output = Result<(), CliError>>) -> Result<(), CliError> {
    let interruptible = async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = work => done,
            signal = signals.received() => Err(BackupError::Ended(signal).into()),
        }
    };
    block_on("warn", Box::pin(interruptible))
}
