//! Backup and restore of a store in a SQLite file.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    process::Command,
    time::Duration,
};

use petstore_testkit::{Client, Installation};
use serde_json::{Value, json};

use crate::{key_without_limits, pets::created, petstore, serve};

const STORE: &str = "data/petstore.db";

#[tokio::test]
async fn a_restored_store_is_what_was_backed_up_while_the_service_ran() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let key = key_without_limits(&installation).await;
    let client = server.client(&key);
    add(&client, "backed up").await;
    let revoked = installation.json(&["key", "create", "--account", "first"]).await;
    let id = revoked["key"]["id"].as_str().unwrap();
    assert_eq!(installation.run(&["key", "revoke", id]).await.code, Some(0));

    let exit = installation.run(&["backup", "copy.db"]).await;
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "wrote copy.db\n"), "{exit:?}");
    assert_eq!(mode(&installation, "copy.db"), 0o600);
    add(&client, "added later").await;
    server.crash().await;
    assert!(!fs::read(installation.folder().join("data/petstore.db-wal")).unwrap().is_empty());

    installation.run(&["restore", "copy.db"]).await.assert_refused(1, &[STORE, "--force"]);
    let exit = installation.run(&["restore", "copy.db", "--force"]).await;
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "restored data/petstore.db\n"), "{exit:?}");
    assert_eq!(mode(&installation, STORE), 0o600);
    assert_eq!(names(&installation, &[]).await, ["backed up"]);

    let server = installation.start(&serve(&[])).await;
    server
        .client(revoked["apiKey"].as_str().unwrap())
        .get("/v1/pets")
        .await
        .assert_error(401, "API_KEY_REVOKED");
    add(&server.client(&key), "after the restore").await;
    assert_eq!(names(&installation, &[]).await, ["backed up", "after the restore"]);
}

#[tokio::test]
async fn a_backup_can_be_restored_where_there_is_no_store() {
    let installation = with_pet("backed up").await;
    assert_eq!(installation.run(&["backup", "copy.db"]).await.code, Some(0));
    let elsewhere = ["--database-url", "sqlite://new/store.db"];
    let exit = installation.run(&[["restore", "copy.db"].as_slice(), &elsewhere].concat()).await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert_eq!(mode(&installation, "new/store.db"), 0o600);
    assert_eq!(names(&installation, &elsewhere).await, ["backed up"]);
}

#[tokio::test]
async fn a_restore_that_is_refused_changes_nothing() {
    let installation = with_pet("of the store").await;
    let folder = installation.folder();
    assert_eq!(installation.run(&["backup", "copy.db"]).await.code, Some(0));
    let newer = "INSERT INTO seaql_migrations VALUES ('m0002_less_unused_since_9_0_0', 0)";
    sqlite(&installation, "newer.db", &["copy.db"], newer);
    sqlite(&installation, "other.db", &[], "CREATE TABLE pets (id INTEGER)");
    fs::write(folder.join("text.db"), "not a database ".repeat(1_000)).unwrap();
    let whole = fs::read(folder.join("copy.db")).unwrap();
    fs::write(folder.join("cut.db"), &whole[..whole.len() / 2]).unwrap();
    fs::copy(folder.join("copy.db"), folder.join("logged.db")).unwrap();
    fs::write(folder.join("logged.db-wal"), "a log").unwrap();
    symlink("logged.db", folder.join("link.db")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("fifo.db")).status().unwrap().success());

    let before = names(&installation, &[]).await;
    for (file, reason) in [
        ("missing.db", "cannot read or write missing.db"),
        ("newer.db", "newer than this binary"),
        ("other.db", "other.db is not a store of petstore"),
        ("text.db", "text.db is damaged, or is not a SQLite database"),
        ("cut.db", "cut.db is damaged"),
        ("logged.db", "logged.db-wal is there"),
        ("link.db", "logged.db-wal is there"),
        ("fifo.db", "fifo.db is not a regular file"),
        ("/dev/zero", "/dev/zero is not a regular file"),
    ] {
        installation.run(&["restore", file, "--force"]).await.assert_refused(1, &[reason]);
        assert_eq!(names(&installation, &[]).await, before, "{file}");
    }
    let server = installation.start(&serve(&[])).await;
    installation.run(&["restore", "copy.db", "--force"]).await.assert_refused(1, &["stop the service"]);
    server.anonymous().get("/v1/pets").await.assert_error(401, "MISSING_API_KEY");
    assert_eq!(server.terminate().await.code, Some(0));

    let elsewhere = ["restore", "copy.db", "--database-url", "sqlite://gone.db"];
    fs::write(folder.join("gone.db-wal"), "a log of a store that is gone").unwrap();
    installation.run(&elsewhere).await.assert_refused(1, &["gone.db-wal is there"]);
    assert!(!folder.join("gone.db").exists());
}

#[tokio::test]
async fn a_backup_replaces_no_file_unless_that_is_asked_for() {
    let installation = with_pet("backed up").await;
    let folder = installation.folder();
    fs::write(folder.join("copy.db"), "something").unwrap();
    fs::set_permissions(folder.join("copy.db"), fs::Permissions::from_mode(0o644)).unwrap();
    installation.run(&["backup", "copy.db"]).await.assert_refused(1, &["copy.db exists", "--force"]);
    assert_eq!(installation.read("copy.db"), "something");
    assert_eq!(installation.run(&["backup", "copy.db", "--force"]).await.code, Some(0));
    assert_eq!(mode(&installation, "copy.db"), 0o600);

    installation.run(&["backup", STORE, "--force"]).await.assert_refused(1, &["may be part of a store"]);
    fs::write(folder.join("new.db-wal"), "a log").unwrap();
    installation.run(&["backup", "new.db"]).await.assert_refused(1, &["new.db-wal is there"]);
    let nowhere = ["backup", "new2.db", "--database-url", "sqlite://nowhere.db"];
    installation.run(&nowhere).await.assert_refused(1, &["there is no store at nowhere.db"]);
    let of_folder = ["backup", "new2.db", "--database-url", "sqlite://data"];
    installation.run(&of_folder).await.assert_refused(1, &["data: it is not a regular file"]);
    for command in ["backup", "restore"] {
        let args = [command, "new2.db", "--database-url", "postgres://localhost/petstore"];
        installation.run(&args).await.assert_refused(2, &["pg_dump"]);
    }
    assert!(!folder.join("new2.db").exists());
}

#[tokio::test]
#[ignore = "imports 50,000 pets and kills twenty restores: scripts/test --long"]
async fn a_restore_that_is_killed_leaves_one_of_the_two_stores() {
    let installation = with_pet("of the backup").await;
    assert_eq!(installation.run(&["backup", "copy.db"]).await.code, Some(0));
    let lines: String =
        (0..50_000).map(|_| json!({"name": "of the store", "categoryId": 1}).to_string() + "\n").collect();
    assert_eq!(installation.run_with_input(&["import", "-"], lines.as_bytes()).await.code, Some(0));
    assert_eq!(installation.run(&["backup", "large.db"]).await.code, Some(0));
    for millis in (0..100).step_by(5) {
        let file = if millis % 10 == 0 { "copy.db" } else { "large.db" };
        let moment = tokio::time::sleep(Duration::from_millis(millis));
        installation.run_until(&["restore", file, "--force"], b"", moment, "KILL").await;
        let count = names(&installation, &[]).await.len();
        assert!([1, 50_001].contains(&count), "{count} pets after {millis} ms");
    }
}

async fn with_pet(name: &str) -> Installation {
    let installation = petstore();
    assert_eq!(installation.run(&["migrate", "up"]).await.code, Some(0));
    let pet = json!({"name": name, "categoryId": 1}).to_string();
    assert_eq!(installation.run_with_input(&["import", "-"], pet.as_bytes()).await.code, Some(0));
    installation
}

async fn add(client: &Client, name: &str) {
    created(&client.post("/v1/pets", &json!({"name": name, "categoryId": 1})).await);
}

/// Returns the names of all pets in the store, in the order of their identifiers.
async fn names(installation: &Installation, flags: &[&str]) -> Vec<String> {
    let exit = installation.run(&[["export"].as_slice(), flags].concat()).await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let name = |line: &str| serde_json::from_str::<Value>(line).unwrap()["name"].as_str().unwrap().to_owned();
    exit.stdout.lines().map(name).collect()
}

fn mode(installation: &Installation, file: &str) -> u32 {
    fs::metadata(installation.folder().join(file)).unwrap().mode() & 0o777
}

/// Makes a database, a copy of another one if one is named, and runs a statement in it.
fn sqlite(installation: &Installation, file: &str, copy_of: &[&str], statement: &str) {
    for source in copy_of {
        fs::copy(installation.folder().join(source), installation.folder().join(file)).unwrap();
    }
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(sys.argv[2]); \
                  db.commit()";
    let path = installation.folder().join(file);
    let run = Command::new("python3").args(["-c", script]).arg(path).arg(statement).status();
    assert!(run.unwrap().success(), "python3 fails");
}
