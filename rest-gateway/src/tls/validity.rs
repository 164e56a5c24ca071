//! End of a certificate's validity, which rustls does not expose. It parses only the part of X.509 before
//! that field.

use tokio_rustls::rustls::pki_types::CertificateDer;

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0] EXPLICIT`: the version, which the first version of X.509 leaves out.
const VERSION: u8 = 0xa0;

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
