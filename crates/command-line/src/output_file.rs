//! Files that commands write. A new file has a random name, which nobody can prepare, until it is complete.
//! An existing file is replaced only on request, and a part of a store never by accident.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use petstore_caller::api_key::redact;
use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, fchmod, fstat, open, openat, renameat,
        renameat_with, statat, unlinkat,
    },
    io::Errno,
    process::{geteuid, umask},
};

/// Kind of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// Text. Others can read it as the umask or the replaced file says, and it may go to a device or pipe.
    Text,
    /// Copy of a store, for its owner alone.
    Backup,
    /// Part of a store, for its owner alone.
    Store,
}

/// Reason why a file is not written, or may not be on the disk yet.
#[derive(Debug, thiserror::Error)]
pub enum OutputFileError {
    /// There is such a file.
    #[error("{} exists; --force replaces it", .0.display())]
    Exists(PathBuf),
    /// The service may need what is there.
    #[error(
        "{} may be part of a store (its database, a log of it or a key): name another file, or move it away \
         first",
        .0.display()
    )]
    PartOfStore(PathBuf),
    /// The file must be regular.
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    /// A link of another user might lead anywhere.
    #[error("a symbolic link at {} belongs to user {owner}: name the file that it leads to", file.display())]
    ForeignLink {
        /// File that was named.
        file: PathBuf,
        /// Owner of the link.
        owner: u32,
    },
    /// The operating system refuses it.
    #[error("cannot write {}", file.display())]
    Io {
        /// File that was named.
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl OutputFileError {
    /// Returns `true` if the reader of a pipe is gone.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == ErrorKind::BrokenPipe)
    }
}

/// Output of a command: a new file, which appears under its name only when complete and is removed if it is
/// dropped before, or an existing device or pipe. A killed process leaves `.petstore-….partial` behind.
#[derive(Debug)]
pub struct OutputFile {
    name: PathBuf,
    file: File,
    /// The new file; `None` for a device or pipe.
    new: Option<NewFile>,
}

/// File without its name. All steps take place in the opened folder, which therefore cannot be exchanged.
#[derive(Debug)]
struct NewFile {
    folder: File,
    /// Path after all symbolic links at its end.
    path: PathBuf,
    temporary: String,
    target: OsString,
    replaced: Option<Stat>,
    kind: OutputKind,
    force: bool,
}

impl OutputFile {
    /// Opens an output. Symbolic links at the end of the name are followed if they belong to this user or to
    /// root. Without `force`, there must be no file of that name. A pipe is waited for.
    ///
    /// # Errors
    ///
    /// If the file must not or cannot be written.
    pub fn create(name: &Path, kind: OutputKind, force: bool) -> Result<Self, OutputFileError> {
        if name.as_os_str() == "-" {
            let source = io::Error::other("it would be stdout; `./-` is a file of this name");
            return Err(OutputFileError::Io { file: name.to_owned(), source });
        }
        Self::create_at(name, resolve(name)?, kind, force)
    }

    /// Opens an output at a path whose links have been followed.
    fn create_at(name: &Path, path: PathBuf, kind: OutputKind, force: bool) -> Result<Self, OutputFileError> {
        let failed = |source| OutputFileError::Io { file: name.to_owned(), source };
        let target = path.file_name().filter(|_| !name.as_os_str().as_bytes().ends_with(b"/"));
        let target = target.ok_or_else(|| failed(ErrorKind::IsADirectory.into()))?.to_owned();
        let folder = open(folder_of(&path), OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let folder = File::from(folder.map_err(|error| failed(error.into()))?);
        let replaced = match statat(&folder, &target, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Some(found),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(failed(error.into())),
        };
        match replaced.map(|found| FileType::from_raw_mode(found.st_mode)) {
            None | Some(FileType::RegularFile) => {}
            // It was made after the links had been followed.
            Some(FileType::Symlink) if !is_in_proc(&folder) => return Err(failed(Errno::LOOP.into())),
            Some(found) if kind == OutputKind::Text && found != FileType::BlockDevice => {
                let file = open_existing(&folder, &target, found).map_err(failed)?;
                return Ok(Self { name: name.to_owned(), file, new: None });
            }
            Some(_) => return Err(OutputFileError::NotRegular(name.to_owned())),
        }
        if is_part_of_store(&folder, &target, kind, replaced.is_some()).map_err(failed)? {
            return Err(OutputFileError::PartOfStore(name.to_owned()));
        }
        if replaced.is_some() && !force {
            return Err(OutputFileError::Exists(name.to_owned()));
        }
        let temporary = format!(".petstore-{:016x}.partial", rand::random::<u64>());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&folder, &temporary, flags, Mode::RUSR | Mode::WUSR);
        let file = file.map_err(|error| failed(error.into()))?.into();
        let new = Some(NewFile { folder, path, temporary, target, replaced, kind, force });
        Ok(Self { name: name.to_owned(), file, new })
    }

    /// Returns the open file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path that the new file gets, after all symbolic links at its end.
    pub fn target(&self) -> &Path {
        self.new.as_ref().map_or(&self.name, |new| &new.path)
    }

    /// Returns the path of the new file until it is complete.
    pub fn temporary(&self) -> PathBuf {
        self.new.as_ref().map_or(self.name.clone(), |new| new.path.with_file_name(&new.temporary))
    }

    /// Returns user and group of the file that is replaced, otherwise of the folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn previous_owner(&self) -> io::Result<(u32, u32)> {
        let new = self.new.as_ref();
        let replaced = new.and_then(|new| new.replaced);
        let found = match replaced {
            Some(replaced) => replaced,
            None => fstat(new.map_or(&self.file, |new| &new.folder))?,
        };
        Ok((found.st_uid, found.st_gid))
    }

    /// Writes the content, and completes the file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn fill(self, content: &[u8]) -> Result<(), OutputFileError> {
        (&self.file).write_all(content).map_err(|source| self.error(source))?;
        self.complete()
    }

    /// Syncs a new file to the disk, and gives it its name.
    ///
    /// # Errors
    ///
    /// If it cannot be synced or renamed, or another process has made a file of that name meanwhile.
    pub fn complete(self) -> Result<(), OutputFileError> {
        let Some(new) = &self.new else { return Ok(()) };
        match new.publish(&self.file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(OutputFileError::Exists(self.name.clone()))
            }
            published => published.map_err(|source| self.error(source)),
        }
    }

    /// Returns the error of this file.
    pub fn error(&self, source: io::Error) -> OutputFileError {
        OutputFileError::Io { file: self.name.clone(), source }
    }
}

impl NewFile {
    fn publish(&self, file: &File) -> io::Result<()> {
        let mode = match (self.kind, self.replaced) {
            (OutputKind::Text, Some(replaced)) => Mode::from_raw_mode(replaced.st_mode & 0o777),
            (OutputKind::Text, None) => Mode::from_raw_mode(0o666) & !current_umask(),
            (OutputKind::Backup | OutputKind::Store, _) => Mode::RUSR | Mode::WUSR,
        };
        fchmod(file, mode)?;
        file.sync_all()?;
        let flags = if self.force { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        match renameat_with(&self.folder, &self.temporary, &self.folder, &self.target, flags) {
            // A file system without this flag.
            Err(Errno::INVAL) => renameat(&self.folder, &self.temporary, &self.folder, &self.target)?,
            renamed => renamed?,
        }
        self.folder.sync_all()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // A complete file no longer has this name. One that remains is in nobody's way. SQLite leaves its
        // journal if a copy fails.
        for end in ["", "-journal"] {
            let _ = unlinkat(&self.folder, format!("{}{end}", self.temporary), AtFlags::empty());
        }
    }
}

/// Returns the umask. Files that another thread creates meanwhile are closed to others.
fn current_umask() -> Mode {
    let current = umask(Mode::RWXG | Mode::RWXO);
    umask(current);
    current
}

/// Follows the symbolic links at the end of a path, except those in `/proc`, which are open files.
fn resolve(name: &Path) -> Result<PathBuf, OutputFileError> {
    /// Maximum number of links, as in Linux.
    const MAX_LINKS: usize = 40;
    let failed = |source| OutputFileError::Io { file: name.to_owned(), source };
    let mut path = name.to_owned();
    for _ in 0..MAX_LINKS {
        let link = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_symlink() => found,
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => return Ok(path),
        };
        let folder = folder_of(&path);
        if folder.canonicalize().map_err(failed)?.starts_with("/proc") {
            return Ok(path);
        }
        let owner = link.uid();
        if owner != 0 && owner != geteuid().as_raw() {
            return Err(OutputFileError::ForeignLink { file: name.to_owned(), owner });
        }
        path = folder.join(fs::read_link(&path).map_err(failed)?);
    }
    Err(failed(Errno::LOOP.into()))
}

/// Returns `true` if links in this folder stand for open files.
fn is_in_proc(folder: &File) -> bool {
    #[cfg(target_os = "linux")]
    let is_in_proc = rustix::fs::fstatfs(folder).is_ok_and(|it| it.f_type == rustix::fs::PROC_SUPER_MAGIC);
    #[cfg(not(target_os = "linux"))]
    let is_in_proc = folder.metadata().is_err();
    is_in_proc
}

/// Opens a device or pipe, or the open file that a link in `/proc` stands for.
fn open_existing(folder: &File, target: &OsStr, found: FileType) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
    let is_link = found == FileType::Symlink;
    let file = openat(folder, target, if is_link { flags } else { flags | OFlags::NOFOLLOW }, Mode::empty())?;
    if !is_link && FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
        return Err(ErrorKind::AlreadyExists.into()); // it was exchanged
    }
    Ok(file.into())
}

/// Returns `true` if the file may be a part of a store: a log of SQLite by its name, a database, or a key or
/// token in its first KiB. A backup may replace another one, which is not in WAL mode.
fn is_part_of_store(folder: &File, target: &OsStr, kind: OutputKind, exists: bool) -> io::Result<bool> {
    if kind == OutputKind::Store {
        return Ok(false);
    }
    let ends = [b"-wal".as_slice(), b"-shm", b"-journal"];
    if ends.iter().any(|end| target.as_bytes().ends_with(end)) {
        return Ok(true);
    }
    if !exists {
        return Ok(false);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut head = Vec::new();
    File::from(openat(folder, target, flags, Mode::empty())?).take(1_024).read_to_end(&mut head)?;
    let text = String::from_utf8_lossy(&head);
    let is_secret = redact(&text) != text || text.contains("PRIVATE KEY-----");
    let is_database = head.starts_with(b"SQLite format 3\0");
    let is_in_wal_mode = head.get(18..20) == Some(&[2, 2]); // https://www.sqlite.org/fileformat.html
    Ok(is_secret || is_database && (kind == OutputKind::Text || is_in_wal_mode))
}

/// Returns `true` if no other user can exchange what a path in this folder leads to.
///
/// # Errors
///
/// If the folder, or one above it, cannot be read.
pub fn is_private(folder: &Path) -> io::Result<bool> {
    for folder in folder.canonicalize()?.ancestors() {
        let found = fs::metadata(folder)?;
        let is_ours = found.uid() == 0 || found.uid() == geteuid().as_raw();
        let is_open = found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0; // without the sticky bit
        if !is_ours || is_open {
            return Ok(false);
        }
    }
    Ok(true)
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

#[cfg(test)]
mod tests {
    use std::os::{fd::AsRawFd, unix::fs::symlink};

    use super::*;

    #[test]
    fn a_link_that_is_made_after_links_were_followed_is_not_written_except_an_open_file_in_proc() {
        let folder = tempfile::tempdir().unwrap();
        let (name, precious) = (folder.path().join("out"), folder.path().join("precious"));
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, &name).unwrap();
        for kind in [OutputKind::Text, OutputKind::Backup, OutputKind::Store] {
            let refusal = OutputFile::create_at(&name, name.clone(), kind, true).unwrap_err();
            assert!(refusal.to_string().starts_with("cannot write "), "{refusal}");
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        let open = File::options().append(true).open(&precious).unwrap();
        let name = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        OutputFile::create(&name, OutputKind::Text, false).unwrap().fill(b", more").unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious, more");
    }
}
