//! Names of hosts.

use std::str::FromStr;

/// A host's name, in small letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl FromStr for HostName {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let is_name = !written.is_empty()
            && written.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if is_name {
            Ok(Self(written.trim_end_matches('.').to_ascii_lowercase()))
        } else {
            Err("must be the name of a host, such as gateway.example, without a port")
        }
    }
}

impl HostName {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
