//! The name of a request in the logs of the client, the gateway and the core (`X-Request-Id`), and its
//! authenticated sender.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
pub(crate) use petstore_caller::call::RequestId;
use petstore_clock::Clock;
use petstore_key_cache::KnownKey;
use petstore_rate_limit::LimitStatus;
use uuid::Uuid;

/// Header field, and the name of the metadata that the core sees.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static(petstore_caller::call::X_REQUEST_ID);

/// Returns the client's own id for the request if it sent one that is fit for a log. Otherwise returns a new UUID
/// of version 7 (RFC 9562 §5.7), which sorts after earlier ones.
pub(crate) fn request_id(headers: &HeaderMap, clock: &Clock) -> RequestId {
    let mut sent = headers.get_all(X_REQUEST_ID).into_iter();
    let own = if let (Some(id), None) = (sent.next(), sent.next()) { RequestId::parse(id) } else { None };
    own.unwrap_or_else(|| RequestId::new(uuid_v7(clock)))
}

/// Authenticated sender of a request. Only a request with a valid key has one, so a handler that takes it
/// cannot be reached without a valid key. Its limits allow the request, or will before a read is answered.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) account_id: i64,
    pub(crate) request_id: RequestId,
    /// The key, and the limits of the account, for a request for its usage.
    pub(crate) limits: Option<(Arc<KnownKey>, Box<LimitStatus>)>,
}

/// Returns a UUID of version 7 (RFC 9562 §5.7), with enough random bits that no two gateways choose the
/// same.
pub(crate) fn uuid_v7(clock: &Clock) -> Uuid {
    uuid::Builder::from_unix_timestamp_millis(clock.now().0, &rand::random()).into_uuid()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use petstore_caller::api_key::{ApiKey, Environment};
    use petstore_clock::UnixMillis;

    use super::*;

    fn of(sent: &[&str]) -> String {
        let (clock, _) = Clock::manual(UnixMillis(0x0191_2345_6789));
        let mut headers = HeaderMap::new();
        for id in sent {
            headers.append(X_REQUEST_ID, HeaderValue::from_str(id).unwrap());
        }
        request_id(&headers, &clock).as_str().to_owned()
    }

    #[test]
    fn an_invalid_or_repeated_request_id_is_replaced_by_a_uuid() {
        let too_long = "x".repeat(65);
        let key = ApiKey::generate(Environment::Production);
        for sent in [
            &[][..],
            &["seven77"],
            &[&too_long],
            &["with space"],
            &["tab\tbed--"],
            &["order-66"; 2],
            &[key.expose()],
            &[&format!("k.{}", key.expose())],
            &[&format!("{}-1", key.expose())],
            &[&format!("retry_{}", &key.expose()[..44])],
            &[&key.expose().to_ascii_uppercase()],
        ] {
            let id = of(sent);
            assert!(id.starts_with("01912345-6789-7") && id.len() == 36, "{id}");
        }
        assert_ne!(of(&[]), of(&[]));
    }
}
