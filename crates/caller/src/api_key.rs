//! API keys: their format, checksum and digest.
//!
//! A key is `pet_live_` (staging: `pet_test_`), 30 base62 characters from a cryptographically secure
//! generator (178 bits) and 6 base62 characters of CRC-32 over everything before them: 45 characters, matched
//! by `pet_(live|test)_[0-9A-Za-z]{36}`. The checksum refuses typing errors and junk before any lookup; only
//! the SHA-256 [`KeyDigest`] is ever stored, which is enough for a secret of more than 112 bits (OWASP ASVS
//! 6.5.2).
//!
//! ```
//! use petstore_caller::api_key::{ApiKey, Environment};
//!
//! let key = ApiKey::generate(Environment::Production);
//! let written = key.expose(); // shown to its owner, once
//! assert!(written.starts_with("pet_live_") && written.len() == 45);
//!
//! // The form of a sent key is checked here; its digest shows whether such a key exists.
//! let sent = ApiKey::parse(written).expect("a whole key");
//! assert_eq!(sent.digest(), key.digest());
//! assert!(ApiKey::parse(&written[..44]).is_none());
//! ```
//!
//! [`OperatorToken`] is the credential of an operator or of a session that an operator has opened. It has the
//! same form, with other prefixes. [`ServiceToken`] is the secret between gateway and core. Clients do not
//! have it.

use std::{borrow::Cow, collections::HashSet, fmt, str::FromStr};

use rand::distr::{Alphanumeric, Distribution};
use sha2::{Digest, Sha256};

mod bearer;
mod tokens;

pub use bearer::{BearerError, bearer};
pub use tokens::{OperatorToken, ServiceToken};

/// Length of the part after the prefix of a key or token.
const SECRET_LEN: usize = 30 + CHECKSUM_LEN;
const CHECKSUM_LEN: usize = 6;
const KEY_LEN: usize = "pet_live_".len() + SECRET_LEN;

/// Prefixes of keys and of operators' tokens.
const PREFIXES: [&str; 4] = [
    Environment::Production.key_prefix(),
    Environment::Staging.key_prefix(),
    OperatorToken::PREFIX,
    OperatorToken::SESSION_PREFIX,
];

/// Installation that a key belongs to. The two never accept each other's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Environment {
    /// Keys begin with `pet_live_`.
    Production,
    /// Keys begin with `pet_test_`.
    Staging,
}

impl Environment {
    /// All environments.
    pub const ALL: [Self; 2] = [Self::Production, Self::Staging];

    /// Returns the prefix of every key of the environment.
    pub const fn key_prefix(self) -> &'static str {
        match self {
            Self::Production => "pet_live_",
            Self::Staging => "pet_test_",
        }
    }

    /// Returns the name used in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Staging => "staging",
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Environment {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|environment| environment.name() == name)
            .ok_or("must be production or staging")
    }
}

/// Complete key. It is a secret: it has no `Display`, and its `Debug` shows only the prefix.
///
/// ```
/// # use petstore_caller::api_key::{ApiKey, Environment};
/// assert_eq!(format!("{:?}", ApiKey::generate(Environment::Staging)), "ApiKey(pet_test_…)");
/// ```
///
/// ```compile_fail
/// # use petstore_caller::api_key::{ApiKey, Environment};
/// println!("{}", ApiKey::generate(Environment::Staging)); // does not compile
/// ```
#[derive(Clone)]
pub struct ApiKey([u8; KEY_LEN]);

impl ApiKey {
    /// Generates a new key of the environment.
    pub fn generate(environment: Environment) -> Self {
        let mut key = [0; KEY_LEN];
        key.copy_from_slice(generate(environment.key_prefix()).as_bytes());
        Self(key)
    }

    /// Parses a key. Returns `None` if its form or checksum is wrong. The key need not exist.
    ///
    /// ```
    /// # use petstore_caller::api_key::{ApiKey, Environment};
    /// let key = ApiKey::parse("pet_test_00000000000000000000000000000030gV5m").expect("well formed");
    /// assert_eq!(key.environment(), Environment::Staging);
    ///
    /// assert!(ApiKey::parse("pet_test_00000000000000000000000000000030gV5x").is_none()); // a wrong checksum
    /// assert!(ApiKey::parse("pet_test_10000000000000000000000000000030gV5m").is_none()); // a typing error
    /// assert!(ApiKey::parse("PET_TEST_00000000000000000000000000000030gV5m").is_none()); // case matters
    /// ```
    pub fn parse(written: &str) -> Option<Self> {
        let prefixes = Environment::ALL.map(Environment::key_prefix);
        let is_key = prefixes.into_iter().any(|prefix| is_whole(prefix, written));
        if is_key { written.as_bytes().try_into().ok().map(Self) } else { None }
    }

    /// Maximum number of bytes that a key takes in a text: those of UTF-32.
    pub const MAX_BYTES: usize = 4 * KEY_LEN;

    /// Returns every key in a text of any kind, each once, in the order of their first places. The checksum
    /// tells a key from what only begins like one, so it may touch other letters. The letters of a key are
    /// one byte apart, in UTF-16 two and in UTF-32 four.
    ///
    /// ```
    /// # use petstore_caller::api_key::ApiKey;
    /// let log = b"GET /?key=pet_test_00000000000000000000000000000030gV5m&page=2 (pet_live_...)";
    /// assert_eq!(ApiKey::all_in(log).len(), 1);
    /// ```
    pub fn all_in(text: &[u8]) -> Vec<Self> {
        let mut seen = HashSet::new();
        let key_at = |start: usize, step: usize| {
            let letters = text.get(start..)?.iter().step_by(step).take(KEY_LEN).copied();
            let begins = letters.clone().take(4).eq(*b"pet_");
            begins.then(|| Self::parse(str::from_utf8(&letters.collect::<Vec<_>>()).ok()?)).flatten()
        };
        let starts = text.iter().enumerate().filter(|(_, byte)| **byte == b'p').map(|(start, _)| start);
        let keys = starts.flat_map(|start| [1, 2, 4].map(|step| key_at(start, step))).flatten();
        keys.filter(|key| seen.insert(key.0)).collect()
    }

    /// Returns `true` if a key or a token of an operator may begin anywhere in the text, which then must not
    /// be logged, stored or sent on. Only the prefix is compared, in any case: a key that was cut short or
    /// misspelt reveals nearly as much as a whole one.
    pub fn begins_in(text: &str) -> bool {
        first_prefix(text).is_some()
    }

    /// Returns the environment that the key's prefix names.
    pub fn environment(&self) -> Environment {
        if self.0.starts_with(Environment::Staging.key_prefix().as_bytes()) {
            Environment::Staging
        } else {
            Environment::Production
        }
    }

    /// Returns the digest, which is stored and looked up in place of the key.
    pub fn digest(&self) -> KeyDigest {
        KeyDigest(Sha256::digest(self.0).into())
    }

    /// Returns the key's last four characters. They distinguish keys in a list and belong to the checksum, so
    /// that they reveal less than 24 of the key's 178 bits.
    pub fn last_four(&self) -> &str {
        &self.expose()[KEY_LEN - 4..]
    }

    /// Returns the key itself, to be shown to its owner once and never logged.
    pub fn expose(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default() // always ASCII
    }
}

/// Returns a new key or token, from a CSPRNG that the operating system seeds.
fn generate(prefix: &str) -> String {
    let random = Alphanumeric.sample_iter(rand::rng()).take(SECRET_LEN - CHECKSUM_LEN).map(char::from);
    let mut secret: String = prefix.chars().chain(random).collect();
    let sum = checksum(&secret);
    secret.extend(sum.map(char::from));
    secret
}

/// Returns `true` for a key or token with this prefix whose length, characters and checksum are right.
fn is_whole(prefix: &str, written: &str) -> bool {
    let secret = written.as_bytes().strip_prefix(prefix.as_bytes());
    let is_secret =
        secret.is_some_and(|it| it.len() == SECRET_LEN && it.iter().all(u8::is_ascii_alphanumeric));
    // All of it is ASCII then.
    is_secret
        && written
            .split_at_checked(written.len() - CHECKSUM_LEN)
            .is_some_and(|(signed, sum)| sum.as_bytes() == checksum(signed))
}

/// Returns the CRC-32 (IEEE), most significant base62 digit first, padded with zeros: 62⁶ is more than 2³².
fn checksum(signed: &str) -> [u8; CHECKSUM_LEN] {
    let mut rest = crc32fast::hash(signed.as_bytes());
    let mut digits = [0; CHECKSUM_LEN];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[(rest % 62) as usize];
        rest /= 62;
    }
    digits
}

/// Returns the end of the prefix of the first key or token in the text, and reads no further: a search for
/// each prefix would read a long text with many of one again and again for the others.
fn first_prefix(text: &str) -> Option<usize> {
    (0..text.len()).find_map(|start| {
        let rest = &text.as_bytes()[start..];
        let is_next = |prefix: &&&str| {
            rest.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix.as_bytes()))
        };
        PREFIXES.iter().find(is_next).map(|prefix| start + prefix.len())
    })
}

/// Returns the text with `…` in place of the part after the prefix of each key or token in it.
///
/// ```
/// # use petstore_caller::api_key::redact;
/// assert_eq!(redact("no account pet_live_0000 here"), "no account pet_live_… here");
/// ```
pub fn redact(text: &str) -> Cow<'_, str> {
    let (mut redacted, mut rest) = (String::new(), text);
    while let Some(end) = first_prefix(rest) {
        let (shown, secret) = rest.split_at(end); // a prefix is ASCII
        redacted += shown;
        rest = secret.trim_start_matches(|character: char| character.is_ascii_alphanumeric());
        if rest.len() < secret.len() {
            redacted.push('…');
        }
    }
    if redacted.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(redacted + rest) }
}

/// Returns `true` if a request may have this id (`X-Request-Id`): 8 to 64 ASCII letters, digits, `.`, `_` and
/// `-`, which forge no log line, without a key or token anywhere, which must not be logged.
///
/// ```
/// # use petstore_caller::api_key::is_request_id;
/// assert!(is_request_id("checkout-66") && is_request_id("pet-live-checkout"));
/// assert!(!is_request_id("order 66") && !is_request_id("retry_pet_live_0000"));
/// ```
pub fn is_request_id(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    // A UUID, which is the usual id, is too poor in letters to contain a key.
    let is_uuid = |id: &str| id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (8..=64).contains(&id.len()) && (is_uuid(id) || id.bytes().all(is_allowed) && !ApiKey::begins_in(id))
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}…)", self.environment().key_prefix())
    }
}

/// SHA-256 of a whole key or operator's token.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyDigest(pub [u8; 32]);

impl KeyDigest {
    /// Returns the digest as 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    }

    /// Parses what [`to_hex`](Self::to_hex) returns.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let mut digest = [0; 32];
        for (index, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(hex.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        let digest = Self(digest);
        (digest.to_hex() == hex).then_some(digest)
    }
}

/// Omits the digest: it is not secret, but does not belong in a log either.
impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_generated_key_is_45_characters_with_its_environments_prefix() {
        for environment in Environment::ALL {
            let key = ApiKey::generate(environment);
            assert_eq!(key.expose().len(), 45);
            assert!(key.expose().starts_with(environment.key_prefix()));
            assert!(key.expose().ends_with(key.last_four()) && key.last_four().len() == 4);
            assert_eq!(ApiKey::parse(key.expose()).unwrap().environment(), environment);
        }
    }

    #[test]
    fn an_environment_is_written_and_read_by_its_name() {
        for (environment, name) in
            [(Environment::Production, "production"), (Environment::Staging, "staging")]
        {
            assert_eq!((environment.to_string().as_str(), name.parse()), (name, Ok(environment)));
        }
        assert_eq!("Staging".parse::<Environment>(), Err("must be production or staging"));
    }

    #[test]
    fn a_right_checksum_does_not_make_up_for_a_wrong_length_or_character() {
        let zeros = |count| "0".repeat(count);
        for (secret, is_secret) in
            [(zeros(30), true), (zeros(29), false), (zeros(31), false), (zeros(29) + "-", false)]
        {
            let signed = format!("pet_op_{secret}");
            let whole: String = signed.chars().chain(checksum(&signed).map(char::from)).collect();
            assert_eq!(is_whole("pet_op_", &whole), is_secret, "{whole}");
        }
    }

    #[test]
    fn the_checksum_is_the_documented_one() {
        // Value of crc32(b"pet_live_000000000000000000000000000000") by another implementation (zlib).
        let key = ApiKey::parse("pet_live_0000000000000000000000000000001PRvVh");
        assert!(key.is_some());
    }

    #[test]
    fn two_keys_are_never_alike() {
        assert_ne!(
            ApiKey::generate(Environment::Production).digest(),
            ApiKey::generate(Environment::Production).digest()
        );
    }

    #[test]
    fn debug_output_shows_neither_key_nor_digest() {
        let key = ApiKey::generate(Environment::Production);
        assert_eq!(format!("{key:?} {:?}", key.digest()), "ApiKey(pet_live_…) KeyDigest(…)");
    }

    #[test]
    fn a_key_is_found_anywhere_in_a_text_even_if_truncated() {
        for environment in Environment::ALL {
            let key = ApiKey::generate(environment);
            let key = key.expose();
            for text in [key, &format!("k.{key}"), &format!("{key}é"), &key[..20], &key.to_uppercase()] {
                assert!(ApiKey::begins_in(text), "{text}");
            }
        }
        for text in ["pet_op_", "a.PET_OP_x", "pet_ses_"] {
            assert!(ApiKey::begins_in(text), "a token of an operator: {text}");
        }
        for text in ["", "pet_live", "pet-live-key", "pet_dead_key", "checkout-66"] {
            assert!(!ApiKey::begins_in(text), "{text}");
        }
    }

    #[test]
    fn every_whole_key_in_a_text_is_found_once() {
        let [one, two] = Environment::ALL.map(ApiKey::generate);
        let (first, second) = (one.expose(), two.expose());
        let text = format!("é=pet_{second}x{first}{second}\npet_live_{} {}", &first[..44], &second[1..]);
        let bytes = [b"\xff", text.as_bytes(), b"\xff"].concat();
        let found: Vec<_> = ApiKey::all_in(&bytes).iter().map(|key| key.expose().to_owned()).collect();
        assert_eq!(found, [second, first]);
        for (width, at) in [(2, 0), (2, 1), (4, 0), (4, 3)] {
            let wide = |byte: u8| (0..width).map(move |index| if index == at { byte } else { 0 });
            let wide: Vec<_> = text.bytes().flat_map(wide).collect();
            let found: Vec<_> = ApiKey::all_in(&wide).iter().map(|key| key.expose().to_owned()).collect();
            assert_eq!(found, [second, first], "{width} bytes a letter");
        }
        assert!(ApiKey::all_in(b"").is_empty() && ApiKey::all_in(&second.as_bytes()[..44]).is_empty());
    }

    #[test]
    fn a_digest_is_read_as_it_is_written_and_in_no_other_form() {
        let digest = ApiKey::generate(Environment::Production).digest();
        let hex = digest.to_hex();
        assert_eq!(KeyDigest::from_hex(&hex), Some(digest));
        for other in ["", &hex[1..], &format!("{hex}0"), &hex.to_uppercase(), &format!("+{}", &hex[1..]), "é"]
        {
            assert!(other == hex || KeyDigest::from_hex(other).is_none(), "{other}");
        }
    }

    #[test]
    fn the_digest_is_sha_256_of_the_whole_key() {
        let key = ApiKey::generate(Environment::Staging);
        assert_eq!(key.digest().0[..], Sha256::digest(key.expose().as_bytes())[..]);
    }

    #[test]
    fn redacted_text_has_prefixes_and_no_secrets() {
        let key = ApiKey::generate(Environment::Production);
        let token = OperatorToken::generate();
        let text = format!("é {} and {}, x", key.expose(), token.expose().to_uppercase());
        assert_eq!(redact(&text), "é pet_live_… and PET_OP_…, x");
        for text in ["nothing", "a token (pet_op_…)", "pet_live_"] {
            assert_eq!(redact(text), text);
        }
        // It would take hours if each prefix were looked for to the end.
        let many = "pet_op_-".repeat(1_000_000);
        assert_eq!(redact(&many), many);
    }

    proptest! {
        #[test]
        fn any_single_wrong_character_is_refused(at in 0..KEY_LEN, wrong in "[ -~]") {
            let key = ApiKey::generate(Environment::Production);
            let mut written = key.expose().to_owned();
            written.replace_range(at..=at, &wrong);
            prop_assert_eq!(ApiKey::parse(&written).is_some(), written == key.expose());
        }

        #[test]
        fn no_text_makes_parsing_panic(text in ".{0,60}") {
            let _ = ApiKey::parse(&text);
        }
    }
}
