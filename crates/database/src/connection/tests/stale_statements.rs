//! Prepared statements that the server no longer runs.

use super::*;

/// Makes calls of every kind. A statement of each has a column as its result whose type is changed.
async fn is_served(items: &Items, how: &str) {
    let database = &items.database;
    let before = database.read(|db| Box::pin(item::Entity::find().all(db))).await;
    let before = before.unwrap_or_else(|error| panic!("{how}, a read: {error:?}")).len();
    items.find(1).await.unwrap_or_else(|error| panic!("{how}, a batched read: {error:?}"));
    items.add("a").await.unwrap_or_else(|error| panic!("{how}, a batched write: {error:?}"));
    let added = database.insert_rows(vec![row()]).await;
    added.unwrap_or_else(|error| panic!("{how}, a write: {error:?}"));
    let in_transaction = database.transaction(|db| {
        Box::pin(async move {
            item::Entity::insert(row()).exec_with_returning(db).await?;
            Ok::<_, DatabaseError>(item::Entity::find().all(db).await?.len())
        })
    });
    let after = in_transaction.await.unwrap_or_else(|error| panic!("{how}, a transaction: {error:?}"));
    assert_eq!(after, before + 3, "{how}: each is added once");
}

#[tokio::test]
async fn they_are_prepared_again_without_notice_to_callers() {
    let (mut items, database) = new_on_postgres().await;
    is_served(&items, "at first").await;
    for kind in ["text", "varchar"] {
        database.psql(&format!("ALTER TABLE items ALTER COLUMN name TYPE {kind}")).await;
        is_served(&items, kind).await;
    }
    for drop in ["DEALLOCATE ALL", "DISCARD ALL"] {
        let groups = [
            items.database.reader.clone(),
            items.database.writer.clone(),
            items.adds.connections.clone(),
            items.finds.primary().connections.clone(),
        ];
        for group in groups {
            group.execute_unprepared(drop).await.unwrap();
        }
        is_served(&items, drop).await;
    }
    let show = "SELECT current_setting('default_transaction_read_only') || current_setting('jit')";
    let show = Statement::from_string(DbBackend::Postgres, show);
    let settings: String = items.database.reader.query(show).await.unwrap()[0].try_get_by_index(0).unwrap();
    assert_eq!(settings, "onoff", "the session's parameters are set again");
}

#[tokio::test]
async fn a_transaction_is_done_once_after_one_whose_repetition_failed_too() {
    let (_items, database) = new_on_postgres().await;
    let home = Home::Database(database);
    let connections = Connections::new(one_connection(&home.url()));
    let failed = connections.transaction(|db| {
        let fail = "DO $$ BEGIN RAISE 'not supported' USING ERRCODE = '0A000'; END $$";
        db.query_all_raw(Statement::from_string(DbBackend::Postgres, fail))
    });
    failed.await.unwrap_err();
    let added = connections.transaction(|db| Box::pin(item::Entity::insert(row()).exec_with_returning(db)));
    added.await.unwrap();
    assert_eq!(committed(&home).await, 1);
}
