//! Certificates, made when a test needs them.

use std::{
    fmt, fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// Authority that issues certificates. Its files, and those of its certificates, are removed with it.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    folder: TempDir,
    issued: AtomicUsize,
}

/// Certificate and its private key, in PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Certificate, in PEM.
    pub pem: String,
    /// Private key, in PEM.
    pub key: String,
    /// Path of the certificate.
    pub file: String,
    /// Path of the private key.
    pub key_file: String,
}

impl Authority {
    /// Creates an authority that is not trusted yet.
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([]).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).expect("a certificate").pem();
        let folder = TempDir::new().expect("a temporary folder");
        fs::write(folder.path().join("authority.pem"), &pem).expect("a file");
        Self { issuer: Issuer::new(params, key), pem, folder, issued: AtomicUsize::new(0) }
    }

    /// Returns the authority's own certificate, for clients and servers that are to trust it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Returns the path of that certificate.
    pub fn file(&self) -> String {
        text(self.folder.path().join("authority.pem"))
    }

    /// Issues a new certificate for this host: a name, or an IP address.
    pub fn issue(&self, host: &str) -> Certificate {
        let key_pair = KeyPair::generate().expect("a key");
        let params = CertificateParams::new([host.to_owned()]).expect("a host");
        let pem = params.signed_by(&key_pair, &self.issuer).expect("a certificate").pem();
        let key = key_pair.serialize_pem();
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let place = |name: &str| self.folder.path().join(format!("{number}-{name}.pem"));
        let (file, key_file) = (place("certificate"), place("key"));
        fs::write(&file, &pem).expect("a file");
        fs::write(&key_file, &key).expect("a file");
        Certificate { pem, key, file: text(file), key_file: text(key_file) }
    }

    /// Writes a service token into a file that only its owner can read, in the authority's folder. Returns
    /// the path.
    pub fn keep_token(&self, token: &str) -> String {
        let number = self.issued.fetch_add(1, Ordering::Relaxed);
        let file = self.folder.path().join(format!("{number}-token"));
        fs::write(&file, token).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
        text(file)
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("folder", &self.folder).finish_non_exhaustive()
    }
}

fn text(path: PathBuf) -> String {
    path.into_os_string().into_string().expect("a temporary folder has a UTF-8 name")
}
