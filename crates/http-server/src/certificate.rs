//! Certificate of an HTTPS port, and its replacement while the port is served.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use petstore_telemetry::metrics::{Collectors, IntGauge, gauge};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, sign::SingleCertAndKey},
};

use crate::tls::{self, PemError};

/// Certificate in use. Clones share it.
#[derive(Clone)]
pub struct Certificate {
    acceptor: Arc<Mutex<TlsAcceptor>>,
    /// Metric of the end of the certificate in use.
    expiry: IntGauge,
}

impl Certificate {
    /// Parses a certificate, followed by those between it and its authority's, and its private key.
    ///
    /// # Errors
    /// If they are not a certificate and its key.
    pub fn parse(certificate: &[u8], key: &[u8]) -> Result<Self, PemError> {
        let (certified, expiry) = (tls::certified_key(certificate, key)?, expiry_gauge());
        expiry.set(certified.cert.first().and_then(tls::not_after).unwrap_or_default());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| PemError::BadKey)?; // never: ring has the cipher suites of both versions
        let resolver = Arc::new(SingleCertAndKey::from(certified));
        let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()]; // the best first (RFC 7301)
        Ok(Self { acceptor: Arc::new(Mutex::new(TlsAcceptor::from(Arc::new(config)))), expiry })
    }

    /// Uses another certificate from now on. Open connections continue.
    pub fn replace(&self, other: &Self) {
        *self.acceptor.lock() = other.acceptor();
        self.expiry.set(other.expiry.get());
    }

    /// Returns the end of the certificate in use, in Unix seconds.
    pub fn expiry(&self) -> i64 {
        self.expiry.get()
    }

    /// Returns the acceptor that performs handshakes with the certificate in use.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.lock().clone()
    }
}

/// Returns the metric of the end of the certificate in use, 0 without one.
pub fn certificate_metrics(certificate: Option<&Certificate>) -> Collectors {
    vec![Box::new(certificate.map_or_else(expiry_gauge, |certificate| certificate.expiry.clone()))]
}

fn expiry_gauge() -> IntGauge {
    gauge(
        "petstore_https_certificate_expiry_timestamp_seconds",
        "Expiry of the HTTPS certificate, in Unix seconds; 0 without one.",
    )
}

/// Leaves out the key.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}
