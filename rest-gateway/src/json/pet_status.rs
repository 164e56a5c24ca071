//! `PetStatus` as JSON and query strings spell it (docs/contract.md, 2.3).

use petstore_proto::v1::PetStatus;

/// Every status word, for messages.
pub(crate) const STATUS_WORDS: &str = "available, pending, sold";

/// The status that is spelt so, exactly.
pub(crate) fn status_from_word(word: &str) -> Option<PetStatus> {
    [PetStatus::Available, PetStatus::Pending, PetStatus::Sold]
        .into_iter()
        .find(|status| word_of(*status) == Some(word))
}

/// How a status is spelt; none is left out.
pub(crate) const fn word_of(status: PetStatus) -> Option<&'static str> {
    match status {
        PetStatus::Unspecified => None,
        PetStatus::Available => Some("available"),
        PetStatus::Pending => Some("pending"),
        PetStatus::Sold => Some("sold"),
    }
}
