//! Listening on a Unix socket that only its owner can use. A stale socket is replaced.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process, thread,
    time::{Duration, Instant},
};

use rustix::process::geteuid;
use tokio::{
    net::{UnixListener, UnixStream},
    runtime::Handle,
};

use petstore_command_line::output_file::folder_of;

/// Timeout of waiting for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// File of a socket. Removed on drop, unless another process has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

/// Listens at the path, in mode 0600. Replaces a socket that exists already if no process listens on it.
/// Blocks, and has to be called inside a Tokio runtime.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let folder = folder_of(path);
    warn_if_others_can_write(folder)?;
    let _lock = lock(path)?; // until the new socket is in its place
    check_replaceable(path)?;
    // Created in a folder that no other user can enter: otherwise any user could connect between `bind` and
    // `chmod`.
    let private = folder.join(format!(".petstore-{}", process::id()));
    let temporary = private.join("s");
    let _ = fs::remove_file(&temporary); // an earlier process with this id may have left it
    let _ = fs::remove_dir(&private);
    DirBuilder::new().mode(0o700).create(&private)?;
    let bound = create(&temporary, path);
    let _ = fs::remove_file(&temporary); // exists only after a failure
    let _ = fs::remove_dir(&private); // empty; nothing depends on it
    bound
}

fn create(temporary: &Path, path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let listener = UnixListener::bind(temporary)?;
    fs::set_permissions(temporary, Permissions::from_mode(0o600))?;
    fs::rename(temporary, path)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    Ok((listener, file))
}

/// Fails if a process listens at the path, or if it is not a socket.
fn check_replaceable(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is not a socket"))
        }
        // Tokio's connect never blocks, even if the other side's queue is full.
        Ok(_) => match Handle::current().block_on(UnixStream::connect(path)) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            Ok(_) | Err(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "address already in use")),
        },
    }
}

/// Warns if other users can write to the folder, and so replace the socket.
fn warn_if_others_can_write(folder: &Path) -> io::Result<()> {
    const STICKY: u32 = 0o1000;
    let mode = fs::metadata(folder)?.mode();
    if mode & 0o002 != 0 && mode & STICKY == 0 {
        let folder = folder.display();
        tracing::warn!(
            "every user of this machine can replace the socket: only its owner should write to {folder}"
        );
    }
    Ok(())
}

/// Returns the lock that keeps two processes from replacing each other's socket, until it is dropped. It is a
/// file beside the socket, which only their user can open and which stays. Every user that can read the
/// folder could lock the folder itself, and so keep the service from starting.
fn lock(socket: &Path) -> io::Result<File> {
    let file = open_own(&lock_file(socket))?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // Another process holds it while it inspects and replaces a file.
            Err(TryLockError::WouldBlock) if begin.elapsed() < LOCK_TIMEOUT => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn lock_file(socket: &Path) -> PathBuf {
    let name = socket.file_name().unwrap_or_default().to_string_lossy();
    folder_of(socket).join(format!(".{name}.lock"))
}

/// Opens or creates a file that only this user can open. Refuses one that other users have created.
fn open_own(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => return made,
    }
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() || found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        let path = path.display();
        let refusal =
            format!("{path} is not a file of this user alone: remove it, and let nobody else write there");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal));
    }
    options.open(path)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let removed = lock(&self.path).and_then(|_lock| {
            if identity(&self.path)? == self.identity { fs::remove_file(&self.path) } else { Ok(()) }
        });
        if let Err(error) = removed {
            tracing::debug!(%error, "could not remove the socket's file");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Read,
        os::unix::{
            fs::{chown, symlink},
            process::CommandExt,
        },
        process::{Command, Stdio},
    };

    use super::*;

    async fn bind_at(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
        let path = path.to_owned();
        tokio::task::spawn_blocking(move || bind(&path)).await.unwrap()
    }

    #[tokio::test]
    async fn the_socket_is_private_to_its_owner_and_removed_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core.sock");
        let (_listener, file) = bind_at(&path).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        UnixStream::connect(&path).await.unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "there is nothing else but the lock");
        drop(file);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_in_use_is_left_alone_and_a_stale_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core.sock");
        let (listener, stale) = bind_at(&path).await.unwrap();
        assert_eq!(bind_at(&path).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        UnixStream::connect(&path).await.unwrap();
        drop(listener);
        // A process that another test is starting holds a copy of the socket between its fork and its exec.
        let copies_close = async {
            while UnixStream::connect(&path).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), copies_close).await.expect("nobody serves it");

        let (_listener, _file) = bind_at(&path).await.unwrap();
        drop(stale);
        UnixStream::connect(&path).await.expect("the new socket stays when the old process ends");
    }

    #[tokio::test]
    async fn another_user_cannot_delay_the_start() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap(); // as under /run
        let path = folder.path().join("core.sock");
        let as_another_user = |command: &mut Command| {
            if geteuid().is_root() {
                command.uid(65_534).gid(65_534);
            }
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut holder = Command::new("flock");
        let holder =
            holder.arg("--no-fork").arg(folder.path()).args(["sh", "-c", "echo held; exec sleep 30"]);
        let mut holder = as_another_user(holder);
        let mut held = [0; 4];
        holder.stdout.as_mut().unwrap().read_exact(&mut held).unwrap();

        let begin = Instant::now();
        let (_listener, _file) = bind_at(&path).await.unwrap();
        assert!(begin.elapsed() < LOCK_TIMEOUT);
        holder.kill().unwrap();
        holder.wait().unwrap();

        let _lock = lock(&path).unwrap();
        assert_eq!(fs::metadata(lock_file(&path)).unwrap().mode() & 0o777, 0o600);
        if geteuid().is_root() {
            let mut reader = Command::new("cat");
            assert!(
                !as_another_user(reader.arg(lock_file(&path))).wait().unwrap().success(),
                "another user can open it"
            );
        }
    }

    #[tokio::test]
    async fn a_lock_file_of_another_user_is_refused_by_name_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (path, lock) = (folder.path().join("core.sock"), folder.path().join(".core.sock.lock"));
        let elsewhere = folder.path().join("precious");
        symlink(&elsewhere, &lock).unwrap();
        let refusal = bind_at(&path).await.unwrap_err().to_string();
        assert!(refusal.contains(".core.sock.lock is not a file of this user alone"), "{refusal}");
        assert!(!elsewhere.exists(), "nothing is made where the link leads");
        fs::remove_file(&lock).unwrap();
        fs::write(&lock, "").unwrap();
        fs::set_permissions(&lock, Permissions::from_mode(0o666)).unwrap();
        assert_eq!(bind_at(&path).await.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        if geteuid().is_root() {
            fs::set_permissions(&lock, Permissions::from_mode(0o600)).unwrap();
            chown(&lock, Some(65_534), None).unwrap();
            assert_eq!(bind_at(&path).await.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        }
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_not_a_socket_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core.sock");
        fs::write(&path, "precious").unwrap();
        let refusal = bind_at(&path).await.unwrap_err().to_string();
        assert_eq!(refusal, "there is a file that is not a socket");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
