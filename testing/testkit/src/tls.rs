//! TLS as a client speaks it.

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

/// What a client offers to speak over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

impl Protocol {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Http1, Self::Http2];

    /// Its name in ALPN.
    fn name(self) -> &'static [u8] {
        match self {
            Self::Http1 => b"http/1.1",
            Self::Http2 => b"h2",
        }
    }
}

/// Trusts one authority, and offers one protocol.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    protocol: Protocol,
}

impl Tls {
    /// Trusts the certificates of this authority alone.
    #[must_use]
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

    /// What is offered.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// A connection on which nothing has been said but the handshake.
    ///
    /// # Errors
    ///
    /// The refusal of one of the two sides, and a protocol that was not taken.
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
