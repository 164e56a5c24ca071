//! `GET /v1/pets/{petId}` is deprecated and will be removed (docs/contract.md, 7.5).

use http::{HeaderMap, HeaderName, HeaderValue, header};
use petstore_clock::UnixMillis;

/// 2030-12-05T00:00:00Z: from then on the operation answers 410.
pub(crate) const REMOVED_AT: UnixMillis = UnixMillis::from_secs(1_922_659_200);

/// RFC 9745; since 2025-12-05T00:00:00Z.
const DEPRECATION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("deprecation"), HeaderValue::from_static("@1764892800"));
/// RFC 8594.
const SUNSET: (HeaderName, HeaderValue) =
    (HeaderName::from_static("sunset"), HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT"));
/// RFC 8288.
const SUCCESSOR: (HeaderName, HeaderValue) =
    (header::LINK, HeaderValue::from_static(r#"</v1/pets?status=available>; rel="successor-version""#));

/// Whether the path is that of the deprecated operation. Judged on the path alone, so that every answer on it
/// says so, whatever its method and status.
pub(crate) fn concerns(path: &str) -> bool {
    path.strip_prefix("/v1/pets/").is_some_and(|pet_id| !pet_id.is_empty() && !pet_id.contains('/'))
}

/// Writes that the operation is deprecated, when it ends and what to use instead.
pub(crate) fn write(headers: &mut HeaderMap) {
    for (name, value) in [DEPRECATION, SUNSET, SUCCESSOR] {
        headers.append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_one_segment_below_pets_is_deprecated() {
        for path in ["/v1/pets/1", "/v1/pets/x", "/v1/pets/%2F", "/v1/pets/-1"] {
            assert!(concerns(path), "{path}");
        }
        for path in ["/v1/pets", "/v1/pets/", "/v1/pets/1/", "/v1/pets/1/2", "/v1/pet/1", "/pets/1"] {
            assert!(!concerns(path), "{path}");
        }
    }

    #[test]
    fn the_removal_date_is_the_same_in_clock_and_header() {
        assert_eq!(REMOVED_AT.to_string(), "2030-12-05T00:00:00Z");
        let mut headers = HeaderMap::new();
        write(&mut headers);
        assert_eq!(headers["sunset"], "Thu, 05 Dec 2030 00:00:00 GMT");
        assert_eq!(headers["deprecation"], "@1764892800");
        assert_eq!(headers["link"], r#"</v1/pets?status=available>; rel="successor-version""#);
    }
}
