//! Where the core listens.

use std::net::SocketAddr;

use clap::builder::BoolishValueParser;

use super::{InvalidSetting, socket_addr};

/// Where the core listens.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct GrpcSettings {
    /// Where gRPC is served. It is an internal port without authentication: loopback only
    #[arg(long, env = "PETSTORE_GRPC_ADDR", default_value = "127.0.0.1:50051", value_parser = socket_addr, value_name = "ADDR")]
    pub grpc_addr: SocketAddr,

    /// Lets --grpc-addr be reached from other machines, by anyone, unencrypted
    #[arg(long, env = "PETSTORE_INSECURE_ALLOW_REMOTE", value_parser = BoolishValueParser::new())]
    pub insecure_allow_remote: bool,
}

impl GrpcSettings {
    /// The address, if it may be listened on.
    ///
    /// # Errors
    ///
    /// When other machines could reach it, and nobody said that they may.
    pub fn checked_addr(&self) -> Result<SocketAddr, InvalidSetting> {
        if self.insecure_allow_remote || self.grpc_addr.ip().to_canonical().is_loopback() {
            Ok(self.grpc_addr)
        } else {
            Err(InvalidSetting::new(
                "--grpc-addr",
                format!(
                    "{} can be reached from other machines: use a loopback address such as 127.0.0.1, or accept \
                     the risk with --insecure-allow-remote",
                    self.grpc_addr
                ),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(addr: &str, insecure_allow_remote: bool) -> Result<SocketAddr, InvalidSetting> {
        GrpcSettings { grpc_addr: addr.parse().unwrap(), insecure_allow_remote }.checked_addr()
    }

    #[test]
    fn every_loopback_address_is_accepted() {
        for addr in ["127.0.0.1:1", "127.255.0.9:0", "[::1]:50051", "[::ffff:127.0.0.1]:1"] {
            assert!(checked(addr, false).is_ok(), "{addr}");
        }
    }

    #[test]
    fn any_other_address_needs_the_switch() {
        for addr in [
            "0.0.0.0:50051",
            "[::]:50051",
            "10.0.0.1:1",
            "192.168.1.5:1",
            "[::ffff:10.0.0.1]:1",
            "[fe80::1]:1",
        ] {
            let refusal = checked(addr, false).unwrap_err().to_string();
            assert!(
                refusal.starts_with("--grpc-addr: ") && refusal.contains("--insecure-allow-remote"),
                "{refusal}"
            );
            assert!(checked(addr, true).is_ok(), "{addr}");
        }
    }
}
