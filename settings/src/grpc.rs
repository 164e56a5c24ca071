//! The gRPC port of a core: its address and credentials, for the core and for its clients.

use std::{path::PathBuf, time::Duration};

use petstore_core_client::{CoreAddress, CoreTls, CoreTransport, InvalidCoreAddress};
use petstore_grpc_server::{Security, TlsFiles};

use super::{
    GrpcAddr, InvalidSetting, TokenSettings, files,
    value::{duration, is_on},
};

/// Port or socket at which the core listens, and credentials of both sides.
#[derive(Clone, Debug, clap::Args)]
pub struct GrpcSettings {
    /// Address and port for gRPC, or `unix:///PATH`. The port is internal: an address that other machines can
    /// reach requires --tls-client-ca or --service-token-file
    #[arg(long, env = "PETSTORE_GRPC_ADDR", default_value = "127.0.0.1:50051", value_name = "ADDR")]
    pub grpc_addr: GrpcAddr,

    /// File with the certificate of the gRPC port and its intermediate certificates, in PEM; turns TLS on
    #[arg(long, env = "PETSTORE_TLS_CERT", requires = "tls_key", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,

    /// File with the private key of --tls-cert, in PEM
    #[arg(long, env = "PETSTORE_TLS_KEY", requires = "tls_cert", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// File with the authorities whose certificates gateways must present, in PEM (mutual TLS)
    #[arg(long, env = "PETSTORE_TLS_CLIENT_CA", requires = "tls_cert", value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// The tokens of which callers must present one.
    #[command(flatten)]
    pub token: TokenSettings,

    /// Time after which a gRPC connection is renewed, so that gateways behind one address of several cores
    /// share out their calls again; varies by a quarter. Calls in flight finish
    #[arg(long, env = "PETSTORE_GRPC_CONNECTION_AGE", default_value = "30s", value_name = "TIME")]
    #[arg(value_parser = duration)]
    pub grpc_connection_age: Duration,

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
        if let Some(tokens) = self.token.tokens()? {
            security = security.with_tokens(tokens);
        }
        if let (Some(_), GrpcAddr::Unix(_)) = (&self.tls_cert, &self.grpc_addr) {
            return Err(InvalidSetting::new(
                "--tls-cert",
                "cannot be used with a Unix socket, which is served without TLS",
            ));
        }
        if let Some(files) = self.tls_files()? {
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
                "{} can be reached from other machines: require a certificate with --tls-client-ca or a \
                 token with --service-token-file, use a loopback address such as 127.0.0.1, or accept the \
                 risk with --insecure-allow-remote",
                self.grpc_addr
            ),
        ))
    }

    /// Returns the names of the files with tokens and certificates.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.token.service_token_file.iter().chain(self.tls_file_names())
    }

    /// Returns the names of the TLS files.
    pub fn tls_file_names(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.tls_cert, &self.tls_key, &self.tls_client_ca].into_iter().flatten()
    }

    /// Returns the content of the TLS files, if the port has TLS.
    ///
    /// # Errors
    ///
    /// If a file cannot be used.
    pub fn tls_files(&self) -> Result<Option<TlsFiles>, InvalidSetting> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let authority = self.tls_client_ca.as_deref();
        let (certificate, key) = files::certified_key(("--tls-cert", certificate), ("--tls-key", key))?;
        let client_ca = authority.map(|file| files::authorities("--tls-client-ca", file)).transpose()?;
        Ok(Some(TlsFiles { certificate, key, client_ca }))
    }
}

/// Address of a core, and credentials of both sides.
#[derive(Clone, Debug, clap::Args)]
pub struct CoreAddressSettings {
    /// URL of the core's gRPC port: http:// or https:// with host and port, or unix:// with a path. A name
    /// with several addresses stands for several cores; may be repeated, separated by commas in the variable.
    /// A gateway starts without the core, and is ready when the core has answered
    #[arg(long, env = "PETSTORE_CORE_URL", default_value = "http://127.0.0.1:50051", value_name = "URL")]
    #[arg(value_delimiter = ',', hide_env_values = true)]
    pub core_url: Vec<String>,

    /// File with the authorities that may issue the core's certificate, in PEM; required for https://
    #[arg(long, env = "PETSTORE_CORE_CA", value_name = "FILE")]
    pub core_ca: Option<PathBuf>,

    /// File with the certificate that is presented to the core, in PEM
    #[arg(long, env = "PETSTORE_CORE_CERT", value_name = "FILE")]
    #[arg(requires = "core_key", requires = "core_ca")]
    pub core_cert: Option<PathBuf>,

    /// File with the private key of --core-cert, in PEM
    #[arg(long, env = "PETSTORE_CORE_KEY", requires = "core_cert", value_name = "FILE")]
    pub core_key: Option<PathBuf>,

    /// The token that is presented to the core.
    #[command(flatten)]
    pub token: TokenSettings,
}

impl CoreAddressSettings {
    /// Returns the names of the files with tokens and certificates.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.token.service_token_file, &self.core_ca, &self.core_cert, &self.core_key].into_iter().flatten()
    }

    /// Returns the transport to the core. It connects when it is first used.
    ///
    /// # Errors
    ///
    /// If a URL or a file cannot be used.
    pub fn connect(&self) -> Result<CoreTransport, InvalidSetting> {
        let token = self.token.tokens()?.and_then(|tokens| tokens.into_iter().next());
        let identity = self.core_cert.as_deref().zip(self.core_key.as_deref()); // clap requires both or none
        let read = |(file, key)| files::certified_key(("--core-cert", file), ("--core-key", key));
        let identity = identity.map(read).transpose()?;
        let authority =
            self.core_ca.as_deref().map(|file| files::authorities("--core-ca", file)).transpose()?;
        let tls = authority.map(|authority| CoreTls { authority, identity });
        petstore_core_client::connect(CoreAddress { urls: self.core_url.clone(), tls, token }).map_err(
            |error| {
                let setting = match &error {
                    InvalidCoreAddress::Url | InvalidCoreAddress::NoAuthority => "--core-url",
                    InvalidCoreAddress::NotEncrypted | InvalidCoreAddress::Authority => "--core-ca",
                    InvalidCoreAddress::Tls(_) => "--core-cert",
                };
                InvalidSetting::new(setting, error.to_string())
            },
        )
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
        let expected = "--tls-cert: cannot be used with a Unix socket, which is served without TLS";
        assert_eq!(refusal.unwrap_err().to_string(), expected);
    }
}
