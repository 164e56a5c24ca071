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
    pub const fn new(field: &'static str, rule: &'static str) -> Self {
        Self { field, rule }
    }

    /// Checks that the rule holds.
    ///
    /// # Errors
    ///
    /// If it does not: the violation of `rule` by `field`.
    pub fn check(holds: bool, field: &'static str, rule: &'static str) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self { field, rule }) }
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
    pub fn gather<T>(&mut self, parsed: Result<T, Violation>) -> Option<T> {
        parsed.map_err(|violation| self.0.push(violation)).ok()
    }

    /// Returns each violation.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Violation> {
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

/// Violations in the pets of a batch. `Display` reads as a sentence: `requests[17].name must not be blank`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchViolations {
    /// The first invalid pets, by their index in the batch.
    named: Vec<(usize, Violations)>,
    /// Number of further invalid pets.
    more: usize,
}

impl BatchViolations {
    /// Lists the first ten invalid pets, and counts the others: an answer of a few KiB, which every client
    /// accepts as metadata.
    pub fn add(&mut self, index: usize, violations: Violations) {
        if self.named.len() < 10 { self.named.push((index, violations)) } else { self.more += 1 }
    }

    /// Returns `true` if no pet is invalid.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Returns each listed violation: the member, such as `requests[17].name`, and the rule.
    pub fn iter(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.named.iter().flat_map(|(index, violations)| {
            violations.iter().map(move |violation| {
                let Violation { field, rule } = violation;
                (format!("requests[{index}].{field}"), *rule)
            })
        })
    }
}

impl fmt::Display for BatchViolations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (field, rule)) in self.iter().enumerate() {
            write!(f, "{}{field} {rule}", if index == 0 { "" } else { "; " })?;
        }
        match self.more {
            0 => Ok(()),
            1 => f.write_str("; and one more pet is not allowed"),
            more => write!(f, "; and {more} more pets are not allowed"),
        }
    }
}
