//! The schema of release 1.0.0.

use rand::distr::{Alphanumeric, SampleString};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr,
    sea_query::{
        ColumnDef, Expr, ExprTrait, ForeignKey, Index, IndexCreateStatement, Query, Table,
        TableCreateStatement,
    },
};

use super::Change;

pub(crate) const CHANGE: Change =
    Change { name: "m0001_baseline", up: |db| Box::pin(up(db)), down: |db| Box::pin(down(db)) };

async fn up(db: &DatabaseTransaction) -> Result<(), DbErr> {
    for table in tables() {
        db.execute(&table).await?;
    }
    for index in indexes() {
        db.execute(&index).await?;
    }
    // Eight letters and digits: the probability that two of a thousand stores have equal names is less than
    // one in a hundred million. The name is part of every key in Redis, so it is short.
    let name = Alphanumeric.sample_string(&mut rand::rng(), 8);
    for (table, column, value) in [("revision", "value", 0.into()), ("installation", "name", name.into())] {
        let row = [1.into(), value];
        let insert = Query::insert().into_table(table).columns(["id", column]).values_panic(row).take();
        db.execute(&insert).await?;
    }
    for statement in append_only(db.get_database_backend()) {
        db.execute_unprepared(statement).await?;
    }
    Ok(())
}

async fn down(db: &DatabaseTransaction) -> Result<(), DbErr> {
    for table in tables().iter().rev() {
        if let Some(name) = table.get_table_name() {
            db.execute(&Table::drop().table(name.clone()).take()).await?; // with its indexes and triggers
        }
    }
    if db.get_database_backend() == DbBackend::Postgres {
        db.execute_unprepared("DROP FUNCTION audit_events_refuse()").await?;
    }
    Ok(())
}

/// Returns every table, each after those that it refers to.
pub(crate) fn tables() -> Vec<TableCreateStatement> {
    [catalogue(), customers(), usage(), operators()].concat()
}

/// Returns the tables of pets and of operations on them.
fn catalogue() -> Vec<TableCreateStatement> {
    vec![
        // The catalogue.
        Table::create()
            .table("pets")
            .col(assigned_id())
            .col(text("name").not_null())
            .col(integer("category_id").not_null())
            .col(ColumnDef::new("status").small_integer().null())
            .take(),
        Table::create()
            .table("orders")
            .col(assigned_id())
            .col(integer("pet_id").not_null())
            .col(integer("quantity").not_null())
            .col(unix_millis("ship_date").null())
            .col(ColumnDef::new("status").small_integer().not_null())
            .foreign_key(ForeignKey::create().from("orders", "pet_id").to("pets", "id"))
            .take(),
        // Requests that added a pet, kept for a day so that a repeated one adds one pet. Written in one
        // transaction with the pet, which stays.
        Table::create()
            .table("create_requests")
            .col(ColumnDef::new("digest").blob().not_null().primary_key()) // SHA-256 of the name
            .col(integer("pet_id").not_null())
            .col(unix_millis("created_at").not_null())
            .take(),
        // Positions of imports, so that no line of one is added twice. Kept permanently: a file that was
        // imported once is not imported again by mistake.
        Table::create()
            .table("imports")
            .col(text("import_id").not_null().primary_key())
            .col(integer("last_line").not_null())
            .col(integer("created").not_null())
            .col(unix_millis("updated_at").not_null())
            .take(),
    ]
}

/// Returns the tables of accounts and their keys.
fn customers() -> Vec<TableCreateStatement> {
    vec![
        // Holders of API keys, with their plans.
        Table::create()
            .table("accounts")
            .col(assigned_id())
            .col(text("name").not_null().unique_key())
            .col(text("plan").not_null())
            // Only plan enterprise has custom numbers.
            .col(integer("per_minute").null())
            .col(integer("per_day").null())
            .col(unix_millis("created_at").not_null())
            .col(integer("revision").not_null())
            .col(unix_millis("suspended_at"))
            .col(text("suspend_reason"))
            .take(),
        // API keys: never the key itself, only its digest.
        Table::create()
            .table("api_keys")
            .col(text("id").not_null().primary_key()) // a UUIDv7, as written in logs and lists
            .col(integer("account_id").not_null())
            .col(ColumnDef::new("digest").blob().not_null().unique_key())
            .col(text("prefix").not_null())
            .col(text("last_four").not_null())
            .col(unix_millis("created_at").not_null())
            .col(unix_millis("expires_at").null())
            .col(unix_millis("revoked_at").null())
            .col(unix_millis("last_used_at").null())
            .col(text("label"))
            .foreign_key(ForeignKey::create().from("api_keys", "account_id").to("accounts", "id"))
            .take(),
        // The counter of changes to accounts and keys: always one row. It is raised in the transaction of the
        // change itself. The row's lock makes the next change wait for that commit, so that revisions become
        // visible in their order on PostgreSQL too.
        Table::create()
            .table("revision")
            .col(ColumnDef::new("id").small_integer().not_null().primary_key().check(Expr::col("id").eq(1)))
            .col(integer("value").not_null())
            .take(),
        // The store's name, which lets gateways of several installations share a Redis: always one row.
        Table::create()
            .table("installation")
            .col(ColumnDef::new("id").small_integer().not_null().primary_key().check(Expr::col("id").eq(1)))
            .col(text("name").not_null())
            .take(),
        // Bans of keys: the last one of each, until a day after its end.
        Table::create()
            .table("bans")
            .col(text("key_id").not_null().primary_key())
            .col(unix_millis("imposed_at").not_null())
            // Equal to imposed_at if the key's bans were lifted then.
            .col(unix_millis("ends_at").not_null())
            .col(text("origin").not_null().default("limiter"))
            .col(text("reason"))
            .foreign_key(ForeignKey::create().from("bans", "key_id").to("api_keys", "id"))
            .take(),
    ]
}

/// Returns the tables of counts of requests, and of samples of those that were refused.
fn usage() -> Vec<TableCreateStatement> {
    vec![
        // Requests of accounts by UTC day. There is no foreign key to the account: one unknown account must
        // not make a gateway's whole report fail permanently.
        counts(
            Table::create()
                .table("usage_days")
                .col(integer("account_id").not_null())
                .col(integer("day").not_null()), // days since 1970-01-01
        )
        .primary_key(Index::create().col("account_id").col("day"))
        .take(),
        // Reports of gateways that were counted.
        Table::create()
            .table("usage_reporters")
            .col(text("id").not_null().primary_key()) // a gateway's run
            .col(integer("last_report").not_null()) // its number
            .col(unix_millis("reported_at").not_null())
            .take(),
        // Requests of keys by minute.
        counts(
            Table::create()
                .table("usage_minutes")
                .col(integer("account_id").not_null())
                .col(integer("minute").not_null()) // minutes since 1970-01-01T00:00Z
                .col(text("key_id").not_null()),
        )
        .primary_key(Index::create().col("account_id").col("minute").col("key_id"))
        .take(),
        // Samples of refused requests.
        Table::create()
            .table("refusals")
            .col(assigned_id())
            .col(text("request_id").not_null())
            .col(unix_millis("refused_at").not_null())
            .col(integer("cause").not_null()) // a RefusalCause of the contract
            .col(integer("account_id").not_null()) // 0: no valid key
            .col(text("key_id"))
            .col(integer("quota")) // the limit, if it was one
            .col(unix_millis("since"))
            .col(unix_millis("until"))
            .col(integer("repeats").not_null()) // number of further ones that are not kept
            .take(),
        Table::create()
            .table("refusal_counts")
            .col(integer("minute").not_null())
            .col(integer("cause").not_null())
            .col(integer("requests").not_null())
            .primary_key(Index::create().col("minute").col("cause"))
            .take(),
    ]
}

/// Returns the tables of operators and of their changes.
fn operators() -> Vec<TableCreateStatement> {
    vec![
        // Operators are never removed, so that a name in the audit always refers to one operator.
        Table::create()
            .table("operators")
            .col(assigned_id())
            .col(text("name").not_null().unique_key())
            .col(text("role").not_null())
            .col(ColumnDef::new("digest").blob().not_null().unique_key())
            .col(text("last_four").not_null())
            .col(unix_millis("created_at").not_null())
            .col(unix_millis("revoked_at").null())
            .col(unix_millis("last_used_at").null())
            .take(),
        // Changes by operators. There are no foreign keys: an event records the past, and outlives its
        // subject.
        Table::create()
            .table("audit_events")
            .col(assigned_id())
            .col(unix_millis("created_at").not_null())
            .col(text("operator").not_null())
            .col(text("client_address").not_null())
            .col(text("action").not_null())
            .col(integer("account_id").null())
            .col(text("account").null())
            .col(text("key_id").null())
            .col(text("target_operator").null())
            .col(text("before").null()) // JSON
            .col(text("after").null()) // JSON
            .take(),
        // Sessions of operators. There is no foreign key: operators are never removed.
        Table::create()
            .table("operator_sessions")
            .col(ColumnDef::new("digest").blob().not_null().primary_key())
            .col(integer("operator_id").not_null())
            .col(unix_millis("expires_at").not_null())
            .take(),
    ]
}

fn indexes() -> Vec<IndexCreateStatement> {
    [
        // A page of one status; a page of all is served by the primary key.
        ("pets_status_id", "pets", &["status", "id"][..]),
        // Accounts that changed since a revision. Every gateway requests them once a second.
        ("accounts_revision", "accounts", &["revision"]),
        ("api_keys_account_id", "api_keys", &["account_id"]),
        // The foreign key: without it, a change of one pet would read all orders.
        ("orders_pet_id", "orders", &["pet_id"]),
        // Deletion of bans that are over, and the list of those in force.
        ("bans_ends_at", "bans", &["ends_at"]),
        // Deletion of old days. An account's days are served by the primary key.
        ("usage_days_day", "usage_days", &["day"]),
        // Deletion of old names.
        ("create_requests_created_at", "create_requests", &["created_at"]),
        ("audit_events_created_at", "audit_events", &["created_at", "id"]),
        ("audit_events_operator", "audit_events", &["operator", "id"]),
        ("audit_events_account_id", "audit_events", &["account_id", "id"]),
        ("audit_events_account", "audit_events", &["account", "id"]),
        ("audit_events_key_id", "audit_events", &["key_id", "id"]),
        // Sums over all accounts, and deletion. An account's minutes are served by the primary key.
        ("usage_minutes_minute", "usage_minutes", &["minute"]),
        ("refusals_request", "refusals", &["request_id"]),
        // An account's refusals, also those of one key, and their number by cause.
        ("refusals_account", "refusals", &["account_id", "cause", "refused_at"]),
        // Deletion of old refusals.
        ("refusals_time", "refusals", &["refused_at"]),
    ]
    .into_iter()
    .map(|(name, table, columns)| {
        let mut index = Index::create().name(name).table(table).take();
        for column in columns {
            index.col(*column);
        }
        index
    })
    .collect()
}

/// Returns the statements that make the database itself refuse to change or remove an audit event.
fn append_only(engine: DbBackend) -> &'static [&'static str] {
    match engine {
        DbBackend::Sqlite => &[
            "CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events \
             BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END",
            "CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events \
             BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END",
            // `INSERT OR REPLACE` removes the old row without a trigger for deletions.
            "CREATE TRIGGER audit_events_no_replace BEFORE INSERT ON audit_events \
             WHEN EXISTS (SELECT 1 FROM audit_events WHERE id = NEW.id) \
             BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END",
        ],
        _ => &[
            "CREATE FUNCTION audit_events_refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'audit events are append-only'; END $$",
            "CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_events \
             FOR EACH STATEMENT EXECUTE FUNCTION audit_events_refuse()",
        ],
    }
}

/// Adds the columns of counts of requests, by class of answer.
fn counts(table: &mut TableCreateStatement) -> &mut TableCreateStatement {
    for name in ["succeeded", "client_errors", "refused", "server_errors", "get_pet"] {
        table.col(integer(name).not_null());
    }
    table
}

/// Returns a column for an identifier that the database assigns, upward from 1, and never assigns again:
/// `AUTOINCREMENT` on SQLite, an identity column on PostgreSQL.
fn assigned_id() -> ColumnDef {
    integer("id").not_null().auto_increment().primary_key().take()
}

/// Returns a column for a time in milliseconds since the Unix epoch.
fn unix_millis(name: &'static str) -> ColumnDef {
    integer(name)
}

fn integer(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).big_integer().take()
}

fn text(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).text().take()
}
