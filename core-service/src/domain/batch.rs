//! Creation of several pets in one call, all or none (AIP-233).

use std::fmt;

use super::{NewPet, PetStoreError, Violation, Violations};

/// The pets of a batch, 1 to 1,000.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch(Vec<NewPet>);

impl Batch {
    /// Maximum number of pets.
    pub const MAX: usize = 1_000;

    const SIZE: Violation = Violation::new("requests", "must be 1 to 1,000 pets");

    /// Parses every pet, and reports all violations together. A batch of the wrong size is refused without
    /// looking at its pets.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::Invalid`] if the size is wrong; [`PetStoreError::InvalidBatch`] if a pet is invalid.
    pub fn parse(
        pets: impl ExactSizeIterator<Item = Result<NewPet, Violations>>,
    ) -> Result<Self, PetStoreError> {
        if !(1..=Self::MAX).contains(&pets.len()) {
            return Err(PetStoreError::Invalid(Self::SIZE.into()));
        }
        let mut allowed = Vec::with_capacity(pets.len());
        let mut violations = BatchViolations::default();
        for (index, pet) in pets.enumerate() {
            match pet {
                Ok(pet) => allowed.push(pet),
                Err(found) => violations.add(index, found),
            }
        }
        if violations.is_empty() { Ok(Self(allowed)) } else { Err(PetStoreError::InvalidBatch(violations)) }
    }

    /// Returns the pets, in their order.
    #[must_use]
    pub fn into_pets(self) -> Vec<NewPet> {
        self.0
    }
}

/// Violations in the pets of a batch. `Display` reads as a sentence: `requests[17].name must not be blank`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchViolations {
    /// The first invalid pets, by their index in the batch.
    named: Vec<(usize, Violations)>,
    /// Number of further invalid pets.
    more: usize,
}

impl BatchViolations {
    /// Maximum number of invalid pets that are listed: an answer of a few KiB, which every client accepts as
    /// metadata.
    const NAMED: usize = 10;

    fn add(&mut self, index: usize, violations: Violations) {
        if self.named.len() < Self::NAMED { self.named.push((index, violations)) } else { self.more += 1 }
    }

    fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Returns each listed violation: the member, such as `requests[17].name`, and the rule.
    pub fn iter(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.named.iter().flat_map(|(index, violations)| {
            violations.iter().map(move |violation| {
                let Violation { field, rule } = violation;
                (format!("requests[{index}].{field}"), *rule)
            })
        })
    }
}

impl fmt::Display for BatchViolations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (field, rule)) in self.iter().enumerate() {
            write!(f, "{}{field} {rule}", if index == 0 { "" } else { "; " })?;
        }
        match self.more {
            0 => Ok(()),
            1 => f.write_str("; and one more pet is not allowed"),
            more => write!(f, "; and {more} more pets are not allowed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::RawPet;

    fn pet(name: &str) -> Result<NewPet, Violations> {
        NewPet::parse(RawPet::named(name))
    }

    fn refusal(pets: Vec<Result<NewPet, Violations>>) -> PetStoreError {
        Batch::parse(pets.into_iter()).unwrap_err()
    }

    #[test]
    fn a_batch_has_1_to_1000_pets() {
        for size in [1, Batch::MAX] {
            let batch = Batch::parse(vec![pet("Rex"); size].into_iter()).unwrap();
            assert_eq!(batch.into_pets().len(), size);
        }
        for size in [0, Batch::MAX + 1] {
            let refusal = refusal(vec![pet(""); size]);
            assert!(matches!(refusal, PetStoreError::Invalid(_)), "{refusal:?}");
            assert_eq!(refusal.to_string(), "requests must be 1 to 1,000 pets");
        }
    }

    #[test]
    fn every_faulty_member_is_named_with_its_index() {
        let faulty = NewPet::parse(RawPet { category_id: None, ..RawPet::named("") });
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
}
