//! Violations of the rules for values.

use std::fmt;

/// One member that breaks its rule. `Display` reads as a sentence: `name must not be blank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Member, named as in JSON.
    pub field: &'static str,
    /// Rule that it breaks, as text after the member's name.
    pub rule: &'static str,
}

impl Violation {
    /// Returns the violation of `rule` by `field`.
    #[must_use]
    pub const fn new(field: &'static str, rule: &'static str) -> Self {
        Self { field, rule }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.field, self.rule)
    }
}

/// Members that break their rules, each once, as one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// Returns the value, or adds the violation and returns `None`.
    pub(crate) fn gather<T>(&mut self, parsed: Result<T, Violation>) -> Option<T> {
        parsed.map_err(|violation| self.0.push(violation)).ok()
    }

    /// Returns each violation.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Violation> {
        self.0.iter()
    }
}

impl From<Violation> for Violations {
    fn from(violation: Violation) -> Self {
        Self(vec![violation])
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, violation) in self.0.iter().enumerate() {
            write!(f, "{}{violation}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
