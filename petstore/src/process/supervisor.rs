//! States that the process tells its supervisor, by the protocol of `sd_notify(3)`: one datagram to the
//! socket that `NOTIFY_SOCKET` names. systemd then starts what depends on the service once it serves
//! (`Type=notify`).

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::{
    env,
    ffi::OsStr,
    io,
    os::unix::{
        ffi::OsStrExt,
        net::{SocketAddr, UnixDatagram},
    },
};

/// All parts serve.
pub(super) const READY: &[u8] = b"READY=1";
/// The process stops.
pub(super) const STOPPING: &[u8] = b"STOPPING=1";

/// Tells the state to the supervisor, if there is one. A supervisor that does not listen is no reason not to
/// serve: it is named in the log.
pub(super) fn tell(state: &[u8]) {
    let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(name.as_bytes(), state) {
        tracing::warn!(%error, "cannot tell the supervisor at NOTIFY_SOCKET");
    }
}

/// Sends a datagram to a path, or to an abstract address, which begins with `@`. Never waits.
fn send(name: &[u8], state: &[u8]) -> io::Result<()> {
    let address = match name {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state, &address).map(drop)
}
