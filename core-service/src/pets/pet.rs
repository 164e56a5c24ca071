//! Pets (docs/contract.md, 2.1).

use petstore_proto::{PageToken, lists, v1::ErrorReason};

use crate::{
    errors::PetStoreError,
    pages::{PageSize, judge, parse_token},
    violations::{Violation, Violations},
};

/// Identifier of a pet: positive, assigned in ascending order, never twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PetId(pub i64);

impl PetId {
    /// Returns the error for a pet that does not exist.
    pub(crate) fn not_found(self) -> PetStoreError {
        PetStoreError::NotFound { code: ErrorReason::PetNotFound.code(), id_field: "petId", id: self.0 }
    }
}

/// A pet in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pet {
    /// Identifier, assigned by the store.
    pub id: PetId,
    /// Name.
    pub name: PetName,
    /// Category that it belongs to. Any number is valid: there are no operations on categories
    /// (docs/contract.md, 2.2).
    pub category_id: i64,
    /// Availability, if given.
    pub status: Option<PetStatus>,
}

/// A pet to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPet {
    /// Name.
    pub name: PetName,
    /// Category that it belongs to.
    pub category_id: i64,
    /// Availability, if given.
    pub status: Option<PetStatus>,
}

impl NewPet {
    /// Parses every member, and reports all violations together. A name that is not given is empty. An
    /// invalid wire form of the status is its violation.
    ///
    /// # Errors
    ///
    /// If a member is invalid. The error has every violation.
    pub fn parse(
        name: String,
        category_id: Option<i64>,
        status: Result<Option<PetStatus>, Violation>,
    ) -> Result<Self, Violations> {
        let mut violations = Violations::default();
        let name = violations.gather(PetName::parse(name));
        let category_id = violations.gather(category_id.ok_or(Violation::new("categoryId", "is required")));
        let status = violations.gather(status);
        match (name, category_id, status) {
            (Some(name), Some(category_id), Some(status)) => Ok(Self { name, category_id, status }),
            _ => Err(violations),
        }
    }

    /// Returns the pet with this identifier.
    pub(crate) fn with_id(self, id: PetId) -> Pet {
        let Self { name, category_id, status } = self;
        Pet { id, name, category_id, status }
    }
}

#[cfg(test)]
impl NewPet {
    /// Returns a pet with this name, which is valid.
    pub(crate) fn named(name: &str) -> Self {
        Self::parse(name.to_owned(), Some(1), Ok(None)).unwrap()
    }
}

/// Name of a pet: 1 to 255 characters (Unicode scalar values), not all of them white space, none of them a
/// control character: PostgreSQL keeps no NUL. Kept code point for code point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PetName(String);

impl PetName {
    /// Maximum length in characters.
    pub const MAX_CHARS: usize = 255;

    /// Parses a name.
    ///
    /// # Errors
    ///
    /// If the name breaks a rule. The error names the first rule.
    pub fn parse(raw: String) -> Result<Self, Violation> {
        let check = |holds, rule| Violation::check(holds, "name", rule);
        check(!raw.chars().all(char::is_whitespace), "must not be blank")?;
        check(raw.chars().nth(Self::MAX_CHARS).is_none(), "must be at most 255 characters long")?;
        check(!raw.contains(char::is_control), "must not contain control characters")?;
        Ok(Self(raw))
    }

    /// Returns the name as it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name as it was written.
    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// Returns a name read from the store, without checking it.
    pub(crate) fn stored(name: String) -> Self {
        Self(name)
    }
}

/// Availability of a pet (docs/contract.md, 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum PetStatus {
    /// For sale.
    Available = 1,
    /// In the process of being sold.
    Pending = 2,
    /// Sold.
    Sold = 3,
}

impl PetStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Available, Self::Pending, Self::Sold];

    /// Violation for an invalid status.
    pub const UNKNOWN: Violation = Violation::new("status", "must be one of available, pending, sold");

    /// Returns the number that stands for the status in the store and in page tokens; never 0.
    pub(crate) const fn number(self) -> i16 {
        self as i16
    }

    /// Returns the status that the number stands for.
    pub(crate) fn from_number(number: impl Into<i64>) -> Option<Self> {
        let number = number.into();
        Self::ALL.into_iter().find(|status| i64::from(status.number()) == number)
    }
}

/// Request for one page of pets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPets {
    /// Maximum number of pets.
    pub size: PageSize,
    /// Only pets after this one.
    pub after: Option<PetId>,
    /// Only pets with this status.
    pub status: Option<PetStatus>,
}

impl ListPets {
    /// Parses every parameter, and reports all violations together. An empty `page_token` means the first
    /// page. With any other, the status may be left out.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::InvalidCursor`] if only the token is invalid. [`PetStoreError::Invalid`] if the
    /// status is invalid, which only gRPC can express. [`PetStoreError::InvalidParameter`] otherwise. Each
    /// has every violation.
    pub fn parse(
        page_size: i32,
        page_token: &str,
        status: Result<Option<PetStatus>, Violation>,
    ) -> Result<Self, PetStoreError> {
        let mut violations = Violations::default();
        let size = violations.gather(PageSize::parse(page_size));
        let asked = violations.gather(status);
        let start = parse_token(page_token, list_of_pets(asked.flatten())).and_then(|token| {
            token.map(|token| Ok((PetId(token.last_id), status_of_list(token.list)?))).transpose()
        });
        // REST cannot express an unknown number of an enumeration as a parameter.
        let fault = if asked.is_none() { PetStoreError::Invalid } else { PetStoreError::InvalidParameter };
        let ((size, asked), start) = judge(size.zip(asked), start, violations, fault)?;
        let (after, status) = start.map_or((None, asked), |(after, status)| (Some(after), status));
        Ok(Self { size, after, status })
    }
}

/// Returns the list of pets with the status, or of all pets, as page tokens name it.
pub(crate) fn list_of_pets(status: Option<PetStatus>) -> u8 {
    lists::PETS + status.map_or(0, |status| status as u8)
}

/// Returns the status of the pets in a list, or `None` for all pets.
fn status_of_list(list: u8) -> Result<Option<PetStatus>, Violation> {
    let mut statuses = [None].into_iter().chain(PetStatus::ALL.map(Some));
    let status = statuses.find(|status| list_of_pets(*status) == list);
    status.ok_or(Violation::new("cursor", PageToken::DAMAGED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str) -> &'static str {
        PetName::parse(name.to_owned()).unwrap_err().rule
    }

    #[test]
    fn a_name_counts_unicode_scalar_values() {
        for letter in ["a", "ß", "犬", "\u{1F415}", "\u{301}"] {
            assert!(PetName::parse(letter.repeat(255)).is_ok(), "{letter}");
            assert_eq!(refusal(&letter.repeat(256)), "must be at most 255 characters long");
        }
    }

    #[test]
    fn a_name_of_white_space_alone_is_blank() {
        for blank in ["", " ", "\t\n", "\u{a0}", "\u{2003}\u{3000}", "\u{85}"] {
            assert_eq!(refusal(blank), "must not be blank", "{blank:?}");
        }
        // Invisible, but not White_Space.
        assert!(PetName::parse("\u{200b}".to_owned()).is_ok());
    }

    #[test]
    fn a_name_has_no_control_characters() {
        for name in ["Re\0x", "Rex\n", "\u{7f}Rex", "Rex\u{9f}"] {
            assert_eq!(refusal(name), "must not contain control characters", "{name:?}");
        }
        // Format characters (Cf) are not control characters (Cc): emoji sequences need them.
        assert!(PetName::parse("\u{1F9D1}\u{200D}\u{1F33E}".to_owned()).is_ok());
    }

    #[test]
    fn a_name_keeps_its_code_points() {
        for name in [" Rex ", "e\u{301}", "\u{e9}", "\u{202e}xeR"] {
            assert_eq!(PetName::parse(name.to_owned()).unwrap().as_str(), name);
        }
    }

    fn token(list: u8) -> String {
        PageToken { list, last_id: 7 }.to_string()
    }

    #[test]
    fn a_token_keeps_its_status_filter() {
        for status in [None].into_iter().chain(PetStatus::ALL.map(Some)) {
            let token = token(list_of_pets(status));
            for asked in [None, status] {
                let page = ListPets::parse(5, &token, Ok(asked)).unwrap();
                assert_eq!((page.after, page.status), (Some(PetId(7)), status));
            }
        }
        ListPets::parse(5, &token(lists::PETS + 4), Ok(None)).unwrap_err();
    }

    #[test]
    fn a_token_of_another_list_is_refused() {
        let sold = token(list_of_pets(Some(PetStatus::Sold)));
        for (refusal, text) in [
            (ListPets::parse(5, &sold, Ok(Some(PetStatus::Available))).unwrap_err(), "another filter"),
            (ListPets::parse(5, &token(lists::ORDERS), Ok(None)).unwrap_err(), "another list"),
        ] {
            assert!(matches!(refusal, PetStoreError::InvalidCursor(_)), "{refusal}");
            assert!(refusal.to_string().ends_with(text), "{refusal}");
        }
    }

    #[test]
    fn several_faults_are_one_refusal() {
        let refusal = ListPets::parse(-1, "damaged", Ok(None)).unwrap_err();
        assert!(matches!(refusal, PetStoreError::InvalidParameter(_)), "{refusal:?}");
        assert_eq!(
            refusal.to_string(),
            "pageSize must not be negative; \
             cursor must be the one returned with the previous page, unchanged"
        );
        let refusal = ListPets::parse(-1, "damaged", Err(PetStatus::UNKNOWN)).unwrap_err();
        assert!(matches!(refusal, PetStoreError::Invalid(_)), "{refusal:?}");
        assert_eq!(
            refusal.to_string(),
            "pageSize must not be negative; status must be one of available, pending, sold; \
             cursor must be the one returned with the previous page, unchanged"
        );
    }
}
