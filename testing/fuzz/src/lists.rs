//! Targets of lists: a cursor and the query of REST, and a page token of gRPC.

use petstore_api_key::{List, PageToken};
use petstore_core::{
    domain::{ListOrders, ListPets, PageSize, PetStoreError, fuzz_page_token},
    grpc::fuzz_list,
};
use petstore_gateway::fuzz_query;
use petstore_proto::v1::{ListPetsRequest, PetStatus};

const LISTS: [List; 5] = [List::Pets(0), List::Pets(1), List::Pets(2), List::Pets(3), List::Orders];

fn list_pets(page_size: i32, page_token: &str, status: i32) -> Result<ListPets, PetStoreError> {
    fuzz_list(&ListPetsRequest { page_size, page_token: page_token.to_owned(), status })
}

/// A cursor that is read is the written form of what was read. A position with the right checksum is read
/// if a page can have it.
pub(crate) fn cursor(input: &[u8]) {
    if let Ok(written) = str::from_utf8(input) {
        for list in LISTS {
            match PageToken::parse(written, list) {
                Ok(token) => {
                    assert_eq!(token.to_string(), written);
                    assert!(token.last_id > 0 && LISTS.contains(&token.list));
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
        let expected = if last_id > 0 { Ok(token) } else { Err(PageToken::DAMAGED) };
        assert_eq!(PageToken::parse(&token.to_string(), list), expected);
    }
}

/// A parameter is read, or its fault names it. What is read has a canonical form that is read equally, and is
/// accepted by the core, which judges cursors.
pub(crate) fn query(input: &[u8]) {
    let Ok(written) = str::from_utf8(input) else { return };
    let read = fuzz_query(written);
    assert_eq!(fuzz_query(&format!("{written}&other=1")), read, "other parameters are ignored");
    let (limit, status, cursor) = &read;
    for (name, fault) in [
        ("limit", limit.as_ref().err()),
        ("status", status.as_ref().err()),
        ("cursor", cursor.as_ref().err()),
    ] {
        assert!(fault.is_none_or(|fault| fault.starts_with(name)), "{fault:?}");
    }
    for (name, request) in petstore_gateway::fuzz_requests(written, b"") {
        let fault = request.err();
        assert!(fault.is_none_or(|fault| !fault.is_empty()), "{name} has a fault without a text");
    }
    let (Ok(limit), Ok(status), Ok(cursor)) = (limit, status, cursor) else { return };
    assert!(limit.is_none_or(|limit| (1..=100).contains(&limit)));
    assert!(cursor.as_ref().is_none_or(|cursor| (1..=written.len()).contains(&cursor.len())));
    let word = status.map(|status| status.as_str_name().to_lowercase().replace("pet_status_", ""));
    let escape = |byte| percent_encoding::percent_encode_byte(byte);
    let escaped = cursor.as_ref().map(|cursor| cursor.bytes().map(escape).collect());
    let given = [("limit", limit.map(|limit| limit.to_string())), ("status", word), ("cursor", escaped)];
    let given = given.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    assert_eq!(fuzz_query(&given.collect::<Vec<String>>().join("&")), read);

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
    let is_token_of = |list| token.is_empty() || PageToken::parse(token, list).is_ok();
    for page_size in [-1, 0, 7, 1_000] {
        for status in -1..=4 {
            let is_status = PetStatus::try_from(status).is_ok();
            let list = List::Pets(u8::try_from(status).ok().filter(|_| is_status).unwrap_or_default());
            let page = list_pets(page_size, token, status);
            assert_eq!(page.is_ok(), page_size >= 0 && is_status && is_token_of(list), "{page:?}");
            check_page(page.map(|page| (page.size, page.after.map(|id| id.0))), page_size, token);
        }
        let page = ListOrders::parse(page_size, token);
        assert_eq!(page.is_ok(), page_size >= 0 && is_token_of(List::Orders), "{page:?}");
        check_page(page.map(|page| (page.size, page.after.map(|id| id.0))), page_size, token);
    }
    for list in ['a', 'b', 'e', 'k', 'o'] {
        let (own, read) = fuzz_page_token(list, "shop", token, token);
        match read {
            Ok(None) => assert!(token.is_empty()),
            Ok(Some(position)) => assert_eq!(fuzz_page_token(list, "shop", position, "").0, token),
            Err(fault) => assert_eq!(fault.field, "page_token"),
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
        Err(refusal) => crate::assert_names(&refusal.to_string(), &["page_size", "status", "cursor"]),
    }
}
