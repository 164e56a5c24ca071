//! Files that get their name once they are complete, so that an incomplete one is never mistaken for a
//! complete one.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// Permissions of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everyone can read and write it, except as the umask forbids.
    OfUmask,
    /// Only the owner can read it, regardless of the umask.
    Owner,
}

/// File that is written as `NAME.partial`, by one process at a time, and is renamed when it is complete.
/// Otherwise it is removed when this is dropped. One that a killed process has left is overwritten.
#[derive(Debug)]
pub struct PartialFile {
    /// The open file, which holds the lock.
    file: File,
    path: PathBuf,
    name: PathBuf,
}

impl PartialFile {
    /// Creates `NAME.partial`, empty.
    ///
    /// # Errors
    ///
    /// If it cannot be created, or another process is writing it.
    pub fn create(name: &Path, mode: Mode) -> io::Result<Self> {
        let path = beside(name, ".partial");
        loop {
            let bits = if mode == Mode::Owner { 0o600 } else { 0o666 };
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true).create(true).truncate(false).mode(bits);
            let file = options.open(&path)?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    let text = format!("another process is writing {}", path.display());
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
                }
                Ok(()) | Err(TryLockError::Error(_)) => {} // a file system without locks
            }
            // Another process may have renamed or removed it before this one had the lock.
            if identity(&path)? != Some(identity_of(&file.metadata()?)) {
                continue;
            }
            file.set_len(0)?;
            if mode == Mode::Owner {
                file.set_permissions(Permissions::from_mode(bits))?;
            }
            return Ok(Self { file, path, name: name.to_owned() });
        }
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path until the file is complete.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file to the disk, and gives it its name, in place of another file of that name.
    ///
    /// # Errors
    ///
    /// If the file cannot be synced or renamed.
    pub fn complete(self) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, &self.name)?;
        File::open(folder_of(&self.name))?.sync_all()
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After `complete` there may be a file of the next process at this path.
        let is_ours =
            || Ok::<_, io::Error>(identity(&self.path)? == Some(identity_of(&self.file.metadata()?)));
        if is_ours().unwrap_or(false) {
            let _ = fs::remove_file(&self.path); // a remaining file is overwritten
        }
    }
}

/// Returns the path with this at the end of the file's name.
pub fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.file_name().map(OsString::from).unwrap_or_default();
    name.push(end);
    file.with_file_name(name)
}

/// Returns the folder of a file.
pub fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns device and inode of the file at the path; `None` if there is none.
///
/// # Errors
///
/// If the file system fails.
pub fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(identity_of(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn identity_of(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
