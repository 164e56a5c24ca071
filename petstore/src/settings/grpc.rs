//! Address at which the core listens, and who may use it.

use std::path::PathBuf;

use petstore_core::grpc::{Security, TlsFiles};

use super::{GrpcAddr, InvalidSetting, TokenSettings, files, value::is_on};

/// Address at which the core listens, and who may use it.
#[derive(Clone, Debug, clap::Args)]
pub struct GrpcSettings {
    /// Where gRPC is served: an address and a port, or `unix:///PATH`. It is an internal port: an address
    /// that other machines can reach requires --tls-client-ca or --service-token-file
    #[arg(long, env = "PETSTORE_GRPC_ADDR", default_value = "127.0.0.1:50051", value_name = "ADDR")]
    pub grpc_addr: GrpcAddr,

    /// The certificate of the gRPC port with its intermediate certificates, in PEM; turns TLS on
    #[arg(long, env = "PETSTORE_TLS_CERT", requires = "tls_key", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of that certificate, in PEM
    #[arg(long, env = "PETSTORE_TLS_KEY", requires = "tls_cert", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// The authorities whose certificates gateways must present, in PEM (mutual TLS)
    #[arg(long, env = "PETSTORE_TLS_CLIENT_CA", requires = "tls_cert", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// The token that callers must present.
    #[command(flatten)]
    pub token: TokenSettings,

    /// Serve gRPC to other machines without authentication
    #[arg(long, env = "PETSTORE_INSECURE_ALLOW_REMOTE", value_parser = is_on)]
    pub insecure_allow_remote: bool,
}

impl GrpcSettings {
    /// Returns the protection of the port.
    ///
    /// # Errors
    ///
    /// If a file cannot be used, or if other machines could reach the port without authentication and that is
    /// not allowed explicitly.
    pub fn security(&self) -> Result<Security, InvalidSetting> {
        let mut security = Security::default();
        if let Some(token) = self.token.token()? {
            security = security.with_token(token);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            if let GrpcAddr::Unix(_) = self.grpc_addr {
                return Err(InvalidSetting::new("--tls-cert", "a Unix socket is served without TLS"));
            }
            let authority = self.tls_client_ca.as_deref();
            let (certificate, key) = files::certified_key(("--tls-cert", certificate), ("--tls-key", key))?;
            let client_ca = authority.map(|file| files::certificates("--tls-client-ca", file)).transpose()?;
            let files = TlsFiles { certificate, key, client_ca };
            security = security
                .with_tls(&files)
                .map_err(|error| InvalidSetting::new("--tls-cert", error.to_string()))?;
        }
        if self.grpc_addr.is_local() || security.knows_its_callers() || self.insecure_allow_remote {
            return Ok(security);
        }
        Err(InvalidSetting::new(
            "--grpc-addr",
            format!(
                "{} can be reached from other machines: ask them for a certificate with --tls-client-ca or \
                 for a token with --service-token-file, use a loopback address such as 127.0.0.1, or accept \
                 the risk with --insecure-allow-remote",
                self.grpc_addr
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn security(flags: &[&str]) -> Result<Security, InvalidSetting> {
        #[derive(Parser)]
        #[command(no_binary_name = true)]
        struct Flags {
            #[command(flatten)]
            grpc: GrpcSettings,
        }
        Flags::try_parse_from(flags).unwrap_or_else(|error| panic!("{error}")).grpc.security()
    }

    #[test]
    fn an_address_that_others_can_reach_needs_protection_or_the_switch() {
        for addr in ["0.0.0.0:50051", "[::]:50051", "10.0.0.1:1"] {
            let refusal = security(&["--grpc-addr", addr]).unwrap_err().to_string();
            for part in
                ["--grpc-addr: ", addr, "--tls-client-ca", "--service-token-file", "--insecure-allow-remote"]
            {
                assert!(refusal.contains(part), "{refusal}");
            }
            assert!(security(&["--grpc-addr", addr, "--insecure-allow-remote"]).is_ok(), "{addr}");
        }
        for addr in ["127.0.0.1:50051", "unix:///run/petstore/core.sock"] {
            assert!(security(&["--grpc-addr", addr]).is_ok(), "{addr}");
        }
    }

    #[test]
    fn files_that_are_no_certificate_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "not PEM").unwrap();
        let file = file.to_str().unwrap();
        let refusal = security(&["--tls-cert", file, "--tls-key", file]).unwrap_err().to_string();
        let expected = format!("--tls-cert: {file} holds no certificate in PEM");
        assert!(refusal.starts_with(&expected), "{refusal}");
        let missing =
            security(&["--tls-cert", file, "--tls-key", "/nonexistent/key"]).unwrap_err().to_string();
        assert_eq!(missing, "--tls-key: cannot read /nonexistent/key: no such file or directory");
    }

    #[test]
    fn a_unix_socket_does_not_speak_tls() {
        let refusal = security(&["--grpc-addr", "unix:///run/a", "--tls-cert", "a", "--tls-key", "b"]);
        assert_eq!(refusal.unwrap_err().to_string(), "--tls-cert: a Unix socket is served without TLS");
    }
}
