//! A Unix socket that only its owner can use, in the place of one that nobody serves any more.

use std::{
    fs::{self, DirBuilder, File, Permissions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process, thread,
    time::{Duration, Instant},
};

use tokio::{
    net::{UnixListener, UnixStream},
    runtime::Handle,
};

/// Another process holds the folder's lock for as long as it takes to look at a file and replace it.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Removes the socket's file when it is dropped, unless another process has put its own there meanwhile.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

/// Listens at the path, in mode 0600. A socket that is there already is replaced if nobody listens on it. To be
/// called inside a Tokio runtime, where blocking is allowed.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let folder = folder_of(path);
    let _lock = lock(folder)?; // until the new socket is in its place
    make_way(path)?;
    // Made in a folder that nobody else can enter: otherwise everybody could connect between `bind` and `chmod`.
    let workshop = folder.join(format!(".petstore-{}", process::id()));
    let made = workshop.join("s");
    let _ = fs::remove_file(&made); // what an earlier process of this number may have left
    let _ = fs::remove_dir(&workshop);
    DirBuilder::new().mode(0o700).create(&workshop)?;
    let bound = make(&made, path);
    let _ = fs::remove_file(&made); // there only after a failure
    let _ = fs::remove_dir(&workshop); // empty; nothing depends on it
    bound
}

fn make(made: &Path, path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let listener = UnixListener::bind(made)?;
    fs::set_permissions(made, Permissions::from_mode(0o600))?;
    fs::rename(made, path)?;
    let file = SocketFile { path: path.to_owned(), identity: identity(path)? };
    Ok((listener, file))
}

/// Refuses if anybody listens at the path, or something else than a socket is there.
fn make_way(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"))
        }
        // Tokio's way to connect never blocks, also when the other side's queue is full.
        Ok(_) => match Handle::current().block_on(UnixStream::connect(path)) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            Ok(_) | Err(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "address already in use")),
        },
    }
}

/// The lock that keeps two processes from replacing each other's socket.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begin.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let removed = lock(folder_of(&self.path)).and_then(|_lock| {
            if identity(&self.path)? == self.identity { fs::remove_file(&self.path) } else { Ok(()) }
        });
        if let Err(error) = removed {
            tracing::debug!(%error, "could not remove the socket's file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn bind_at(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
        let path = path.to_owned();
        tokio::task::spawn_blocking(move || bind(&path)).await.unwrap()
    }

    #[tokio::test]
    async fn the_socket_is_its_owners_alone_and_goes_with_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core.sock");
        let (_listener, file) = bind_at(&path).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        UnixStream::connect(&path).await.unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left there");
        drop(file);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_that_somebody_serves_is_left_alone_and_a_stale_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core.sock");
        let (listener, stale) = bind_at(&path).await.unwrap();
        assert_eq!(bind_at(&path).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        UnixStream::connect(&path).await.unwrap();
        drop(listener);

        let (_listener, _file) = bind_at(&path).await.unwrap();
        drop(stale);
        UnixStream::connect(&path).await.expect("the new socket stays when the old process ends");
    }

    #[tokio::test]
    async fn what_is_no_socket_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core.sock");
        fs::write(&path, "precious").unwrap();
        let refusal = bind_at(&path).await.unwrap_err().to_string();
        assert_eq!(refusal, "there is a file that is no socket");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
