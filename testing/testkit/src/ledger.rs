//! Compares the acknowledged pets with those that the store keeps.
//!
//! Every request to add a pet has a unique name. So a name that is stored twice was added twice, by the retry
//! of a client (with its `Idempotency-Key`), of a gateway or of the core. A name that was acknowledged and is
//! not stored was lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Pet that the store keeps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredPet {
    /// Identifier of the pet.
    pub id: i64,
    /// Name of the pet.
    pub name: String,
    /// Category of the pet.
    pub category_id: i64,
}

/// Pets that were acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Identifiers under which each name was acknowledged, if the answer has one, and its category.
    acknowledged: BTreeMap<String, (BTreeSet<i64>, i64)>,
}

impl Ledger {
    /// Records a pet that was acknowledged with its identifier. A repeated acknowledgement is recorded too.
    pub fn acknowledge(&mut self, pet: StoredPet) {
        let (ids, category_id) = self.acknowledged.entry(pet.name).or_default();
        ids.insert(pet.id);
        *category_id = pet.category_id;
    }

    /// Records a pet that was acknowledged by an answer without an identifier.
    pub fn acknowledge_name(&mut self, name: String, category_id: i64) {
        self.acknowledged.entry(name).or_default().1 = category_id;
    }

    /// Returns the number of acknowledged pets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.acknowledged.len()
    }

    /// Returns `true` if no pet was acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.acknowledged.is_empty()
    }

    /// Compares the acknowledged pets with all that are stored.
    #[must_use]
    pub fn judge(&self, stored: &[StoredPet]) -> Verdict {
        let mut by_name = BTreeMap::<&str, Vec<&StoredPet>>::new();
        for pet in stored {
            by_name.entry(&pet.name).or_default().push(pet);
        }
        let mut verdict = Verdict { acknowledged: self.len(), stored: stored.len(), ..Verdict::default() };
        for (name, (ids, category_id)) in &self.acknowledged {
            match by_name.get(name.as_str()).map(Vec::as_slice) {
                None | Some([]) => verdict.lost.push(name.clone()),
                Some([pet, ..]) => {
                    let has_its_id = ids.iter().all(|id| *id == pet.id);
                    if !has_its_id || pet.category_id != *category_id {
                        verdict.changed.push(name.clone());
                    }
                }
            }
        }
        let twice = by_name.iter().filter(|(_, pets)| pets.len() > 1);
        verdict.duplicated.extend(twice.map(|(name, _)| (*name).to_owned()));
        verdict
    }
}

/// Result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Number of acknowledged pets.
    pub acknowledged: usize,
    /// Number of stored pets: those that were acknowledged, and those whose answer was lost.
    pub stored: usize,
    /// Names that were acknowledged and are not stored.
    pub lost: Vec<String>,
    /// Names that were acknowledged and are stored under another identifier or with another category.
    pub changed: Vec<String>,
    /// Names that are stored more than once.
    pub duplicated: Vec<String>,
}

impl Verdict {
    /// Fails the test unless every acknowledged pet is stored as it was acknowledged, and every pet once.
    #[track_caller]
    pub fn assert_clean(&self) {
        let is_clean = self.lost.is_empty() && self.changed.is_empty() && self.duplicated.is_empty();
        assert!(is_clean, "{self}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} acknowledged, {} stored", self.acknowledged, self.stored)?;
        for (what, names) in
            [("lost", &self.lost), ("changed", &self.changed), ("duplicated", &self.duplicated)]
        {
            write!(f, ", {} {what}", names.len())?;
            if let (Some(first), Some(last)) = (names.first(), names.last()) {
                write!(f, " ({first} … {last})")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pet(id: i64, name: &str) -> StoredPet {
        StoredPet { id, name: name.to_owned(), category_id: 1 }
    }

    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        ledger.acknowledge(pet(1, "a"));
        ledger.acknowledge(pet(2, "b"));
        ledger.acknowledge(pet(2, "b")); // a replay
        ledger.acknowledge_name("c".to_owned(), 1);
        ledger
    }

    #[test]
    fn a_store_with_acknowledged_and_unanswered_pets_is_clean() {
        let verdict = ledger().judge(&[pet(1, "a"), pet(2, "b"), pet(7, "c"), pet(8, "unanswered")]);
        verdict.assert_clean();
        assert_eq!((verdict.acknowledged, verdict.stored), (3, 4));
    }

    #[test]
    fn a_forged_history_is_detected() {
        let kept = [pet(1, "a"), pet(2, "b"), pet(3, "c")];
        let lost = ledger().judge(&kept[1..]);
        assert_eq!((lost.lost.as_slice(), lost.duplicated.len()), (["a".to_owned()].as_slice(), 0));

        let twice = [kept.as_slice(), &[pet(4, "b")]].concat();
        assert_eq!(ledger().judge(&twice).duplicated, ["b"]);
        let twice_unanswered = [kept.as_slice(), &[pet(4, "d"), pet(5, "d")]].concat();
        assert_eq!(ledger().judge(&twice_unanswered).duplicated, ["d"]);

        let other = [pet(1, "a"), pet(9, "b"), StoredPet { category_id: 2, ..pet(3, "c") }];
        assert_eq!(ledger().judge(&other).changed, ["b", "c"]);

        let mut replayed = ledger();
        replayed.acknowledge(pet(3, "a")); // the same key was answered with another pet
        assert_eq!(replayed.judge(&kept).changed, ["a"]);
    }
}
