//! For whom a request to the admin port is meant, as far as a browser tells.
//!
//! A page of the web cannot read what another site answers, but it can let its own name point to an address of the
//! operator's machine or network (DNS rebinding): the browser then takes the admin port for the page's own site. It
//! still says the name in Host. So nothing but what no stranger can have registered is taken there.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{StatusCode, header::HOST},
    middleware::Next,
    response::Response,
};

use super::refuse;
use crate::settings::HostName;

/// Passes on what is meant for this port.
pub(super) async fn check(State(known): State<Arc<[HostName]>>, request: Request, next: Next) -> Response {
    let mut hosts = request.headers().get_all(HOST).into_iter();
    // A target in absolute form comes before Host (RFC 9112 §3.2.2). Browsers always send one of the two.
    let host = match (request.uri().authority(), hosts.next(), hosts.next()) {
        (Some(authority), _, _) => Some(authority.as_str()),
        (None, None, _) => None,
        (None, Some(host), None) => Some(host.to_str().unwrap_or_default()),
        (None, Some(_), Some(_)) => Some(""),
    };
    if host.is_none_or(|host| is_ours(host, &known)) {
        return next.run(request).await;
    }
    let message =
        "the admin port is asked by an IP address, localhost, a name without a dot, or one of --admin-host";
    refuse(StatusCode::MISDIRECTED_REQUEST, "INVALID_REQUEST", message)
}

/// Whether no stranger can have this host, a name or an address with or without a port.
fn is_ours(host: &str, known: &[HostName]) -> bool {
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
    fn what_a_stranger_could_have_registered_is_not_taken() {
        let known = ["Gateway.Internal".parse().unwrap()];
        for ours in [
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
            assert!(is_ours(ours, &known), "{ours}");
        }
        for strange in [
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
            assert!(!is_ours(strange, &known), "{strange}");
        }
    }
}
