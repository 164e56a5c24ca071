//! Address of the trace receiver.

use std::str::FromStr;

use http::Uri;

/// Address of the gRPC port of an OTLP receiver, such as an OpenTelemetry collector beside the service:
/// `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpEndpoint(String);

/// Error of a text that is not such an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be the gRPC port of an OTLP receiver, such as http://127.0.0.1:4317, without user and path")]
pub struct InvalidEndpoint;

impl OtlpEndpoint {
    /// Returns the address as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for OtlpEndpoint {
    type Err = InvalidEndpoint;

    fn from_str(written: &str) -> Result<Self, InvalidEndpoint> {
        let uri: Uri = written.parse().map_err(|_| InvalidEndpoint)?;
        let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let is_plain = uri.path_and_query().is_none_or(|path| path == "/");
        if uri.scheme_str() == Some("http") && !authority.is_empty() && !authority.contains('@') && is_plain {
            Ok(Self(written.to_owned()))
        } else {
            Err(InvalidEndpoint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port_over_http() {
        for written in ["http://127.0.0.1:4317", "http://[::1]:4317/", "http://collector"] {
            assert_eq!(written.parse::<OtlpEndpoint>().unwrap().as_str(), written);
        }
        for written in
            ["", "127.0.0.1:4317", "https://h:1", "http://", "http://u:p@h:1", "http://h:1/v1/traces", "h"]
        {
            assert_eq!(written.parse::<OtlpEndpoint>(), Err(InvalidEndpoint), "{written}");
        }
    }
}
