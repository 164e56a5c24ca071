//! Lines that a server prints to stdout once it listens. Scripts read them.

use std::{fmt::Write as _, net::SocketAddr, path::PathBuf};

use petstore_command_line::output::{self, PrintError};
use petstore_settings::GrpcAddr;

/// Addresses of the ports of a process, with the real port if 0 was asked for, and files that its start has
/// written. The process prints them to stdout.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// Address of REST over plain HTTP.
    pub http: Option<SocketAddr>,
    /// Address of REST over HTTPS.
    pub https: Option<SocketAddr>,
    /// Address of gRPC.
    pub grpc: Option<GrpcAddr>,
    /// Address of the admin port.
    pub admin: SocketAddr,
    /// Address of the admin port over HTTPS.
    pub admin_https: Option<SocketAddr>,
    /// URL of the store, without a password.
    pub store: Option<String>,
    /// File with the first API key, if the store was new.
    pub first_key_file: Option<PathBuf>,
    /// File with the token of the first operator, if the store was new.
    pub first_operator_file: Option<PathBuf>,
}

/// First line of a build of `cargo run`.
const BUILD_TO_TRY: &str =
    "build  to try it, not optimized; for measurements and production: cargo run --release\n";

impl Addresses {
    pub(crate) fn new(admin: SocketAddr) -> Self {
        let (first_key_file, first_operator_file) = (None, None);
        let (http, https, admin_https, grpc, store) = Default::default();
        Self { http, https, grpc, admin, admin_https, store, first_key_file, first_operator_file }
    }

    /// Prints everything in one write, so that a reader never sees a part of it.
    pub(crate) fn print(&self) {
        let build = if cfg!(debug_assertions) { BUILD_TO_TRY } else { "" };
        if let Err(PrintError(error)) = output::print(&format!("{build}{}", self.text())) {
            tracing::warn!(%error, "could not print the addresses to stdout");
        }
    }

    /// Returns the URL of the operator console, which a gateway has.
    fn console(&self) -> Option<String> {
        let is_gateway = self.http.is_some() || self.https.is_some();
        let secure = self.admin_https.map(|addr| format!("https://{addr}/console"));
        is_gateway.then(|| secure.unwrap_or_else(|| format!("http://{}/console", self.admin)))
    }

    fn text(&self) -> String {
        let http = |addr: SocketAddr| format!("http://{addr}");
        let https = |addr: SocketAddr| format!("https://{addr}");
        let (rest, secure) = (self.http.map(http), self.https.map(https));
        let lines = [
            ("REST", rest.as_ref().map(|url| format!("{url}/v1"))),
            ("HTTPS", secure.as_ref().map(|url| format!("{url}/v1"))),
            ("docs", rest.or(secure).map(|url| format!("{url}/docs"))),
            ("gRPC", self.grpc.as_ref().map(ToString::to_string)),
            ("admin", Some(http(self.admin))),
            ("admin-https", self.admin_https.map(https)),
            ("console", self.console()),
            ("store", self.store.clone()),
        ];
        let lines = lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<6} {}\n", value?)));
        let mut text: String = lines.collect();
        if let (Some(file), Some(addr)) = (&self.first_key_file, self.http) {
            let name = file.display();
            let quoted = quoted(&name.to_string());
            let _ = write!(
                text,
                "The store is new: account \"first\" on plan Free has one API key, in {name}. Try it:\n  \
                 curl -H \"Authorization: Bearer $(cat {quoted})\" http://{addr}/v1/pets\n"
            );
        }
        if let (Some(file), Some(console)) = (&self.first_operator_file, self.console()) {
            let name = file.display();
            let _ =
                writeln!(text, "Its operator \"first\" has a token, in {name}. Sign in with it at {console}");
        }
        text
    }
}

/// Returns the path, quoted for a shell if necessary.
fn quoted(path: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_components_are_not_announced() {
        let gateway = Addresses {
            http: Some("[::1]:80".parse().unwrap()),
            https: Some("[::1]:443".parse().unwrap()),
            ..Addresses::new("[::1]:9090".parse().unwrap())
        };
        assert_eq!(
            gateway.text(),
            "REST   http://[::1]:80/v1\n\
             HTTPS  https://[::1]:443/v1\n\
             docs   http://[::1]:80/docs\n\
             admin  http://[::1]:9090\n\
             console http://[::1]:9090/console\n"
        );
    }

    #[test]
    fn an_unusual_path_is_quoted_for_the_shell() {
        assert_eq!(quoted("data/first-api-key"), "data/first-api-key");
        assert_eq!(quoted("my data/it's"), r"'my data/it'\''s'");
    }
}
