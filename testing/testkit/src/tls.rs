//! TLS connections of a client.

use std::{fmt, io, net::SocketAddr, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use crate::Authority;

/// Protocol that a client offers over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// Both protocols.
    pub const ALL: [Self; 2] = [Self::Http1, Self::Http2];

    /// Returns the name in ALPN.
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// TLS client that trusts one authority, and offers one protocol.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    protocol: Protocol,
}

impl Tls {
    /// Creates a client that trusts only the certificates of this authority.
    pub fn trusting(authority: &Authority, protocol: Protocol) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(authority.pem().as_bytes()).expect("PEM");
        roots.add(authority).expect("a certificate");
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.name().to_vec()];
        Self { connector: TlsConnector::from(Arc::new(config)), protocol }
    }

    /// Returns the offered protocol.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Opens a connection on which only the handshake has taken place.
    ///
    /// # Errors
    ///
    /// If one of the two sides refuses the other, or if the protocol was not accepted.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = self.connector.connect(ServerName::from(address.ip()), stream).await?;
        if stream.get_ref().1.alpn_protocol() == Some(self.protocol.name()) {
            Ok(stream)
        } else {
            Err(io::Error::other("the server does not speak the protocol"))
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("protocol", &self.protocol).finish_non_exhaustive()
    }
}
