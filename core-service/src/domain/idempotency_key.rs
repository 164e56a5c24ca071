//! Safe retries of a creation: field `request_id` in gRPC (AIP-155), header `Idempotency-Key` in REST.

use std::time::Duration;

use super::{Pet, PetStoreError, Violation};

/// Identifier of one creation: opaque, 1 to 400 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Maximum length in characters.
    pub const MAX_LEN: usize = 400;
    /// Time for which a key identifies the same creation.
    pub const KEPT: Duration = Duration::from_hours(24);

    /// Parses a key. Returns `None` if the text is empty.
    ///
    /// # Errors
    ///
    /// If the key is not of that form: [`PetStoreError::InvalidIdempotencyKey`].
    pub fn parse(raw: &str) -> Result<Option<Self>, PetStoreError> {
        if raw.is_empty() {
            return Ok(None);
        }
        if raw.len() > Self::MAX_LEN || !raw.bytes().all(|byte| byte.is_ascii_graphic()) {
            let rule = "must be 1 to 400 visible ASCII characters";
            return Err(PetStoreError::InvalidIdempotencyKey(Violation::new("request_id", rule)));
        }
        Ok(Some(Self(raw.to_owned())))
    }

    /// Returns the key as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The result of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The pet.
    pub pet: Pet,
    /// `true` if the pet was added by an earlier call with the same key.
    pub replayed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_1_to_400_visible_ascii_characters() {
        for name in ["x", "rest/7/!~", &"x".repeat(400)] {
            assert_eq!(IdempotencyKey::parse(name).unwrap().unwrap().as_str(), name);
        }
        assert_eq!(IdempotencyKey::parse("").unwrap(), None);
        for name in [" ", "a b", "a\n", "\u{7f}", "é", &"x".repeat(401)] {
            let refusal = IdempotencyKey::parse(name).unwrap_err();
            assert_eq!(
                refusal.to_string(),
                "request_id must be 1 to 400 visible ASCII characters",
                "{name:?}"
            );
        }
    }
}
