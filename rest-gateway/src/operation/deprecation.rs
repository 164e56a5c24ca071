//! Operations that will be removed (docs/contract.md, 7.5), and the header fields that say so.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use petstore_clock::UnixMillis;

/// Since when an operation is deprecated, when it is removed, and what to use instead.
#[derive(Debug)]
pub(crate) struct Deprecation {
    /// `Deprecation` (RFC 9745): `@` and the Unix time in seconds.
    since: HeaderValue,
    /// `Sunset` (RFC 8594): `removed_at` as an HTTP date.
    sunset: HeaderValue,
    /// From then on the operation answers 410.
    pub(crate) removed_at: UnixMillis,
    /// `Link` (RFC 8288) to what replaces it.
    successor: HeaderValue,
}

const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// Of `GET /v1/pets/{petId}`: deprecated since 2025-12-05, removed on 2030-12-05, each at 00:00 UTC.
pub(crate) static GET_PET: Deprecation = Deprecation {
    since: HeaderValue::from_static("@1764892800"),
    sunset: HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT"),
    removed_at: UnixMillis::from_secs(1_922_659_200),
    successor: HeaderValue::from_static(r#"</v1/pets?status=available>; rel="successor-version""#),
};

impl Deprecation {
    /// The day of its removal, such as `2030-12-05`.
    pub(crate) fn removed_on(&self) -> String {
        self.removed_at.to_string().split('T').next().unwrap_or_default().to_owned()
    }

    /// Adds the header fields that say so.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.append(DEPRECATION, self.since.clone());
        headers.append(SUNSET, self.sunset.clone());
        headers.append(header::LINK, self.successor.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_removal_date_is_the_same_in_clock_and_header() {
        assert_eq!(GET_PET.removed_at.to_string(), "2030-12-05T00:00:00Z");
        let mut headers = HeaderMap::new();
        GET_PET.write(&mut headers);
        assert_eq!(headers["sunset"], "Thu, 05 Dec 2030 00:00:00 GMT");
        assert_eq!(headers["deprecation"], "@1764892800");
        assert_eq!(headers["link"], r#"</v1/pets?status=available>; rel="successor-version""#);
    }
}
