//! Pages of lists (docs/contract.md, 7.1; AIP-158), and the tokens of the next ones.

use petstore_proto::PageToken;

use crate::{
    errors::PetStoreError,
    violations::{Violation, Violations},
};

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
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// Parses the token of a page of the list. Returns `None` for the first page, whose token is empty.
///
/// # Errors
///
/// If the list has no such token.
pub fn parse_token(page_token: &str, list: u8) -> Result<Option<PageToken>, Violation> {
    if page_token.is_empty() {
        return Ok(None);
    }
    PageToken::parse(page_token, list).map(Some).map_err(|rule| Violation::new("cursor", rule))
}

/// Returns the parameters, or one error with every violation. A violation of the cursor has a separate error
/// kind if it is the only one. `rest` is `None` if there are violations.
///
/// # Errors
///
/// If there is a violation.
pub fn judge<R, S>(
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

/// Request for one page of a list without a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// Number of the list in page tokens.
    pub list: u8,
    /// Maximum number of rows.
    pub size: PageSize,
    /// Identifier after which the page begins; `None` for the first page.
    pub after: Option<i64>,
}

impl PageRequest {
    /// Parses every parameter, and reports all violations together. An empty `page_token` means the first
    /// page.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::InvalidCursor`] if only the token is invalid, [`PetStoreError::InvalidParameter`]
    /// with every violation otherwise.
    pub fn parse(list: u8, page_size: i32, page_token: &str) -> Result<Self, PetStoreError> {
        let mut violations = Violations::default();
        let size = violations.gather(PageSize::parse(page_size));
        let start = parse_token(page_token, list);
        let (size, start) = judge(size, start, violations, PetStoreError::InvalidParameter)?;
        Ok(Self { list, size, after: start.map(|token| token.last_id) })
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
    pub fn cut(mut rows: Vec<T>, size: PageSize, list: u8, id: impl FnOnce(&T) -> i64) -> Self {
        let more = rows.len() > size.get();
        rows.truncate(size.get());
        let next = rows.last().filter(|_| more).map(|last| PageToken { list, last_id: id(last) });
        Self { rows, next }
    }
}

#[cfg(test)]
mod tests {
    use petstore_proto::lists;

    use super::*;

    #[test]
    fn a_page_begins_after_a_token_of_this_list_only() {
        let token = |list| PageToken { list, last_id: 7 }.to_string();
        let parse = |list| PageRequest::parse(lists::ORDERS, 5, &token(list));
        assert_eq!(parse(lists::ORDERS).unwrap().after, Some(7));
        let refusal = parse(lists::PETS).unwrap_err();
        assert!(matches!(refusal, PetStoreError::InvalidCursor(_)), "{refusal}");
        assert!(refusal.to_string().ends_with("another list"), "{refusal}");
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
}
