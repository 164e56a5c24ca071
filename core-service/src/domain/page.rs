//! Asking for a page of animals (specification §4.1; AIP-158).

use super::{PageToken, Pet, PetId, PetStatus, PetStoreError, Violation, Violations};

/// How many animals a page has at most: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize(u8);

impl PageSize {
    /// Taken when none is asked for.
    pub const DEFAULT: Self = Self(20);
    /// The most.
    pub const MAX: Self = Self(100);

    /// As AIP-158 has it: 0 means the default, more than the most means the most.
    ///
    /// # Errors
    ///
    /// When it is negative.
    pub fn parse(raw: i32) -> Result<Self, Violation> {
        match u8::try_from(raw) {
            Ok(0) => Ok(Self::DEFAULT),
            Ok(size) => Ok(Self(size.min(Self::MAX.0))),
            Err(_) if raw > 0 => Ok(Self::MAX),
            Err(_) => Err(Violation::new("page_size", "must not be negative")),
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Asks for one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPets {
    /// At most so many.
    pub size: PageSize,
    /// Only animals that come after this one.
    pub after: Option<PetId>,
    /// Only animals with this status.
    pub status: Option<PetStatus>,
}

impl ListPets {
    /// Judges everything before it refuses. An empty `page_token` is the first page; with any other, the status
    /// may be left out.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::InvalidCursor`] if the token alone is faulty; [`PetStoreError::Invalid`] if the status is no
    /// status, which only gRPC can express; else [`PetStoreError::InvalidParameter`]. They name everything that is
    /// faulty.
    pub fn parse(
        page_size: i32,
        page_token: &str,
        status: Result<Option<PetStatus>, Violation>,
    ) -> Result<Self, PetStoreError> {
        let mut violations = Violations::default();
        let size = violations.gather(PageSize::parse(page_size));
        let asked = violations.gather(status);
        let token = match page_token {
            "" => Ok(None),
            token => PageToken::parse(token).map(Some),
        };
        let token = token.and_then(|token| match (token, asked) {
            (Some(PageToken { status: of_token, .. }), Some(asked))
                if asked.is_some() && asked != of_token =>
            {
                Err(PageToken::OF_ANOTHER_LIST)
            }
            (token, _) => Ok(token),
        });
        match (size, asked, token) {
            (Some(size), Some(_), Ok(Some(token))) => {
                Ok(Self { size, after: Some(token.last_id), status: token.status })
            }
            (Some(size), Some(status), Ok(None)) => Ok(Self { size, after: None, status }),
            (Some(_), Some(_), Err(violation)) => Err(PetStoreError::InvalidCursor(violation)),
            (_, Some(_), token) => {
                violations.gather(token);
                Err(PetStoreError::InvalidParameter(violations))
            }
            (_, None, token) => {
                violations.gather(token);
                Err(PetStoreError::Invalid(violations))
            }
        }
    }
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// In ascending order of their identifier.
    pub pets: Vec<Pet>,
    /// Leads to the next page; `None` on the last one.
    pub next: Option<PageToken>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: PageToken = PageToken { last_id: PetId(7), status: Some(PetStatus::Sold) };

    #[test]
    fn a_page_has_20_animals_unless_asked_and_never_more_than_100() {
        for (raw, size) in [(0, 20), (1, 1), (100, 100), (101, 100), (255, 100), (256, 100), (i32::MAX, 100)]
        {
            assert_eq!(PageSize::parse(raw).unwrap().get(), size, "{raw}");
        }
        for raw in [-1, i32::MIN] {
            assert_eq!(PageSize::parse(raw).unwrap_err().to_string(), "page_size must not be negative");
        }
    }

    #[test]
    fn a_token_brings_its_status_filter() {
        let token = TOKEN.to_string();
        for status in [None, Some(PetStatus::Sold)] {
            let page = ListPets::parse(5, &token, Ok(status)).unwrap();
            assert_eq!((page.after, page.status), (Some(PetId(7)), Some(PetStatus::Sold)));
        }
    }

    #[test]
    fn a_token_of_another_list_is_refused() {
        let of_all = PageToken { status: None, ..TOKEN }.to_string();
        for (token, status) in [(TOKEN.to_string(), PetStatus::Available), (of_all, PetStatus::Available)] {
            let refusal = ListPets::parse(5, &token, Ok(Some(status))).unwrap_err();
            assert!(matches!(refusal, PetStoreError::InvalidCursor(PageToken::OF_ANOTHER_LIST)), "{refusal}");
        }
    }

    #[test]
    fn several_faults_are_one_refusal() {
        let refusal = ListPets::parse(-1, "damaged", Ok(None)).unwrap_err();
        assert!(matches!(refusal, PetStoreError::InvalidParameter(_)), "{refusal:?}");
        assert_eq!(
            refusal.to_string(),
            "page_size must not be negative; cursor must be the unchanged one of the page before"
        );
        let refusal = ListPets::parse(-1, "damaged", Err(PetStatus::UNKNOWN)).unwrap_err();
        assert!(matches!(refusal, PetStoreError::Invalid(_)), "{refusal:?}");
        assert_eq!(
            refusal.to_string(),
            "page_size must not be negative; status must be one of available, pending, sold; \
             cursor must be the unchanged one of the page before"
        );
    }
}
