//! Protection against DNS rebinding.
//!
//! A web page cannot read the answers of another site, but it can point its own host name to an address of
//! the operator's machine or network: the browser then treats the admin port as the page's own site. The
//! browser still sends the name in Host. So the admin port answers only under names that an attacker cannot
//! register.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header::HOST},
    middleware::Next,
    response::Response,
};
use petstore_gateway::error_response;
use petstore_settings::HostName;

/// Forwards requests whose host name is safe. HTTP/2 has it in the target, from which it is copied into Host:
/// the console names its cookies by that.
pub(super) async fn check(
    State(known): State<Arc<[HostName]>>,
    mut request: Request,
    next: Next,
) -> Response {
    let mut hosts = request.headers().get_all(HOST).into_iter();
    // A target in absolute form comes before Host (RFC 9112 §3.2.2). Browsers always send one of the two.
    let host = match (request.uri().authority(), hosts.next(), hosts.next()) {
        (Some(authority), _, _) => Some(authority.as_str()),
        (None, None, _) => None,
        (None, Some(host), None) => Some(host.to_str().unwrap_or_default()),
        (None, Some(_), Some(_)) => Some(""),
    };
    if host.is_none_or(|host| is_safe(host, &known)) {
        if let Some(authority) = request.uri().authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            request.headers_mut().entry(HOST).or_insert(host);
        }
        return next.run(request).await;
    }
    let message = "the admin port answers under an IP address, localhost, a name without a dot, or a name \
                   of --admin-host";
    error_response(StatusCode::MISDIRECTED_REQUEST, "INVALID_REQUEST", message)
}

/// Returns `true` if an attacker cannot register the host, which is a name or an address, with or without a
/// port.
fn is_safe(host: &str, known: &[HostName]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    if name.parse::<Ipv4Addr>().is_ok() {
        return true;
    }
    HostName::from_str(name).is_ok_and(|name| {
        !name.as_str().contains('.') || name.as_str().ends_with(".localhost") || known.contains(&name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_that_others_could_register_is_refused() {
        let known = ["Gateway.Internal".parse().unwrap()];
        for safe in [
            "127.0.0.1",
            "127.0.0.1:9090",
            "10.1.2.3:80",
            "[::1]",
            "[fd00::1]:9090",
            "localhost",
            "LOCALHOST:9090",
            "petstore.localhost",
            "gateway-1:9090",
            "gateway.internal",
            "GATEWAY.internal.:9090",
        ] {
            assert!(is_safe(safe, &known), "{safe}");
        }
        for unsafe_host in [
            "",
            ":9090",
            "evil.example",
            "evil.example:9090",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "other.internal",
            "[::1",
            "[evil.example]",
            "a b",
            "a@b",
        ] {
            assert!(!is_safe(unsafe_host, &known), "{unsafe_host}");
        }
    }
}
