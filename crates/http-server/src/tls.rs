//! Certificates and keys in PEM files, with errors that name the file and its fault.

use std::sync::Arc;

use tokio_rustls::rustls::{
    Error, InconsistentKeys, RootCertStore,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::ParsedCertificate,
    sign::CertifiedKey,
};

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
        match self {
            Self::NoKey | Self::BadKey | Self::KeyMismatch => true,
            Self::NoCertificate | Self::BadCertificate | Self::BadAuthority => false,
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
    let has_key = |name: &[u8]| {
        roots
            .roots
            .iter()
            .any(|root| root.subject_public_key_info.windows(name.len()).any(|part| part == name))
    };
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

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0] EXPLICIT`: the version, which the first version of X.509 leaves out.
const VERSION: u8 = 0xa0;

/// Returns the end of the first certificate in a PEM file, in Unix seconds; `None` if none can be read.
pub fn expiry(file: &[u8]) -> Option<i64> {
    certificates(file).ok()?.first().and_then(not_after)
}

/// Returns the end of the certificate's validity (RFC 5280 §4.1.2.5), in Unix seconds.
pub(crate) fn not_after(certificate: &CertificateDer<'_>) -> Option<i64> {
    let mut certificate = Der(content(certificate, SEQUENCE)?);
    let mut fields = Der(content(certificate.next()?.whole, SEQUENCE)?);
    let first = fields.next()?;
    if first.tag == VERSION {
        fields.next()?; // the serial number
    }
    fields.next()?; // the signature's algorithm
    fields.next()?; // the issuer
    let mut validity = Der(content(fields.next()?.whole, SEQUENCE)?);
    validity.next()?; // notBefore
    time(&validity.next()?)
}

/// Elements of DER (X.690), one after the other.
struct Der<'a>(&'a [u8]);

struct Element<'a> {
    tag: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Der<'a> {
    fn next(&mut self) -> Option<Element<'a>> {
        let (&[tag, length], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = if length < 0x80 {
            (usize::from(length), rest)
        } else {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            let length = digits.iter().try_fold(0_usize, |length, &digit| {
                length.checked_mul(256).map(|length| length | usize::from(digit))
            })?;
            (length, rest)
        };
        let (content, after) = rest.split_at_checked(length)?;
        let whole = self.0.get(..self.0.len() - after.len())?;
        self.0 = after;
        Some(Element { tag, content, whole })
    }
}

/// Returns the content of the element if it has this tag.
fn content(whole: &[u8], tag: u8) -> Option<&[u8]> {
    Der(whole).next().filter(|element| element.tag == tag).map(|element| element.content)
}

/// Parses `YYMMDDHHMMSSZ`, of 1950 to 2049, or `YYYYMMDDHHMMSSZ`, to Unix seconds.
fn time(element: &Element<'_>) -> Option<i64> {
    let written = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    let (year, rest) = match element.tag {
        UTC_TIME => {
            let (year, rest) = written.split_at_checked(2)?;
            let year: i16 = year.parse().ok()?;
            (if year < 50 { 2_000 + year } else { 1_900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = written.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(2 * at..2 * at + 2)?.parse::<i8>().ok();
    let moment =
        jiff::civil::DateTime::new(year, part(0)?, part(1)?, part(2)?, part(3)?, part(4)?, 0).ok()?;
    Some(moment.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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

    proptest! {
        #[test]
        fn no_bytes_make_reading_panic(bytes: Vec<u8>) {
            let _ = not_after(&CertificateDer::from(bytes));
        }
    }
}
