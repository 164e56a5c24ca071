//! Certificates and keys in PEM files, with errors that name the file and its fault.

use std::sync::Arc;

use tokio_rustls::rustls::{
    Error, InconsistentKeys,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::ParsedCertificate,
    sign::CertifiedKey,
};

mod validity;

pub(crate) use validity::not_after;

/// Reason why a file is not a certificate, or not a key. It shows no part of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// The file has no certificate.
    #[error("holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    /// The PEM is broken, or its content is not a certificate.
    #[error("holds a certificate that cannot be read: it is damaged")]
    BadCertificate,
    /// The file has no key.
    #[error("holds no private key in PEM, which begins with -----BEGIN PRIVATE KEY-----")]
    NoKey,
    /// The PEM is broken, or the key is of another kind.
    #[error(
        "holds a private key that cannot be used: it must be an RSA, ECDSA or Ed25519 key without a password"
    )]
    BadKey,
    /// Certificate and key are valid, but do not belong together.
    #[error("holds the key of another certificate")]
    KeyMismatch,
}

impl PemError {
    /// Returns `true` if the fault is in the file of the key, `false` if in that of the certificate.
    #[must_use]
    pub const fn is_in_key_file(self) -> bool {
        match self {
            Self::NoKey | Self::BadKey | Self::KeyMismatch => true,
            Self::NoCertificate | Self::BadCertificate => false,
        }
    }
}

/// Parses the certificates in a file, at least one.
///
/// # Errors
///
/// If the file has none, or one that cannot be read.
pub fn certificates(file: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let chain = CertificateDer::pem_slice_iter(file)
        .collect::<Result<Vec<_>, pem::Error>>()
        .map_err(|_| PemError::BadCertificate)?;
    if chain.is_empty() {
        return Err(PemError::NoCertificate);
    }
    if chain.iter().any(|certificate| ParsedCertificate::try_from(certificate).is_err()) {
        return Err(PemError::BadCertificate);
    }
    Ok(chain)
}

/// Parses a certificate, followed by its intermediates, and its private key.
///
/// # Errors
///
/// If one of the files cannot be used, or they do not belong together.
pub fn certified_key(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, PemError> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        pem::Error::NoItemsFound => PemError::NoKey,
        _ => PemError::BadKey,
    })?;
    let key = ring::default_provider().key_provider.load_private_key(key).map_err(|_| PemError::BadKey)?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(certified)),
        Err(_) => Err(PemError::KeyMismatch),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn issue() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn fault(certificate: &str, key: &str) -> PemError {
        certified_key(certificate.as_bytes(), key.as_bytes()).unwrap_err()
    }

    #[test]
    fn an_error_names_the_invalid_file_and_its_fault() {
        let ((certificate, key), (_, other_key)) = (issue(), issue());
        assert!(certified_key(certificate.as_bytes(), key.as_bytes()).is_ok());
        let damaged = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
        for (certificate, key, expected) in [
            ("junk", key.as_str(), PemError::NoCertificate),
            ("", &key, PemError::NoCertificate),
            (&key, &certificate, PemError::NoCertificate),
            (&damaged("CERTIFICATE"), &key, PemError::BadCertificate),
            ("-----BEGIN CERTIFICATE-----\n!\n", &key, PemError::BadCertificate),
            (&certificate, "junk", PemError::NoKey),
            (&certificate, &certificate, PemError::NoKey),
            (&certificate, &damaged("PRIVATE KEY"), PemError::BadKey),
            (&certificate, &other_key, PemError::KeyMismatch),
        ] {
            assert_eq!(fault(certificate, key), expected);
        }
    }
}
