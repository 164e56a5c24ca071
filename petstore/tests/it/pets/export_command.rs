//! `petstore export`: the pets in a file.

use std::{fs, io::Read as _, time::Duration};

use petstore_testkit::{Exit, Installation, eventually};
use tokio::time::timeout;

use crate::{PORTS, petstore};

const EXPORT_TIMEOUT: Duration = Duration::from_mins(1);

const PETS: &str = r#"{"id":1,"name":"Rex, \"the dog\"","categoryId":7,"status":"available"}
{"id":2,"name":"Tom 🐈","categoryId":-9223372036854775808}
{"id":3,"name":" Kit ","categoryId":0,"status":"sold"}
"#;

const TABLE: &str = "id,name,categoryId,status\r\n1,\"Rex, \"\"the dog\"\"\",7,available\r\n\
                     2,Tom 🐈,-9223372036854775808,\r\n3, Kit ,0,sold\r\n";

#[tokio::test]
async fn an_export_is_ndjson_or_csv_and_filtered_by_status() {
    let installation = with_pets().await;
    let sold = PETS.lines().nth(2).unwrap().to_owned() + "\n";
    for (args, expected) in [
        (&[][..], PETS),
        (&["-"], PETS),
        (&["--format", "csv"], TABLE),
        (&["--status", "sold"], &sold),
        (&["--status", "pending"], ""),
        (&["--status", "pending", "--format", "csv"], "id,name,categoryId,status\r\n"),
    ] {
        let exit = export(&installation, args).await;
        assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), ""), "{args:?}: {exit:?}");
        assert_eq!(exit.stdout, expected, "{args:?}");
    }
}

#[tokio::test]
async fn an_export_named_gz_is_compressed_and_can_be_imported() {
    let installation = with_pets().await;
    for (file, expected) in
        [("pets.ndjson", PETS), ("pets.csv", TABLE), ("pets.ndjson.gz", PETS), ("pets.csv.gz", TABLE)]
    {
        let exit = export(&installation, &[file]).await;
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), ""), "{exit:?}");
        assert!(exit.stderr.starts_with("exported 3 pets in "), "{exit:?}");
        let bytes = fs::read(installation.folder().join(file)).unwrap();
        let mut text = String::new();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).unwrap();
        } else {
            text = String::from_utf8(bytes).unwrap();
        }
        assert_eq!(text, expected, "{file}");

        let other = ["--database-url", &format!("sqlite://{file}.db")].map(str::to_owned);
        let other = other.each_ref().map(String::as_str);
        assert_eq!(installation.run(&[&["migrate", "up"], other.as_slice()].concat()).await.code, Some(0));
        let exit = installation.run(&[&["import", file], other.as_slice()].concat()).await;
        assert_eq!(exit.code, Some(0), "{exit:?}");
        assert_eq!(export(&installation, &other).await.stdout, PETS, "{file}");
    }
}

#[tokio::test]
async fn an_export_can_read_from_a_core() {
    let installation = with_pets().await;
    let server = installation.start(&PORTS).await;
    let url = format!("http://{}", server.address("gRPC"));
    let without_a_store = petstore();
    let exit = export(&without_a_store, &["--core-url", &url]).await;
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), PETS), "{exit:?}");
}

#[tokio::test]
async fn a_failed_export_leaves_no_file() {
    let installation = with_pets().await;
    fs::write(installation.folder().join("pets.ndjson"), "what was there before").unwrap();
    let unreachable = ["pets.ndjson", "--force", "--core-url", "http://127.0.0.1:1"];
    let exit = export(&installation, &unreachable).await;
    assert_eq!((exit.code, exit.stdout.as_str(), exit.stderr.lines().count()), (Some(1), "", 1), "{exit:?}");
    assert_eq!(installation.read("pets.ndjson"), "what was there before");
    assert!(unfinished(&installation).is_empty());
    let exit = export(&installation, &["nowhere/pets.csv"]).await;
    assert!(exit.code == Some(1) && exit.stderr.contains("cannot write nowhere/pets.csv"), "{exit:?}");
}

#[tokio::test]
async fn an_export_that_is_ended_leaves_no_file() {
    let installation = with_pets().await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let args = ["export", "pets.ndjson", "--core-url", &url];
    let begun = eventually(EXPORT_TIMEOUT, async || match unfinished(&installation).len() {
        0 => Err("no file".to_owned()),
        _ => Ok(()),
    });
    let ended = installation.run_until(&args, b"", begun, "INT").await;
    ended.assert_refused(1, &["ended by SIGINT"]);
    assert!(unfinished(&installation).is_empty() && !installation.folder().join("pets.ndjson").exists());
}

#[tokio::test]
async fn a_check_that_is_ended_leaves_no_file() {
    let installation = petstore();
    installation.write_secret("key", "pet_live_key");
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", silent.local_addr().unwrap());
    let args = ["check", &url, "--key-file", "key", "--junit", "junit.xml"];
    let mut connection = None; // which stays open
    let begun = async {
        connection = timeout(EXPORT_TIMEOUT, silent.accept()).await.ok();
        assert_eq!(unfinished(&installation).len(), 1);
    };
    let ended = installation.run_until(&args, b"", begun, "INT").await;
    ended.assert_refused(1, &["ended by SIGINT"]);
    assert!(unfinished(&installation).is_empty() && !installation.folder().join("junit.xml").exists());
}

/// Returns the names of files that are not complete.
fn unfinished(installation: &Installation) -> Vec<String> {
    let entries = fs::read_dir(installation.folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".petstore-")).collect()
}

async fn with_pets() -> Installation {
    let installation = petstore();
    assert_eq!(installation.run(&["migrate", "up"]).await.code, Some(0));
    let exit = installation.run_with_input(&["import", "-"], PETS.as_bytes()).await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    installation
}

async fn export(installation: &Installation, args: &[&str]) -> Exit {
    installation.run(&[&["export"], args].concat()).await
}
