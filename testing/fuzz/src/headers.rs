//! Targets of header fields. An input is the value of a field; several lines are several fields.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue, header::AUTHORIZATION};
use petstore_caller::api_key::{ApiKey, Environment, OperatorToken, redact};
use petstore_caller::client_address::{ClientAddress, TrustedProxies};
use petstore_core::pets::IdempotencyKey;

/// Returns a field for each line. `None` if HTTP does not allow one of the values.
fn fields(name: &HeaderName, lines: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n') {
        headers.append(name, HeaderValue::from_bytes(line).ok()?);
    }
    Some(headers)
}

/// Exactly one field with the scheme, spaces and a token68 has a credential. A key or token is the credential
/// itself.
pub(crate) fn bearer(input: &[u8]) {
    let Some(headers) = fields(&AUTHORIZATION, input) else { return };
    let credential = petstore_caller::api_key::bearer(&headers);
    assert_eq!(credential.ok().map(str::as_bytes), token68(input));
    for environment in Environment::ALL {
        if let Ok(key) = ApiKey::from_headers(&headers, environment) {
            assert_eq!(Ok(key.expose()), credential);
            assert!(key.environment() == environment && key.expose().len() == 45);
            assert!(ApiKey::begins_in(key.expose()) && key.expose().ends_with(key.last_four()));
        }
    }
    if let Ok(token) = OperatorToken::from_headers(&headers) {
        assert_eq!(Ok(token.expose()), credential);
        assert!(ApiKey::parse(token.expose()).is_none() && ApiKey::begins_in(token.expose()));
    }
    let text = String::from_utf8_lossy(input);
    let redacted = redact(&text);
    assert_eq!(redact(&redacted), redacted);
    for key in text.split([' ', '\n']).filter(|word| ApiKey::parse(word).is_some()) {
        assert!(!redacted.contains(key), "{redacted}");
    }
}

/// Returns the credential of a field, as defined in docs/contract.md, 5.2.
fn token68(field: &[u8]) -> Option<&[u8]> {
    let (scheme, spaced) = field.trim_ascii().split_at_checked("Bearer ".len())?;
    let token = spaced.get(spaced.iter().position(|byte| *byte != b' ')?..)?;
    let is_whole = token.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte));
    let is_one_field = !field.contains(&b'\n');
    (scheme.eq_ignore_ascii_case(b"Bearer ") && token.len() <= 512 && is_whole && is_one_field)
        .then_some(token)
}

/// The client of an untrusted peer is the peer. Otherwise the right-most hop that is not trusted decides, or
/// the first if all are. That hop is the client, or the peer if the hop is not an address. What a trusted
/// proxy appends decides. The first line is the peer's address, if it is one.
pub(crate) fn x_forwarded_for(input: &[u8]) {
    let proxies = ["10.0.0.0/8", "fd00::/8"].map(str::parse);
    let proxies = TrustedProxies::new(proxies.into_iter().flatten().collect());
    let is_trusted = |address: IpAddr| match address.to_canonical() {
        IpAddr::V4(address) => address.octets()[0] == 10,
        IpAddr::V6(address) => address.octets()[0] == 0xfd,
    };
    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let peer = lines.next().and_then(|line| str::from_utf8(line).ok()?.parse().ok());
    let list = if peer.is_some() { lines.next().unwrap_or_default() } else { input };
    let peer = peer.unwrap_or(IpAddr::from([10, 0, 0, 1]));
    let name = HeaderName::from_static("x-forwarded-for");
    let Some(mut headers) = fields(&name, list) else { return };

    let client = proxies.client(peer, &headers);
    let hops = list.split(|byte| b",\n".contains(byte)).map(<[u8]>::trim_ascii);
    let hops: Vec<_> = hops.filter(|hop| !hop.is_empty()).map(hop).collect();
    let untrusted = hops.iter().rfind(|hop| !hop.is_some_and(is_trusted));
    let decisive = untrusted.or(hops.first()).copied().flatten().filter(|_| is_trusted(peer));
    assert_eq!(client, decisive.unwrap_or(peer).into(), "{hops:?} of {peer}");
    let appended = IpAddr::from([203, 0, 113, 7]);
    headers.append(name, HeaderValue::from_static("203.0.113.7"));
    let decided = if is_trusted(peer) { appended } else { peer };
    assert_eq!(proxies.client(peer, &headers), ClientAddress::from(decided));
}

/// Returns the address of a hop, in any of the forms that proxies write.
fn hop(written: &[u8]) -> Option<IpAddr> {
    let written = str::from_utf8(written).ok()?;
    let bare = written.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let socket = || written.parse().map(|socket: SocketAddr| socket.ip());
    bare.unwrap_or(written).parse().or_else(|_| socket()).ok()
}

/// A key is accepted exactly if it is one field of 1 to 255 visible ASCII characters, and then by the core
/// too.
pub(crate) fn idempotency_key(input: &[u8]) {
    let Some(headers) = fields(&HeaderName::from_static("idempotency-key"), input) else { return };
    let is_key = (1..=255).contains(&input.len()) && input.iter().all(u8::is_ascii_graphic);
    for account_id in [1, i64::MAX] {
        let name = petstore_gateway::fuzz_creation_key(&headers, account_id);
        let expected = is_key.then(|| format!("rest/{account_id}/{}", String::from_utf8_lossy(input)));
        assert_eq!(name, expected);
        if let Some(name) = name {
            assert!(matches!(IdempotencyKey::parse(&name), Ok(Some(_))), "the core refuses {name}");
        }
    }
}
