//! The schema of the store, and its changes. `README.md` describes what a change may do.

use petstore_database::Schema;

mod additions;
mod m0001_baseline;

/// The schema of the store.
pub const SCHEMA: Schema = Schema {
    changes: &[
        m0001_baseline::CHANGE,
        additions::M0002,
        additions::M0003,
        additions::M0004,
        additions::M0005,
        additions::M0006,
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
