//! The form that keys and the tokens of operators share: a prefix, 30 random base62 characters, and 6 of a
//! checksum over all that precedes.

use rand::distr::{Alphanumeric, Distribution};

const RANDOM_LEN: usize = 30;
const CHECKSUM_LEN: usize = 6;
/// Length of the part after the prefix.
pub(crate) const SECRET_LEN: usize = RANDOM_LEN + CHECKSUM_LEN;

/// Digits in ascending order, then upper case, then lower case.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Returns a new secret, from a CSPRNG that the operating system seeds. `LEN` is that of the prefix and
/// [`SECRET_LEN`].
pub(crate) fn generate<const LEN: usize>(prefix: &str) -> [u8; LEN] {
    let mut secret = [0; LEN];
    let (signed, sum) = secret.split_at_mut(LEN - CHECKSUM_LEN);
    let (start, random) = signed.split_at_mut(prefix.len());
    start.copy_from_slice(prefix.as_bytes());
    let mut letters = Alphanumeric.sample_iter(rand::rng());
    random.fill_with(|| letters.next().unwrap_or_default());
    sum.copy_from_slice(&checksum(signed));
    secret
}

/// Parses a secret. Returns `None` if its prefix, length, characters or checksum are wrong.
pub(crate) fn parse<const LEN: usize>(prefix: &str, written: &str) -> Option<[u8; LEN]> {
    let secret: [u8; LEN] = written.as_bytes().try_into().ok()?;
    let is_base62 = secret.strip_prefix(prefix.as_bytes())?.iter().all(u8::is_ascii_alphanumeric);
    let (signed, sum) = secret.split_at(LEN - CHECKSUM_LEN);
    (is_base62 && sum == checksum(signed)).then_some(secret)
}

/// Returns the CRC-32 (IEEE), most significant base62 digit first, padded with zeros: 62⁶ is more than 2³².
fn checksum(signed: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut rest = crc32fast::hash(signed);
    let mut digits = [0; CHECKSUM_LEN];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits
}
