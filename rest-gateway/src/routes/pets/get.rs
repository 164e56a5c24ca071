//! `GET /v1/pets/{petId}`: one pet (docs/contract.md, 7.5). Deprecated; see [`deprecation`].

use axum::response::Response;
use http::{StatusCode, Uri};
use percent_encoding::percent_decode_str;
use petstore_proto::v1::GetPetRequest;

use crate::{
    caller::Caller,
    error::{ApiError, responses},
    gateway::GatewayState,
    json::pet::pet_body,
    operation::{Description, Success, deprecation, description::PETS},
    routes::json_response,
};

/// What the OpenAPI document says of it.
pub(in crate::routes) const DESCRIPTION: Description = Description {
    tag: PETS,
    summary: "Get an animal",
    text: "Deprecated: removed on 5 December 2030, when it begins to answer 410. List animals with a status \
           filter instead.",
    parameters: &["PetId"],
    request_body: None,
    success: Success {
        status: "200",
        description: "The animal.",
        headers: &[],
        schema: "Pet",
        example: None,
        link: None,
    },
    failures: &[&responses::INVALID_REQUEST, &responses::PET_NOT_FOUND, &responses::OPERATION_REMOVED],
};

pub(crate) async fn get(gateway: &GatewayState, caller: &Caller, uri: &Uri) -> Result<Response, ApiError> {
    if gateway.clock.now() >= deprecation::GET_PET.removed_at {
        return Err(ApiError::OperationRemoved);
    }
    let pet_id = pet_id(uri.path()).ok_or(ApiError::PetNotFound)?;
    let found = gateway.core.call(GetPetRequest { pet_id }, caller).await?;
    let pet = found.pet.ok_or(ApiError::Internal)?;
    Ok(json_response(StatusCode::OK, pet_body(&pet)))
}

/// The identifier in the path's last segment, if it is an int64 in its one canonical spelling: a pet has one
/// URL, and anything else names none.
fn pet_id(path: &str) -> Option<i64> {
    let segment = path.rsplit('/').next()?;
    let segment = percent_decode_str(segment).decode_utf8().ok()?;
    let pet_id: i64 = segment.parse().ok()?;
    (pet_id.to_string() == segment).then_some(pet_id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_canonical_spelling_of_an_int64_names_a_pet() {
        let others = [
            "",
            "01",
            "+1",
            "-0",
            "1.0",
            "1e2",
            "0x1",
            "%201",
            "1%20",
            "x",
            "9223372036854775808",
            "١",
            "%FF",
        ];
        for segment in others {
            assert_eq!(pet_id(&format!("/v1/pets/{segment}")), None, "{segment}");
        }
        for (segment, id) in [("1", 1), ("0", 0), ("-5", -5), ("%31", 1), ("9223372036854775807", i64::MAX)] {
            assert_eq!(pet_id(&format!("/v1/pets/{segment}")), Some(id));
        }
    }

    proptest! {
        #[test]
        fn every_int64_names_itself(id: i64) {
            prop_assert_eq!(pet_id(&format!("/v1/pets/{id}")), Some(id));
        }

        #[test]
        fn no_path_makes_parsing_panic(path in "[/%0-9a-fA-F.+-]{0,40}") {
            let _ = pet_id(&path);
        }
    }
}
