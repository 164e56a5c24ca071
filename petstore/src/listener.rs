//! Ports, bound by whoever composes the process.

use std::{io, net::SocketAddr};

use tokio::net::TcpListener;

use crate::error::StartError;

/// A bound port, with its real number if 0 was asked for.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    pub(crate) addr: SocketAddr,
}

/// Binds the address that the setting names.
pub(crate) async fn bind(setting: &'static str, addr: SocketAddr) -> Result<Bound, StartError> {
    let failed = |source: io::Error| StartError::Listen { setting, addr, reason: reason(&source) };
    let listener = TcpListener::bind(addr).await.map_err(failed)?;
    let addr = listener.local_addr().map_err(failed)?;
    Ok(Bound { listener, addr })
}

/// What the operating system says, in the form of our own messages: `address already in use`.
fn reason(error: &io::Error) -> String {
    let said = error.to_string();
    let said = said.split(" (os error").next().unwrap_or_default();
    let mut letters = said.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_refused_with_the_setting_and_the_reason() {
        let taken = bind("--http-addr", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let refusal = bind("--http-addr", taken.addr).await.unwrap_err().to_string();
        assert_eq!(refusal, format!("--http-addr: cannot listen on {}: address already in use", taken.addr));
    }
}
