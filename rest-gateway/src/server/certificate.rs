//! The certificate of an HTTPS port, and its replacement while the port is served.

use std::{
    fmt, fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::sleep};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self, ServerConfig,
        crypto::ring,
        pki_types::{
            CertificateDer, PrivateKeyDer,
            pem::{self, PemObject},
        },
    },
};

/// How often the files are looked at. They are small, and reading them is what tells for certain.
const LOOK: Duration = Duration::from_secs(1);
/// What the port speaks, best first (ALPN, RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Where a certificate and its private key are, in PEM.
#[derive(Clone, Debug)]
pub struct CertificateFiles {
    /// The certificate, followed by those between it and its authority's.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// A certificate in use. Clones share it.
#[derive(Clone)]
pub struct Certificate {
    files: CertificateFiles,
    in_use: Arc<Mutex<InUse>>,
}

/// What handshakes are performed with.
struct InUse {
    acceptor: TlsAcceptor,
    /// What the files said when they were last judged, well or not.
    judged: Reading,
}

/// Why files are no certificate. What is in them is not told.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCertificate {
    /// One of the files cannot be read.
    #[error("cannot read {}: {}", file.display(), source.kind())]
    Unreadable {
        /// Which one.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not PEM, or not the right thing in PEM.
    #[error("must be a certificate and its private key in PEM")]
    NotPem(#[source] pem::Error),
    /// The two do not belong together, or are of a kind that TLS does not take.
    #[error("the certificate and the key cannot be used together: {0}")]
    Unusable(#[from] rustls::Error),
}

impl Certificate {
    /// Reads the files, which blocks, and judges them.
    ///
    /// # Errors
    /// When they are no certificate and its key.
    pub fn read(files: CertificateFiles) -> Result<Self, InvalidCertificate> {
        let pair = files.read()?;
        let in_use = InUse { acceptor: acceptor(&pair)?, judged: Ok(pair) };
        Ok(Self { files, in_use: Arc::new(Mutex::new(in_use)) })
    }

    /// Reads the files again, which blocks, and takes them into use at once. Connections that are open go on.
    ///
    /// # Errors
    /// When they are no certificate and its key. The old ones stay in use then.
    pub fn reload(&self) -> Result<(), InvalidCertificate> {
        let pair = self.files.read()?;
        let acceptor = acceptor(&pair)?;
        *self.lock() = InUse { acceptor, judged: Ok(pair) };
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, InUse> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner) // no code panics while it holds the lock
    }

    /// Performs handshakes with what is in use now.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.lock().acceptor.clone()
    }

    /// Takes new files into use. While new ones are not there whole, or are no certificate, the old one stays, and
    /// one line says so. Never ends.
    pub(super) async fn keep_current(self) {
        let mut last = self.lock().judged.clone();
        loop {
            sleep(LOOK).await;
            let files = self.files.clone();
            let Ok(now) = spawn_blocking(move || files.read().map_err(|error| error.to_string())).await
            else {
                continue; // the runtime is going away
            };
            // Seen twice: otherwise certificate and key may be of two different pairs, half way through.
            let is_settled = now == last;
            last = now;
            if !is_settled || last == self.lock().judged {
                continue;
            }
            match last.clone().and_then(|pair| acceptor(&pair).map_err(|error| error.to_string())) {
                Ok(acceptor) => {
                    self.lock().acceptor = acceptor;
                    tracing::info!("the HTTPS certificate was replaced");
                }
                Err(reason) => {
                    tracing::warn!(reason, "the new HTTPS certificate cannot be used: the old one stays");
                }
            }
            self.lock().judged.clone_from(&last);
        }
    }
}

/// What is in the two files.
#[derive(Clone, PartialEq, Eq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// What a look at the files showed: a pair, or why there is none.
type Reading = Result<Pair, String>;

impl CertificateFiles {
    fn read(&self) -> Result<Pair, InvalidCertificate> {
        let read = |file: &PathBuf| {
            fs::read(file).map_err(|source| InvalidCertificate::Unreadable { file: file.clone(), source })
        };
        Ok(Pair { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }
}

fn acceptor(pair: &Pair) -> Result<TlsAcceptor, InvalidCertificate> {
    let chain = CertificateDer::pem_slice_iter(&pair.certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(InvalidCertificate::NotPem)?;
    let key = PrivateKeyDer::from_pem_slice(&pair.key).map_err(InvalidCertificate::NotPem)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Without the key.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}
