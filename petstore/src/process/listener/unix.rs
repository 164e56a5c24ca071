//! Listening on a Unix socket that only its owner can use. A stale socket is replaced.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use petstore_command_line::output_file::folder_of;
use rustix::{fs::Mode, process::umask};
use tokio::{
    net::{UnixListener, UnixStream},
    runtime::Handle,
};

/// File of a socket. Removed on drop, unless another process has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: Identity,
}

/// Device, inode and time of a file. The inode of one that was removed is soon that of another.
type Identity = (u64, u64, SystemTime);

/// Listens at the path, in mode 0600. Replaces a socket that exists already if no process listens on it; of
/// two processes that replace it at the same moment, only one can be reached. Blocks, and has to be called
/// inside a Tokio runtime.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    warn_if_others_can_write(folder_of(path))?;
    remove_stale(path)?;
    // Otherwise any user could connect between `bind` and `chmod`. The mask holds for all threads, and leaves
    // folders that another one makes meanwhile usable.
    let mask = umask(Mode::from(0o077));
    let bound = UnixListener::bind(path);
    umask(mask);
    let listener = bound?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok((listener, SocketFile { path: path.to_owned(), identity: identity(path)? }))
}

/// Removes a socket on which no process listens.
fn remove_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is not a socket"))
        }
        // Tokio's connect never blocks, even if the other side's queue is full.
        Ok(_) => match Handle::current().block_on(UnixStream::connect(path)) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
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

fn identity(path: &Path) -> io::Result<Identity> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino(), metadata.modified()?))
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_own = identity(&self.path).is_ok_and(|found| found == self.identity);
        if is_own && let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "could not remove the socket's file");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "there is nothing else");
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
    async fn a_file_that_is_not_a_socket_is_never_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core.sock");
        fs::write(&path, "precious").unwrap();
        let refusal = bind_at(&path).await.unwrap_err().to_string();
        assert_eq!(refusal, "there is a file that is not a socket");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
