//! Lists of the catalogue, and where their pages begin.

use petstore_proto::PageToken;
use petstore_proto::lists;

use super::{OrderId, PetId, PetStatus};
use crate::domain::{PageSize, PetStoreError, Violation, Violations, judge, parse_token};

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
        Ok(match start {
            Some((after, status)) => Self { size, after: Some(after), status },
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
        let start = parse_token(page_token, lists::ORDERS);
        let (size, start) = judge(size, start, violations, PetStoreError::InvalidParameter)?;
        Ok(Self { size, after: start.map(|token| OrderId(token.last_id)) })
    }
}

/// Returns the list of pets with the status, or of all pets, as page tokens name it.
pub(crate) fn list_of_pets(status: Option<PetStatus>) -> u8 {
    lists::PETS + status.map_or(0, PetStatus::number)
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
        assert_eq!(ListOrders::parse(5, &token(lists::ORDERS)).unwrap().after, Some(OrderId(7)));
    }

    #[test]
    fn a_token_of_another_list_is_refused() {
        let sold = token(list_of_pets(Some(PetStatus::Sold)));
        for (refusal, text) in [
            (ListPets::parse(5, &sold, Ok(Some(PetStatus::Available))).unwrap_err(), "another filter"),
            (ListPets::parse(5, &token(lists::ORDERS), Ok(None)).unwrap_err(), "another list"),
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
