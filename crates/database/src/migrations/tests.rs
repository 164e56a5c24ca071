use std::path::Path;

use super::*;
use crate::test_support::SCHEMA;

async fn open(path: &Path) -> DatabaseConnection {
    let mut options = ConnectOptions::new(format!("sqlite://{}?mode=rwc", path.display()));
    options.sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

#[tokio::test]
async fn a_migration_of_a_newer_binary_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("items.db")).await;
    up(&db, &SCHEMA).await.unwrap();
    let newer = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_from_the_future', 0)";
    db.execute_unprepared(newer).await.unwrap();
    let newest = status(&db, &SCHEMA).await.unwrap().pop().unwrap();
    assert_eq!(newest, Migration { name: "m9999_from_the_future".into(), state: MigrationState::Unknown });
    let unknown = "Migration Error: the change m9999_from_the_future belongs to another version of shop";
    assert_eq!(losses(&db, &SCHEMA, 1).await.unwrap_err().to_string(), unknown);
    assert_eq!(down(&db, &SCHEMA, 1).await.unwrap_err().to_string(), unknown);
}

#[test]
fn a_release_uses_schemas_with_additions_of_newer_ones_and_without_what_it_does_not_use() {
    for (change, suits) in [
        ("m9999_tags", true),
        ("m9999_drop_tags_unused_since_1_0_0", true),
        ("m9999_drop_tags_unused_since_0_9_12", true),
        ("m9999_drop_tags_unused_since_999_0_0", false),
        ("m9999_drop_tags_unused_since_soon", false),
    ] {
        assert_eq!(SCHEMA.suits(change), suits, "{change}");
    }
}
