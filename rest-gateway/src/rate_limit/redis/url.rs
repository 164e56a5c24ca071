//! Location of Redis.

use std::{fmt, str::FromStr};

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// Address of a Redis server: `redis://[user:password@]host[:port][/database]`, with TLS `rediss://…`, or
/// `unix:///PATH` of a socket on the same machine.
///
/// Neither `Display` nor `Debug` shows user or password.
#[derive(Clone)]
pub struct RedisUrl(ConnectionInfo);

impl RedisUrl {
    pub(super) fn into_connection_info(self) -> ConnectionInfo {
        self.0
    }

    pub(super) fn has_tls(&self) -> bool {
        matches!(self.0.addr(), ConnectionAddr::TcpTls { .. })
    }
}

impl FromStr for RedisUrl {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let has_scheme =
            ["redis://", "rediss://", "unix:///"].iter().any(|scheme| written.starts_with(scheme));
        // A fragment would turn off TLS verification, and a query would turn on another protocol.
        let is_allowed = has_scheme && !written.contains(['#', '?']);
        let info = is_allowed.then(|| written.into_connection_info().ok()).flatten();
        info.map(Self).ok_or(
            "must be redis://[user:password@]host[:port][/database], or rediss:// for TLS, with special \
             characters in user and password percent-encoded; or unix:///PATH",
        )
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, database) = (self.0.addr(), self.0.redis_settings().db());
        match address {
            ConnectionAddr::Unix(path) => write!(f, "unix://{}", path.display()),
            ConnectionAddr::TcpTls { .. } => write!(f, "rediss://{address}/{database}"),
            _ => write!(f, "redis://{address}/{database}"),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_user_nor_password_is_ever_shown() {
        let url: RedisUrl = "rediss://USER:SECRET@redis.example:7000/2".parse().unwrap();
        assert!(url.has_tls());
        assert_eq!(url.to_string(), "rediss://redis.example:7000/2");
        assert_eq!(format!("{url:?}"), "rediss://redis.example:7000/2");
        let refused = "redis://USER:SECRET@[::1".parse::<RedisUrl>().unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("SECRET"));
    }

    #[test]
    fn port_and_database_default_to_those_of_redis() {
        let url: RedisUrl = "redis://localhost".parse().unwrap();
        assert!(!url.has_tls());
        assert_eq!(url.to_string(), "redis://localhost:6379/0");
    }

    #[test]
    fn a_unix_socket_is_a_path() {
        let url: RedisUrl = "unix:///run/redis/redis.sock".parse().unwrap();
        assert_eq!(url.to_string(), "unix:///run/redis/redis.sock");
    }

    #[test]
    fn only_redis_urls_are_accepted_and_tls_cannot_be_weakened() {
        for refused in [
            "",
            "localhost:6379",
            "http://localhost",
            "unix://run/redis.sock",
            "unix:///run/redis.sock?db=1",
            "redis+unix:///run/redis.sock",
            "rediss://localhost/#insecure",
            "redis://localhost/?protocol=resp3",
            "redis://localhost/first",
            "redis://0.0.0.0",
            "redis://",
        ] {
            assert!(refused.parse::<RedisUrl>().is_err(), "{refused}");
        }
    }
}
