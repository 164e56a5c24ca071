//! Asking for one creation more than once (AIP-155).

use std::time::Duration;

use super::{Pet, PetStoreError, Violation};

/// Names one creation: opaque, 1 to 400 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// The longest name.
    pub const MAX_LEN: usize = 400;
    /// For how long the same name means the same creation.
    pub const KEPT: Duration = Duration::from_hours(24);

    /// An empty text is none.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::InvalidRequestId`].
    pub fn parse(raw: &str) -> Result<Option<Self>, PetStoreError> {
        if raw.is_empty() {
            return Ok(None);
        }
        if raw.len() > Self::MAX_LEN || !raw.bytes().all(|byte| byte.is_ascii_graphic()) {
            let rule = "must be 1 to 400 visible ASCII characters";
            return Err(PetStoreError::InvalidRequestId(Violation::new("request_id", rule)));
        }
        Ok(Some(Self(raw.to_owned())))
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What came of asking for an animal to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The animal.
    pub pet: Pet,
    /// It was added by an earlier call with the same name.
    pub replayed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_1_to_400_visible_ascii_characters() {
        for name in ["x", "rest/7/!~", &"x".repeat(400)] {
            assert_eq!(RequestId::parse(name).unwrap().unwrap().as_str(), name);
        }
        assert_eq!(RequestId::parse("").unwrap(), None);
        for name in [" ", "a b", "a\n", "\u{7f}", "é", &"x".repeat(401)] {
            let refusal = RequestId::parse(name).unwrap_err();
            assert_eq!(
                refusal.to_string(),
                "request_id must be 1 to 400 visible ASCII characters",
                "{name:?}"
            );
        }
    }
}
