//! The script, and the steps that it runs.

use std::sync::LazyLock;

use petstore_clock::UnixMillis;
use redis::{Cmd, Script};

use crate::rate_limit::{LimitKey, Quota};

/// Text of the script.
pub(super) const SOURCE: &str = include_str!("redis.lua");
/// Digest by which Redis knows the script once it was sent.
pub(super) static DIGEST: LazyLock<String> = LazyLock::new(|| Script::new(SOURCE).get_hash().to_owned());
/// Quota of probes: more than all gateways make in a day.
const PROBES: Quota = Quota { per_minute: 1_000_000_000, per_day: 1_000_000_000 };

/// Returns a call of the script: `EVALSHA` with its digest, or `EVAL` with its text, which Redis remembers.
/// If Redis does not know the digest, the answer is NOSCRIPT and the call has no effect.
pub(super) fn call(verb: &str, script: &str, steps: &[Step], time: Option<u64>) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(steps.len() * 2);
    for step in steps {
        step.write_keys(&mut command);
    }
    match time {
        Some(time) => command.arg(time),
        None => command.arg(""),
    };
    for step in steps {
        step.write_arguments(&mut command);
    }
    command
}

/// One step of the script. It touches two keys at most, both in the slot of the account or address.
#[derive(Clone, Debug)]
pub(super) struct Step {
    owner: String,
    abuse: Option<String>,
    verb: &'static str,
    pub(super) quota: Quota,
    settled_at: UnixMillis,
}

impl Step {
    /// Returns a step that decides on a request and counts it.
    pub(super) fn take(
        installation: &str,
        limit_key: &LimitKey,
        quota: Quota,
        settled_at: UnixMillis,
    ) -> Self {
        let verb = if matches!(limit_key, LimitKey::Address(_)) { "pass" } else { "take" };
        let (owner, abuse) = names(installation, limit_key);
        Self { owner, abuse, verb, quota, settled_at }
    }

    /// Returns a step that reads a record.
    pub(super) fn read(installation: &str, limit_key: &LimitKey) -> Self {
        let (owner, abuse) = names(installation, limit_key);
        Self { owner, abuse, verb: "read", quota: PROBES, settled_at: UnixMillis(0) }
    }

    /// Returns a step for a request that belongs to no account, which shows if requests would be decided. It
    /// is always counted, because a Redis that only reads is of no use.
    pub(super) fn probe(tag: &str) -> Self {
        let owner = ["pet:{", tag, "}"].concat();
        Self { owner, abuse: None, verb: "pass", quota: PROBES, settled_at: UnixMillis(0) }
    }

    /// Returns the step without the abuse state. While a slot moves, no node of a Cluster has both keys,
    /// because most keys of accounts have no abuse state. Windows and limits stay exact, but refusals are not
    /// strikes.
    pub(super) fn with_one_key(self) -> Self {
        Self { abuse: None, ..self }
    }

    /// Returns a key of Redis that the step touches. The other key is in the same slot of a Cluster.
    pub(super) fn key(&self) -> &str {
        &self.owner
    }

    fn write_keys(&self, command: &mut Cmd) {
        command.arg(&self.owner).arg(self.abuse.as_ref().unwrap_or(&self.owner));
    }

    fn write_arguments(&self, command: &mut Cmd) {
        let Quota { per_minute, per_day } = self.quota;
        command.arg(self.verb).arg(per_minute).arg(per_day).arg(self.settled_at.0);
    }
}

/// Returns the keys of Redis under which a caller is kept: that of its windows, and that of the key's
/// strikes. All begin with `pet:` and the installation, so that several installations may share a Redis.
/// Redis Cluster places a key by the text between its braces, so that all keys of an account are on one node.
/// They are short, because they are most of a caller's memory.
fn names(installation: &str, limit_key: &LimitKey) -> (String, Option<String>) {
    let owner = |caller: &str, suffix: &str| ["pet:", installation, ":{", caller, "}", suffix].concat();
    let mut number = itoa::Buffer::new();
    match limit_key {
        LimitKey::ApiKey { account_id, key_id } => {
            let owner = owner(number.format(*account_id), "");
            let strikes = [owner.as_str(), "/strikes/", key_id].concat();
            (owner, Some(strikes))
        }
        LimitKey::Account(account_id) => (owner(number.format(*account_id), ""), None),
        LimitKey::Usage(account_id) => (owner(number.format(*account_id), "/usage"), None),
        LimitKey::Address(address) => (owner(&address.to_string(), ""), None),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn callers_have_distinct_names_and_an_account_has_one_hash_tag() {
        let names = |limit_key: LimitKey| names("live-7", &limit_key);
        let key = LimitKey::ApiKey { account_id: 42, key_id: "9".into() };
        assert_eq!(names(key), ("pet:live-7:{42}".into(), Some("pet:live-7:{42}/strikes/9".into())));
        assert_eq!(names(LimitKey::Account(42)), ("pet:live-7:{42}".into(), None));
        assert_eq!(names(LimitKey::Usage(42)), ("pet:live-7:{42}/usage".into(), None));
        let address = LimitKey::Address("2001:db8::1".parse::<IpAddr>().unwrap().into());
        assert_eq!(names(address), ("pet:live-7:{2001:db8::/64}".into(), None));
    }
}
