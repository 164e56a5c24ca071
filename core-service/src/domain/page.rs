//! Pages of lists (docs/contract.md, 7.1; AIP-158), and the tokens of the next ones.

use petstore_api_key::{List, PageToken};

use super::{OrderId, PetId, PetStatus, PetStoreError, Violation, Violations};

/// Maximum number of rows in a page: 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize(u8);

impl PageSize {
    /// Page size if the request names none.
    pub const DEFAULT: Self = Self(20);
    /// Largest page size.
    pub const MAX: Self = Self(100);

    /// Parses a page size by the rules of AIP-158: 0 means the default, and a number above the maximum means
    /// the maximum.
    ///
    /// # Errors
    ///
    /// If it is negative.
    pub fn parse(raw: i32) -> Result<Self, Violation> {
        match u8::try_from(raw) {
            Ok(0) => Ok(Self::DEFAULT),
            Ok(size) => Ok(Self(size.min(Self::MAX.0))),
            Err(_) if raw > 0 => Ok(Self::MAX),
            Err(_) => Err(Violation::new("pageSize", "must not be negative")),
        }
    }

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
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
        let start = parse_token(page_token, list_of_pets(asked.flatten()));
        // REST cannot express an unknown number of an enumeration as a parameter.
        let fault = if asked.is_none() { PetStoreError::Invalid } else { PetStoreError::InvalidParameter };
        let ((size, asked), start) = judge(size.zip(asked), start, violations, fault)?;
        Ok(match start {
            Some(PageToken { list, last_id }) => {
                let status = PetStatus::ALL.into_iter().find(|status| list_of_pets(Some(*status)) == list);
                Self { size, after: Some(PetId(last_id)), status }
            }
            None => Self { size, after: None, status: asked },
        })
    }
}

/// Request for one page of orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOrders {
    /// Maximum number of orders.
    pub size: PageSize,
    /// Only orders after this one.
    pub after: Option<OrderId>,
}

impl ListOrders {
    /// Parses every parameter, and reports all violations together. An empty `page_token` means the first
    /// page.
    ///
    /// # Errors
    ///
    /// The errors of [`ListPets::parse`].
    pub fn parse(page_size: i32, page_token: &str) -> Result<Self, PetStoreError> {
        let mut violations = Violations::default();
        let size = violations.gather(PageSize::parse(page_size));
        let start = parse_token(page_token, List::Orders);
        let (size, start) = judge(size, start, violations, PetStoreError::InvalidParameter)?;
        Ok(Self { size, after: start.map(|token| OrderId(token.last_id)) })
    }
}

/// Returns the list of pets with the status, or of all pets, as page tokens name it.
pub(crate) fn list_of_pets(status: Option<PetStatus>) -> List {
    List::Pets(status.map_or(0, PetStatus::number))
}

/// Parses the token of a page of the list. Returns `None` for the first page, whose token is empty.
fn parse_token(page_token: &str, list: List) -> Result<Option<PageToken>, Violation> {
    if page_token.is_empty() {
        return Ok(None);
    }
    PageToken::parse(page_token, list).map(Some).map_err(|rule| Violation::new("cursor", rule))
}

/// Returns the parameters, or one error with every violation. A violation of the cursor has a separate error
/// kind if it is the only one. `rest` is `None` if there are violations.
fn judge<R, S>(
    rest: Option<R>,
    start: Result<S, Violation>,
    mut violations: Violations,
    fault: fn(Violations) -> PetStoreError,
) -> Result<(R, S), PetStoreError> {
    match (rest, start) {
        (Some(rest), Ok(start)) => Ok((rest, start)),
        (Some(_), Err(violation)) => Err(PetStoreError::InvalidCursor(violation)),
        (None, start) => {
            violations.gather(start);
            Err(fault(violations))
        }
    }
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// Rows in ascending order of their identifier.
    pub rows: Vec<T>,
    /// Token of the next page; `None` on the last one.
    pub next: Option<PageToken>,
}

impl<T> Page<T> {
    /// Cuts these rows to a page of `list`. One row more than `size` was read if there is one.
    pub(crate) fn cut(mut rows: Vec<T>, size: PageSize, list: List, id: impl FnOnce(&T) -> i64) -> Self {
        let more = rows.len() > size.get();
        rows.truncate(size.get());
        let next = rows.last().filter(|_| more).map(|last| PageToken { list, last_id: id(last) });
        Self { rows, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(list: List) -> String {
        PageToken { list, last_id: 7 }.to_string()
    }

    #[test]
    fn a_page_has_20_pets_unless_asked_and_never_more_than_100() {
        for (raw, size) in [(0, 20), (1, 1), (100, 100), (101, 100), (255, 100), (256, 100), (i32::MAX, 100)]
        {
            assert_eq!(PageSize::parse(raw).unwrap().get(), size, "{raw}");
        }
        for raw in [-1, i32::MIN] {
            assert_eq!(PageSize::parse(raw).unwrap_err().to_string(), "pageSize must not be negative");
        }
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
        assert_eq!(ListOrders::parse(5, &token(List::Orders)).unwrap().after, Some(OrderId(7)));
    }

    #[test]
    fn a_token_of_another_list_is_refused() {
        let sold = token(list_of_pets(Some(PetStatus::Sold)));
        for (refusal, text) in [
            (ListPets::parse(5, &sold, Ok(Some(PetStatus::Available))).unwrap_err(), "another status"),
            (ListPets::parse(5, &token(List::Orders), Ok(None)).unwrap_err(), "another list"),
            (ListOrders::parse(5, &sold).unwrap_err(), "another list"),
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
