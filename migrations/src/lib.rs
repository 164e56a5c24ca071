//! The schema of the store, and its changes. `README.md` describes what a change may do.

use petstore_database::{Schema, SchemaChange};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbErr,
    sea_query::{ColumnDef, ColumnType, Index, Table},
};

mod m0001_baseline;

/// The schema of the store.
pub const SCHEMA: Schema = Schema {
    changes: &[m0001_baseline::CHANGE, M0002, M0003, M0004, M0005, M0006],
    program: "petstore",
    release: env!("CARGO_PKG_VERSION"),
    advisory_lock: i64::from_be_bytes(*b"petstore"),
    discontinued: Some((
        "m0001_pets",
        "was made by a build before release 1.0.0: export its pets with that build (`petstore export`), and \
         import them into a new store (`petstore import`)",
    )),
};

// Changes since release 1.0.0, oldest first. Releases that do not know what a change adds serve on, and leave
// it empty.

/// Columns to add: of each the table, the name and the type. They may be NULL.
type Columns = &'static [(&'static str, &'static str, ColumnType)];

/// The requests that a key may make, and the addresses that may use it. `access` is `read`, or NULL for full
/// access; `allowed_addresses` has blocks, separated by commas, or is NULL.
const SCOPE_OF_KEYS: Columns =
    &[("api_keys", "access", ColumnType::Text), ("api_keys", "allowed_addresses", ColumnType::Text)];

const M0002: SchemaChange = SchemaChange {
    name: "m0002_scope_of_keys",
    up: |db| Box::pin(add(db, SCOPE_OF_KEYS)),
    down: |db| Box::pin(remove(db, SCOPE_OF_KEYS)),
};

/// The key that a rotated key replaces.
const REPLACED_KEYS: Columns = &[("api_keys", "replaces", ColumnType::Text)];

const M0003: SchemaChange = SchemaChange {
    name: "m0003_replaced_keys",
    up: |db| {
        Box::pin(async move {
            add(db, REPLACED_KEYS).await?;
            let mut successors = Index::create();
            successors.name("api_keys_replaces").table("api_keys").col("replaces").col("id");
            db.execute(&successors).await.map(drop)
        })
    },
    down: |db| {
        Box::pin(async move {
            db.execute(Index::drop().name("api_keys_replaces").table("api_keys")).await?;
            remove(db, REPLACED_KEYS).await
        })
    },
};

/// Rehearsals of the removal of getPet.
const M0004: SchemaChange = SchemaChange {
    name: "m0004_brownouts",
    up: |db| {
        Box::pin(async move {
            let mut brownouts = Table::create();
            brownouts
                .table("brownouts")
                .col(ColumnDef::new("id").big_integer().not_null().primary_key().auto_increment())
                .col(ColumnDef::new("account_id").big_integer()) // NULL: every account
                .col(ColumnDef::new("starts_at").big_integer().not_null())
                .col(ColumnDef::new("ends_at").big_integer().not_null());
            db.execute(&brownouts).await.map(drop)
        })
    },
    down: |db| Box::pin(async move { db.execute(Table::drop().table("brownouts")).await.map(drop) }),
};

/// Name in the certificate of the process that called the core, in the audit log.
const CALLERS_CERTIFICATE: Columns = &[("audit_events", "certificate", ColumnType::Text)];

const M0005: SchemaChange = SchemaChange {
    name: "m0005_callers_certificate",
    up: |db| Box::pin(add(db, CALLERS_CERTIFICATE)),
    down: |db| Box::pin(remove(db, CALLERS_CERTIFICATE)),
};

/// Expiry of operators' tokens, and when and from where a session was opened.
const ENDS_OF_TOKENS: Columns = &[
    ("operators", "expires_at", ColumnType::BigInteger),
    ("operator_sessions", "opened_at", ColumnType::BigInteger),
    ("operator_sessions", "client_address", ColumnType::Text),
];

const M0006: SchemaChange = SchemaChange {
    name: "m0006_ends_of_tokens",
    up: |db| Box::pin(add(db, ENDS_OF_TOKENS)),
    down: |db| Box::pin(remove(db, ENDS_OF_TOKENS)),
};

async fn add(db: &DatabaseTransaction, columns: Columns) -> Result<(), DbErr> {
    for (table, column, kind) in columns {
        let column = ColumnDef::new_with_type(*column, kind.clone());
        db.execute(Table::alter().table(*table).add_column(column)).await?;
    }
    Ok(())
}

async fn remove(db: &DatabaseTransaction, columns: Columns) -> Result<(), DbErr> {
    for (table, column, _) in columns.iter().rev() {
        db.execute(Table::alter().table(*table).drop_column(*column)).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
