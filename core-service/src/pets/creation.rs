//! Ways of adding pets: one, which a client may safely retry; several, all or none (AIP-233); and imports
//! from the lines of a file, each added once.

use std::time::Duration;

use petstore_caller::api_key::ApiKey;
use sha2::{Digest, Sha256};

use super::{NewPet, Pet};
use crate::{
    errors::PetStoreError,
    violations::{BatchViolations, Violation, Violations},
};

/// Identifier of one creation: opaque, 1 to 400 visible ASCII characters. It is the field `request_id` in
/// gRPC (AIP-155), and the header `Idempotency-Key` in REST.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Time for which a key identifies the same creation.
    pub(crate) const KEPT: Duration = Duration::from_hours(24);

    /// Parses a key. Returns `None` if the text is empty.
    ///
    /// # Errors
    ///
    /// If the key is not of that form: [`PetStoreError::InvalidIdempotencyKey`].
    pub fn parse(raw: &str) -> Result<Option<Self>, PetStoreError> {
        if raw.is_empty() {
            return Ok(None);
        }
        if raw.len() > 400 || !raw.bytes().all(|byte| byte.is_ascii_graphic()) {
            let rule = "must be 1 to 400 visible ASCII characters";
            return Err(PetStoreError::InvalidIdempotencyKey(Violation::new("requestId", rule)));
        }
        Ok(Some(Self(raw.to_owned())))
    }

    /// Returns the digest, which is stored instead of the key: a client may have put a secret into it.
    pub(crate) fn digest(&self) -> Vec<u8> {
        Sha256::digest(&self.0).to_vec()
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

/// Parses the pets of a batch, 1 to 1,000, and reports all violations together. A batch of the wrong size is
/// refused without looking at its pets.
///
/// # Errors
///
/// [`PetStoreError::Invalid`] if the size is wrong; [`PetStoreError::InvalidBatch`] if a pet is invalid.
pub(crate) fn parse_batch(
    pets: impl ExactSizeIterator<Item = Result<NewPet, Violations>>,
) -> Result<Vec<NewPet>, PetStoreError> {
    if !(1..=1_000).contains(&pets.len()) {
        return Err(PetStoreError::Invalid(Violation::new("requests", "must be 1 to 1,000 pets").into()));
    }
    let mut allowed = Vec::with_capacity(pets.len());
    let mut violations = BatchViolations::default();
    for (index, pet) in pets.enumerate() {
        match pet {
            Ok(pet) => allowed.push(pet),
            Err(found) => violations.add(index, found),
        }
    }
    if violations.is_empty() { Ok(allowed) } else { Err(PetStoreError::InvalidBatch(violations)) }
}

/// Checks the name of an import: 1 to 200 visible ASCII characters, which are no API key.
///
/// # Errors
///
/// If the name is not of that form.
pub fn check_import_id(name: &str) -> Result<(), Violation> {
    let is_visible = name.bytes().all(|byte| byte.is_ascii_graphic());
    let holds = (1..=200).contains(&name.len()) && is_visible && !ApiKey::begins_in(name);
    Violation::check(holds, "importId", "must be 1 to 200 visible ASCII characters without an API key")
}

/// Lines of an import that take effect together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportChunk {
    /// Numbered lines with pets to add, in ascending order.
    pub lines: Vec<(i64, NewPet)>,
    /// Position of the import afterwards.
    pub last_line: i64,
}

impl ImportChunk {
    /// Checks that these are lines of one chunk, and returns the chunk's last line: `last_line`, if it is not
    /// 0.
    ///
    /// # Errors
    ///
    /// If there are too many lines, or they do not ascend from 1 on, or one is after `last_line`.
    pub fn end(lines: &[i64], last_line: i64) -> Result<i64, Violations> {
        let ascending = lines.first().is_none_or(|first| *first > 0)
            && lines.windows(2).all(|pair| matches!(pair, [one, other] if one < other));
        let rule = "must be at most 1,000, their numbers ascending from 1 on";
        Violation::check(lines.len() <= 1_000 && ascending, "lines", rule)?;
        let last = lines.last().copied().unwrap_or_default();
        match last_line {
            0 => Ok(last),
            end if end >= last => Ok(end),
            _ => Err(Violation::new("lastLine", "must be the last of the lines, or a later one").into()),
        }
    }
}

/// Progress of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// Last line that is done; 0 before the first.
    pub last_line: i64,
    /// Number of pets added.
    pub created: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_1_to_400_visible_ascii_characters() {
        for name in ["x", "rest/7/!~", &"x".repeat(400)] {
            assert_eq!(IdempotencyKey::parse(name).unwrap().unwrap().0, name);
        }
        assert_eq!(IdempotencyKey::parse("").unwrap(), None);
        for name in [" ", "a b", "a\n", "\u{7f}", "é", &"x".repeat(401)] {
            let refusal = IdempotencyKey::parse(name).unwrap_err();
            assert_eq!(
                refusal.to_string(),
                "requestId must be 1 to 400 visible ASCII characters",
                "{name:?}"
            );
        }
    }

    fn pet(name: &str) -> Result<NewPet, Violations> {
        NewPet::parse(name.to_owned(), Some(1), Ok(None))
    }

    fn refusal(pets: Vec<Result<NewPet, Violations>>) -> PetStoreError {
        parse_batch(pets.into_iter()).unwrap_err()
    }

    #[test]
    fn a_batch_has_1_to_1000_pets() {
        for size in [1, 1_000] {
            let batch = parse_batch(vec![pet("Rex"); size].into_iter()).unwrap();
            assert_eq!(batch.len(), size);
        }
        for size in [0, 1_001] {
            let refusal = refusal(vec![pet(""); size]);
            assert!(matches!(refusal, PetStoreError::Invalid(_)), "{refusal:?}");
            assert_eq!(refusal.to_string(), "requests must be 1 to 1,000 pets");
        }
    }

    #[test]
    fn every_faulty_member_is_named_with_its_index() {
        let faulty = NewPet::parse(String::new(), None, Ok(None));
        let refusal = refusal(vec![pet("Rex"), faulty, pet("Tom"), pet("\0")]);
        assert_eq!(
            refusal.to_string(),
            "requests[1].name must not be blank; requests[1].categoryId is required; \
             requests[3].name must not contain control characters"
        );
    }

    #[test]
    fn at_most_ten_faulty_pets_are_named() {
        for (count, end) in [
            (10, "requests[9].name must not be blank"),
            (11, "; and one more pet is not allowed"),
            (1_000, "; and 990 more pets are not allowed"),
        ] {
            let text = refusal(vec![pet(" "); count]).to_string();
            assert!(text.ends_with(end), "{text}");
            assert_eq!(text.matches("requests[").count(), 10);
        }
    }

    #[test]
    fn an_import_is_named_by_visible_ascii_characters() {
        for name in ["x", "sha256:09af", &"x".repeat(200)] {
            assert_eq!(check_import_id(name), Ok(()));
        }
        for name in ["", " ", "a b", "a\n", "é", &"x".repeat(201)] {
            assert!(check_import_id(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_chunk_ends_with_its_last_line_unless_an_end_is_given() {
        for (lines, last_line, end) in
            [([1, 2, 9].as_slice(), 0, 9), (&[1], 1, 1), (&[1], 5, 5), (&[], 0, 0), (&[], 7, 7)]
        {
            assert_eq!(ImportChunk::end(lines, last_line).unwrap(), end);
        }
        for (lines, last_line) in [([3, 4].as_slice(), 3), (&[], -1), (&[1], i64::MIN)] {
            let refusal = ImportChunk::end(lines, last_line).unwrap_err().to_string();
            assert_eq!(refusal, "lastLine must be the last of the lines, or a later one");
        }
    }

    #[test]
    fn lines_ascend_and_are_bounded() {
        let most: Vec<i64> = (1..=1_000).collect();
        assert_eq!(ImportChunk::end(&most, 0).unwrap(), 1_000);
        let more: Vec<i64> = (1..=1_001).collect();
        for lines in [more.as_slice(), &[0], &[-1, 2], &[2, 2], &[3, 2]] {
            assert!(ImportChunk::end(lines, 0).is_err(), "{lines:?}");
        }
    }
}
