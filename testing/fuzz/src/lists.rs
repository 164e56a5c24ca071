//! Targets of lists: a cursor and the query of REST, and a page token of gRPC.

use percent_encoding::percent_decode_str;
use petstore_admin_service::domain::fuzz_page_token;
use petstore_core::{
    errors::PetStoreError,
    pages::{PageRequest, PageSize},
    pets::{ListPets, fuzz_list},
};
use petstore_gateway::fuzz_query;
use petstore_proto::PageToken;
use petstore_proto::{
    lists,
    v1::{ListPetsRequest, PetStatus},
};

const LISTS: [u8; 5] = [lists::PETS, lists::PETS + 1, lists::PETS + 2, lists::PETS + 3, lists::ORDERS];

fn list_pets(page_size: i32, page_token: &str, status: i32) -> Result<ListPets, PetStoreError> {
    fuzz_list(&ListPetsRequest { page_size, page_token: page_token.to_owned(), status })
}

/// Returns `true` if a token of a page of `list` is one of a page of `asked`.
fn is_of(list: u8, asked: u8) -> bool {
    asked == list || asked.is_multiple_of(16) && asked / 16 == list / 16
}

/// A cursor that is accepted is the written form of its content. A position with the right checksum is read
/// by its own list if a page can have it.
pub(crate) fn cursor(input: &[u8]) {
    if let Ok(written) = str::from_utf8(input) {
        for list in LISTS {
            match PageToken::parse(written, list) {
                Ok(token) => {
                    assert_eq!(token.to_string(), written);
                    assert!(token.last_id > 0 && is_of(token.list, list));
                }
                Err(fault) => assert!(fault == PageToken::DAMAGED || written.len() == 28),
            }
        }
    }
    if let Some((list, rest)) = input.split_first()
        && let Some(last_id) = rest.first_chunk().copied().map(i64::from_be_bytes)
    {
        let list = LISTS[usize::from(*list) % LISTS.len()];
        let token = PageToken { list, last_id };
        for asked in LISTS {
            let read = PageToken::parse(&token.to_string(), asked).ok();
            assert_eq!(read, (last_id > 0 && is_of(list, asked)).then_some(token));
        }
    }
}

/// Returns the decoded value of a parameter that is not repeated, or `None` without it. A parameter that
/// occurs twice or is not UTF-8 has no value.
fn parameter(query: &str, name: &str) -> Result<Option<String>, ()> {
    let split = |part| str::split_once(part, '=').unwrap_or((part, ""));
    let is_named = |(written, _): &(&str, _)| percent_decode_str(written).decode_utf8_lossy() == name;
    let mut values = query.split('&').map(split).filter(is_named).map(|(_, value)| value);
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => {
            percent_decode_str(value).decode_utf8().map(|it| Some(it.into())).map_err(drop)
        }
        (Some(_), Some(_)) => Err(()),
    }
}

/// A parameter is read exactly if it is given once and has one of its values, or there is a rule that it
/// breaks. The core accepts the values that are read, and judges cursors.
pub(crate) fn query(input: &[u8]) {
    let Ok(written) = str::from_utf8(input) else { return };
    let (limit, status, cursor) = &fuzz_query(written);
    for fault in [limit.as_ref().err(), status.as_ref().err(), cursor.as_ref().err()] {
        assert!(fault.is_none_or(|rule| rule.starts_with("must ")), "{fault:?}");
    }
    for (name, request) in petstore_admin_web::fuzz_requests(written, b"") {
        let fault = request.err();
        assert!(fault.is_none_or(|fault| !fault.is_empty()), "{name} has a fault without a text");
    }
    let given = |name, is_valid: &dyn Fn(&str) -> bool| {
        parameter(written, name).ok().filter(|value| value.as_deref().is_none_or(is_valid))
    };
    let word = |status: u8| {
        let status = PetStatus::try_from(i32::from(status)).unwrap_or_default();
        status.as_str_name().to_lowercase().replace("pet_status_", "")
    };
    let is_limit = |value: &str| (1..=100).any(|limit| value == format!("{limit}"));
    let is_status = |value: &str| ["available", "pending", "sold"].contains(&value);
    assert_eq!(limit.clone().ok().map(|limit| limit.map(|it| it.to_string())), given("limit", &is_limit));
    assert_eq!(status.clone().ok().map(|status| status.map(word)), given("status", &is_status));
    assert_eq!(cursor.clone().ok(), given("cursor", &|value| !value.is_empty()));

    let (Ok(limit), Ok(status), Ok(cursor)) = (limit, status, cursor) else { return };
    let status = status.unwrap_or_default();
    let listed =
        list_pets(limit.unwrap_or_default().into(), cursor.as_deref().unwrap_or_default(), status.into());
    assert!(
        matches!(listed, Ok(_) | Err(PetStoreError::InvalidCursor(_))),
        "the core refuses what the gateway accepts: {listed:?}"
    );
}

/// A page of pets or orders is refused exactly if a parameter is invalid, and the refusal names it. A token
/// of an operators' list is accepted exactly if that list has written it, with the same filters.
pub(crate) fn page_token(input: &[u8]) {
    let Ok(token) = str::from_utf8(input) else { return };
    for page_size in [-1, 0, 7, 1_000] {
        for status in -1..=4 {
            let is_status = PetStatus::try_from(status).is_ok();
            let status_number = u8::try_from(status).ok().filter(|_| is_status).unwrap_or_default();
            let page = list_pets(page_size, token, status);
            // Of the filters that a number can express, those of pets are the statuses.
            let is_token = token.is_empty()
                || PageToken::parse(token, lists::PETS + status_number).is_ok_and(|token| token.list <= 3);
            assert_eq!(page.is_ok(), page_size >= 0 && is_status && is_token, "{page:?}");
            check_page(page.map(|page| (page.size, page.after.map(|id| id.0))), page_size, token);
        }
        let is_token = token.is_empty() || PageToken::parse(token, lists::ORDERS).is_ok();
        let page = PageRequest::parse(lists::ORDERS, page_size, token);
        assert_eq!(page.is_ok(), page_size >= 0 && is_token, "{page:?}");
        check_page(page.map(|page| (page.size, page.after)), page_size, token);
    }
    for list in ['a', 'b', 'e', 'k', 'o'] {
        let (own, read) = fuzz_page_token(list, "shop", token, token);
        match read {
            Ok(None) => assert!(token.is_empty()),
            Ok(Some(position)) => assert_eq!(fuzz_page_token(list, "shop", position, "").0, token),
            Err(fault) => assert_eq!(fault.field, "pageToken"),
        }
        assert_eq!(fuzz_page_token(list, "shop", "", &own).1, Ok(Some(token)));
        assert!(fuzz_page_token(list, "shoq", "", &own).1.is_err(), "other filters");
        assert!(fuzz_page_token('x', "shop", "", &own).1.is_err(), "another list");
    }
}

fn check_page(page: Result<(PageSize, Option<i64>), PetStoreError>, page_size: i32, token: &str) {
    match page {
        Ok((size, after)) => {
            assert_eq!(Ok(size), PageSize::parse(page_size));
            assert_eq!(after.is_none(), token.is_empty());
            assert!(after.is_none_or(|after| after > 0));
        }
        Err(refusal) => crate::assert_names(&refusal.to_string(), &["pageSize", "status", "cursor"]),
    }
}
