//! The schema of the store, one change per file. `README.md` describes what a change may do.

use petstore_database::Schema;

mod m0001_baseline;
mod m0002_scope_of_keys;
mod m0003_replaced_keys;
mod m0004_brownouts;
mod m0005_callers_certificate;
mod m0006_ends_of_tokens;

/// The schema of the store.
pub const SCHEMA: Schema = Schema {
    changes: &[
        m0001_baseline::CHANGE,
        m0002_scope_of_keys::CHANGE,
        m0003_replaced_keys::CHANGE,
        m0004_brownouts::CHANGE,
        m0005_callers_certificate::CHANGE,
        m0006_ends_of_tokens::CHANGE,
    ],
    program: "petstore",
    release: env!("CARGO_PKG_VERSION"),
    advisory_lock: i64::from_be_bytes(*b"petstore"),
    discontinued: Some((
        "m0001_pets",
        "was made by a build before release 1.0.0: export its pets with that build (`petstore export`), and \
         import them into a new store (`petstore import`)",
    )),
};

#[cfg(test)]
mod tests;
