//! What the script is asked to do.

use std::sync::Arc;

use redis::Cmd;

use crate::limit::{Ban, Quota, Subject};

/// The last moment that a record can hold: the year 10889.
const LAST_MOMENT: u64 = (1 << 48) - 1;

/// One step of the script: it touches two keys at most, both in the slot of the account or address.
#[derive(Clone, Debug)]
pub(super) struct Step {
    owner: String,
    conduct: Option<String>,
    verb: &'static str,
    numbers: Option<(u64, u64)>,
}

impl Step {
    /// Decides on a request and counts it.
    pub(super) fn take(subject: &Subject, quota: Quota) -> Self {
        let verb = if matches!(subject, Subject::Address(_)) { "pass" } else { "take" };
        Self::new(subject, verb, Some((quota.per_minute, quota.per_day)))
    }

    /// Reads what is kept.
    pub(super) fn read(subject: &Subject) -> Self {
        Self::new(subject, "read", None)
    }

    /// Sets or lifts the ban of a key; `None` if the subject is no key.
    pub(super) fn ban(subject: &Subject, ban: Option<Ban>) -> Option<Self> {
        let moments = ban.map_or((0, 0), |ban| (ban.from.0.min(LAST_MOMENT), ban.until.0.min(LAST_MOMENT)));
        let step = Self::new(subject, "ban", Some(moments));
        step.conduct.is_some().then_some(step)
    }

    /// A request of nobody, to see whether requests would be decided.
    pub(super) fn probe() -> Self {
        Self { owner: "pet:{probe}".to_owned(), conduct: None, verb: "pass", numbers: Some((1, 1)) }
    }

    fn new(subject: &Subject, verb: &'static str, numbers: Option<(u64, u64)>) -> Self {
        let Names { owner, conduct } = names(subject);
        Self { owner, conduct, verb, numbers }
    }

    pub(super) fn write_keys(&self, command: &mut Cmd) {
        command.arg(&self.owner).arg(self.conduct.as_ref().unwrap_or(&self.owner));
    }

    pub(super) fn write_arguments(&self, command: &mut Cmd) {
        command.arg(self.verb);
        match self.numbers {
            Some((first, second)) => command.arg(first).arg(second),
            None => command.arg("").arg(""),
        };
    }
}

/// The keys under which a caller is kept. Redis Cluster places a key by what is between its braces, so that all of
/// an account are on one node. They are short, because they are most of what a caller costs.
#[derive(Debug, PartialEq, Eq)]
struct Names {
    owner: String,
    conduct: Option<String>,
}

fn names(subject: &Subject) -> Names {
    let alone = |owner| Names { owner, conduct: None };
    match subject {
        Subject::Key { account_id, key_id } => {
            Names { owner: format!("pet:{{{account_id}}}"), conduct: Some(conduct_key(*account_id, key_id)) }
        }
        Subject::Account(account_id) => alone(format!("pet:{{{account_id}}}")),
        Subject::Usage(account_id) => alone(format!("pet:{{{account_id}}}/usage")),
        Subject::Address(address) => alone(format!("pet:{{{address}}}")),
    }
}

fn conduct_key(account_id: i64, key_id: &Arc<str>) -> String {
    format!("pet:{{{account_id}}}:{key_id}")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn every_caller_has_names_of_its_own_and_all_of_an_account_one_tag() {
        let key = Subject::Key { account_id: 42, key_id: "7".into() };
        assert_eq!(names(&key), Names { owner: "pet:{42}".into(), conduct: Some("pet:{42}:7".into()) });
        assert_eq!(names(&Subject::Account(42)), Names { owner: "pet:{42}".into(), conduct: None });
        assert_eq!(names(&Subject::Usage(42)), Names { owner: "pet:{42}/usage".into(), conduct: None });
        let address = Subject::Address("2001:db8::1".parse::<IpAddr>().unwrap().into());
        assert_eq!(names(&address), Names { owner: "pet:{2001:db8::/64}".into(), conduct: None });
    }
}
