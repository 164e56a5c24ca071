//! Certificate of an HTTPS port, and its replacement while the port is served.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use petstore_telemetry::metrics::{Collectors, IntGauge, gauge};
use tokio::{task::spawn_blocking, time::sleep};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, sign::SingleCertAndKey},
};

use crate::tls;

/// PEM files of a certificate and its private key.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// File of the certificate, followed by those between it and its authority's.
    pub certificate: PathBuf,
    /// File of its private key.
    pub key: PathBuf,
}

/// Certificate in use. Clones share it.
#[derive(Clone)]
pub struct Certificate {
    files: CertificateFiles,
    in_use: Arc<Mutex<InUse>>,
    /// Metric of the end of the certificate in use.
    expiry: IntGauge,
}

/// Certificate for handshakes.
struct InUse {
    acceptor: TlsAcceptor,
    /// Content of the files at their last check, including a failed one.
    judged: Reading,
}

/// Reason why files cannot be used. It shows no part of their content.
#[derive(Debug, thiserror::Error)]
#[error("{fault}")]
pub struct InvalidCertificate {
    /// Name of the file, and its fault.
    fault: String,
    /// `true` if the fault is in the file of the key.
    pub is_in_key_file: bool,
}

impl Certificate {
    /// Reads the files, which blocks, and checks them.
    ///
    /// # Errors
    /// If they are not a certificate and its key.
    pub fn read(files: CertificateFiles) -> Result<Self, InvalidCertificate> {
        let pair = files.read()?;
        let expiry = expiry_gauge();
        let in_use = InUse { acceptor: acceptor(&pair, &files, &expiry)?, judged: Ok(pair) };
        Ok(Self { files, in_use: Arc::new(Mutex::new(in_use)), expiry })
    }

    /// Reads the files again, which blocks, and uses them immediately. Open connections continue.
    ///
    /// # Errors
    /// If they are not a certificate and its key. The old ones stay in use then.
    pub fn reload(&self) -> Result<(), InvalidCertificate> {
        let pair = self.files.read()?;
        let acceptor = acceptor(&pair, &self.files, &self.expiry)?;
        *self.in_use.lock() = InUse { acceptor, judged: Ok(pair) };
        Ok(())
    }

    /// Returns the acceptor that performs handshakes with the certificate in use.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.in_use.lock().acceptor.clone()
    }

    /// Takes new files into use. While they are incomplete or cannot be used, the old ones stay, and one line
    /// says so. Never ends.
    pub(super) async fn keep_current(self) {
        let mut last = self.in_use.lock().judged.clone();
        loop {
            sleep(Duration::from_secs(1)).await; // the files are small, and only reading them shows a change
            let files = self.files.clone();
            let Ok(now) = spawn_blocking(move || files.read().map_err(|error| error.to_string())).await
            else {
                continue; // the runtime is going away
            };
            // Read twice without a change: otherwise certificate and key may be of two different pairs, half
            // way through a replacement.
            let is_settled = now == last;
            last = now;
            if !is_settled || last == self.in_use.lock().judged {
                continue;
            }
            match last.clone().and_then(|pair| {
                acceptor(&pair, &self.files, &self.expiry).map_err(|error| error.to_string())
            }) {
                Ok(acceptor) => {
                    self.in_use.lock().acceptor = acceptor;
                    tracing::info!("the HTTPS certificate was replaced");
                }
                Err(error) => {
                    tracing::warn!(
                        error,
                        "the new HTTPS certificate cannot be used: the old one stays in use"
                    );
                }
            }
            self.in_use.lock().judged.clone_from(&last);
        }
    }
}

/// Content of the two files.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Content of the files, or the reason why they could not be read.
type Reading = Result<Pair, String>;

impl CertificateFiles {
    fn read(&self) -> Result<Pair, InvalidCertificate> {
        let read = |file: &Path, is_in_key_file| {
            fs::read(file).map_err(|error| {
                let error = error.to_string();
                // The message of the operating system without its number.
                let reason = error.split(" (os error").next().unwrap_or_default().to_lowercase();
                let fault = format!("cannot read {}: {reason}", file.display());
                InvalidCertificate { fault, is_in_key_file }
            })
        };
        Ok(Pair { certificate: read(&self.certificate, false)?, key: read(&self.key, true)? })
    }
}

/// Returns the metric of the end of the certificate in use, 0 without one.
#[must_use]
pub fn certificate_metrics(certificate: Option<&Certificate>) -> Collectors {
    vec![Box::new(certificate.map_or_else(expiry_gauge, |certificate| certificate.expiry.clone()))]
}

fn expiry_gauge() -> IntGauge {
    gauge(
        "petstore_https_certificate_expiry_timestamp_seconds",
        "Expiry of the HTTPS certificate, in Unix seconds; 0 without one.",
    )
}

/// Returns the acceptor that performs handshakes with the pair, and sets the gauge to its end.
fn acceptor(
    pair: &Pair,
    files: &CertificateFiles,
    expiry: &IntGauge,
) -> Result<TlsAcceptor, InvalidCertificate> {
    let certified = tls::certified_key(&pair.certificate, &pair.key).map_err(|error| {
        let is_in_key_file = error.is_in_key_file();
        let file = if is_in_key_file { &files.key } else { &files.certificate };
        InvalidCertificate { fault: format!("{} {error}", file.display()), is_in_key_file }
    })?;
    let ends = certified.cert.first().and_then(tls::not_after).unwrap_or_default();
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| {
            let fault = format!("{} cannot be used: {error}", files.certificate.display());
            InvalidCertificate { fault, is_in_key_file: false }
        })?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()]; // the best first (RFC 7301)
    expiry.set(ends);
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Leaves out the key.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}
