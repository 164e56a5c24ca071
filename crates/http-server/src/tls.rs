//! Certificates and keys in PEM files, with errors that name the file and its fault. The certificate of an
//! HTTPS port can be replaced while the port is served.

use std::sync::Arc;

use parking_lot::Mutex;
use petstore_telemetry::metrics::{Collectors, IntGauge, Sampled, gauge};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        Error, InconsistentKeys, RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{
            CertificateDer, PrivateKeyDer,
            pem::{self, PemObject},
        },
        server::ParsedCertificate,
        sign::{CertifiedKey, SingleCertAndKey},
    },
};

/// Reason why a file is not a certificate, or not a key. It shows no part of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// The file has no certificate.
    #[error("holds no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    /// The PEM is broken, or its content is not a certificate.
    #[error("holds PEM that is not a certificate, or is damaged")]
    BadCertificate,
    /// The file has no key.
    #[error("holds no private key in PEM without a password, which begins with -----BEGIN PRIVATE KEY-----")]
    NoKey,
    /// The PEM is broken, or the key is of another kind.
    #[error(
        "holds a private key that cannot be used: it must be without a password, and RSA with 2048 to 8192 \
         bits, ECDSA on P-256 or P-384, or Ed25519"
    )]
    BadKey,
    /// No authority has a key that is supported.
    #[error(
        "holds no authority that can be used: its key must be RSA with 2048 to 8192 bits, ECDSA on P-256 or \
         P-384, or Ed25519"
    )]
    BadAuthority,
    /// Certificate and key are valid, but do not belong together.
    #[error("holds the key of another certificate")]
    KeyMismatch,
}

impl PemError {
    /// Returns `true` if the fault is in the file of the key, `false` if in that of the certificate.
    pub const fn is_in_key_file(self) -> bool {
        matches!(self, Self::NoKey | Self::BadKey | Self::KeyMismatch)
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

/// Parses the certificates of authorities in a file, one of which at least can be used.
///
/// # Errors
///
/// If the file has none, or one that cannot be read.
pub fn authorities(file: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let (found, mut roots) = (certificates(file)?, RootCertStore::empty());
    roots.add_parsable_certificates(found.iter().cloned());
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    let mut names = algorithms.iter().map(|algorithm| algorithm.public_key_alg_id());
    let is_in = |name: &[u8], key: &[u8]| key.windows(name.len()).any(|part| part == name);
    let has_key = |name: &[u8]| roots.roots.iter().any(|root| is_in(name, &root.subject_public_key_info));
    if names.any(|name| has_key(&name)) { Ok(found) } else { Err(PemError::BadAuthority) }
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

/// Certificate in use: the acceptor that performs handshakes with it, and its end in Unix seconds. Clones
/// share it.
#[derive(Clone)]
pub struct Certificate(Arc<Mutex<(TlsAcceptor, i64)>>);

impl Certificate {
    /// Parses a certificate, followed by those between it and its authority's, and its private key.
    ///
    /// # Errors
    /// If they are not a certificate and its key.
    pub fn parse(certificate: &[u8], key: &[u8]) -> Result<Self, PemError> {
        let certified = certified_key(certificate, key)?;
        let expiry = certified.cert.first().and_then(not_after).unwrap_or_default();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| PemError::BadKey)?; // never: ring has the cipher suites of both versions
        let resolver = Arc::new(SingleCertAndKey::from(certified));
        let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()]; // the best first (RFC 7301)
        Ok(Self(Arc::new(Mutex::new((TlsAcceptor::from(Arc::new(config)), expiry)))))
    }

    /// Uses another certificate from now on. Open connections continue.
    pub fn replace(&self, other: &Self) {
        let other = other.0.lock().clone();
        *self.0.lock() = other;
    }

    /// Returns the end of the certificate in use, in Unix seconds.
    pub fn expiry(&self) -> i64 {
        self.0.lock().1
    }

    /// Returns the acceptor that performs handshakes with the certificate in use.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.0.lock().0.clone()
    }
}

/// Returns the metric of the end of the certificate in use, 0 without one. Its name begins with the prefix.
pub fn certificate_metrics(prefix: &str, certificate: Option<&Certificate>) -> Collectors {
    let name = format!("{prefix}https_certificate_expiry_timestamp_seconds");
    let expiry = gauge(&name, "Expiry of the HTTPS certificate, in Unix seconds; 0 without one.");
    let certificate = certificate.cloned();
    vec![Sampled::boxed(expiry, move |expiry: &IntGauge| {
        expiry.set(certificate.as_ref().map_or(0, Certificate::expiry));
    })]
}

/// Returns the end of the first certificate in a PEM file, in Unix seconds; `None` if none can be read.
pub fn expiry(file: &[u8]) -> Option<i64> {
    certificates(file).ok()?.first().and_then(not_after)
}

/// Returns the end of the certificate's validity (RFC 5280 §4.1.2.5), in Unix seconds.
fn not_after(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

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

    #[test]
    fn the_expiry_is_read_before_and_after_2050() {
        for (year, end) in [(2027, 1_798_761_600), (2049, 2_493_072_000), (2051, 2_556_144_000)] {
            let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, 1, 1);
            let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            assert_eq!(not_after(certificate.der()), Some(end), "{year}"); // date -ud YEAR-01-01 +%s
        }
    }
}
