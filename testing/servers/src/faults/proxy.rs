//! Handle of the proxy for tests, and its accept loop.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    os::fd::AsFd,
    sync::{Arc, atomic::Ordering},
};

use rustix::net::Shutdown;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::{AbortHandle, JoinSet},
};

use super::{Fault, connection::carry, control::Control};
use crate::port::free_port;

/// TCP proxy on a port of 127.0.0.1 in front of one target, or of several in turn. When it is dropped, it
/// ends with its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    /// `true` if the accept loop has a listener.
    listening: watch::Receiver<bool>,
    accept_loop: AbortHandle,
}

impl Proxy {
    /// Starts a proxy to the target, without a fault. The target need not listen yet; a connection that it
    /// does not accept is reset.
    #[expect(clippy::unused_async, reason = "it needs a runtime, as every start of a server does")]
    pub async fn to(target: SocketAddr) -> Self {
        let (port, listener) = loop {
            if let Ok(taken) = Port::take(free_port()) {
                break taken;
            }
        };
        let address = port.socket.local_addr().expect("a bound socket");
        let control = Arc::new(Control::new(target));
        let (is_listening, listening) = watch::channel(true);
        let accept_loop = tokio::spawn(accept(port, listener, Arc::clone(&control), is_listening));
        Self { address, control, listening, accept_loop: accept_loop.abort_handle() }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault, or ends it with [`Fault::None`]. When this returns it is in force.
    pub async fn set(&self, fault: Fault) {
        self.control.set(fault);
        let refuses = fault == Fault::Refuse;
        self.listening.clone().wait_for(|listening| *listening != refuses).await.expect("an accept loop");
        if refuses {
            self.reset_connections();
        }
    }

    /// Carries new connections to another target, as if a name or an address moved to another server. Open
    /// connections stay.
    pub fn lead_to(&self, target: SocketAddr) {
        self.lead_to_each(&[target]);
    }

    /// Carries new connections to these targets in turn, as a load balancer does. Without a target they are
    /// reset. Open connections stay.
    pub fn lead_to_each(&self, targets: &[SocketAddr]) {
        self.control.set_targets(targets);
    }

    /// Resets all open connections, on both sides. New ones are accepted as before.
    pub fn reset_connections(&self) {
        self.control.resets.send_modify(|count| *count += 1);
    }

    /// Returns the number of accepted connections.
    pub fn connections(&self) -> u64 {
        self.control.accepted.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that [`Fault::CutOnce`] has cut.
    pub fn cuts(&self) -> u64 {
        self.control.cut.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accept_loop.abort();
    }
}

/// Port of the proxy, which nobody else can have while it refuses.
#[derive(Debug)]
struct Port {
    socket: TcpSocket,
}

impl Port {
    /// Binds the port of 127.0.0.1, and listens.
    fn take(port: u16) -> io::Result<(Self, TcpListener)> {
        let taken = Self { socket: TcpSocket::new_v4()? };
        taken.socket.bind((Ipv4Addr::LOCALHOST, port).into())?;
        let listener = taken.listen()?;
        Ok((taken, listener))
    }

    /// Listens, beside connections that were accepted before.
    fn listen(&self) -> io::Result<TcpListener> {
        self.socket.set_reuseaddr(true)?;
        rustix::net::listen(&self.socket, 1_024)?;
        TcpListener::from_std(self.socket.as_fd().try_clone_to_owned()?.into())
    }

    /// Ends the listening. Connections that were not accepted are reset, new ones refused. Once only: a
    /// second shutdown would apply to the connections after it.
    fn refuse(&self) {
        rustix::net::shutdown(&self.socket, Shutdown::Both).expect("it listens");
        // With SO_REUSEADDR, others that have it too could bind the port while this socket does not listen.
        self.socket.set_reuseaddr(false).expect("an open socket");
    }
}

async fn accept(port: Port, listener: TcpListener, control: Arc<Control>, is_listening: watch::Sender<bool>) {
    let mut listener = Some(listener);
    let mut setting = control.setting.subscribe();
    let mut connections = JoinSet::new();
    loop {
        let fault = setting.borrow_and_update().fault;
        if fault == Fault::Refuse {
            if listener.take().is_some() {
                port.refuse();
            }
        } else if listener.is_none() {
            listener = Some(port.listen().expect("a bound port"));
        }
        is_listening.send_replace(listener.is_some());
        tokio::select! {
            _ = setting.changed() => {}
            Some(_) = connections.join_next() => {}
            stream = accepted(listener.as_ref()) => {
                control.accepted.fetch_add(1, Ordering::Relaxed);
                if fault == Fault::ResetOnAccept {
                    let _ = stream.set_zero_linger(); // the drop sends a reset
                } else if fault == Fault::CloseOnAccept {
                    tokio::spawn(async move {
                        let mut stream = stream;
                        let mut request = [0; 4_096];
                        // Unread bytes would turn the close into a reset.
                        let _ = stream.read(&mut request).await;
                    });
                } else {
                    // Subscribed here, so that a reset before the task starts applies to it too.
                    let resets = control.resets.subscribe();
                    connections.spawn(carry(stream, control.next_target(), Arc::clone(&control), resets));
                }
            }
        }
    }
}

/// Returns the next connection. Never completes without a listener.
async fn accepted(listener: Option<&TcpListener>) -> TcpStream {
    loop {
        match listener {
            None => std::future::pending::<()>().await,
            Some(listener) => {
                if let Ok((stream, _)) = listener.accept().await {
                    return stream;
                }
            }
        }
    }
}
