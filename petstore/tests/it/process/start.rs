//! The start of the process, and settings that it refuses.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, time::Duration};

use petstore_testkit::Installation;
use serde_json::json;

use crate::{FIRST_KEY, PORTS, first_client, pets::created, petstore, serve};

/// Timeout of a refusal to start, on a busy machine.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(15);

#[tokio::test]
async fn a_new_store_comes_with_a_key_that_works_at_once() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let announced = server.stdout();
    let of_debug = "build  to try it, not optimized; for measurements and production: cargo run --release\n";
    assert_eq!(
        announced.trim_start_matches(of_debug),
        format!(
            "REST   http://{rest}/v1\n\
             docs   http://{rest}/docs\n\
             gRPC   {grpc}\n\
             admin  http://{admin}\n\
             console http://{admin}/console\n\
             store  sqlite://data/petstore.db\n\
             The store is new: account \"first\" on plan Free has one API key, in data/first-api-key. \
             Try it:\n  \
             curl -H \"Authorization: Bearer $(cat data/first-api-key)\" http://{rest}/v1/pets\n\
             Its operator \"first\" has a token, in data/first-operator-token. Sign in with it at \
             http://{admin}/console\n",
            rest = server.address("REST"),
            grpc = server.address("gRPC"),
            admin = server.address("admin"),
        )
    );
    let mode = fs::metadata(installation.folder().join(FIRST_KEY)).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let answer = first_client(&installation, &server).get("/v1/pets").await;
    assert_eq!(answer.assert_status(200).rate().limit, 60, "{answer:?}");
}

#[tokio::test]
async fn a_taken_port_is_named_and_no_store_is_made() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--http-addr", "--grpc-addr", "--admin-addr"] {
        let installation = petstore();
        let mut args = serve(&[]);
        let at = args.iter().position(|arg| *arg == flag).unwrap();
        args[at + 1] = &address;
        let exit = installation.run(&args).await;
        exit.assert_refused(1, &[flag, &address]);
        assert!(exit.took < REFUSAL_TIMEOUT, "{exit:?}");
        assert!(!installation.folder().join("data").exists(), "a store was made for nothing");
    }
}

#[tokio::test]
async fn two_services_on_one_port_do_not_both_run() {
    let first = petstore();
    let server = first.start(&serve(&[])).await;
    let address = server.address("REST").to_string();
    let exit = petstore()
        .run(&["serve", "--http-addr", &address, "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"])
        .await;
    assert_eq!(exit.code, Some(1), "{exit:?}");
    first_client(&first, &server).get("/v1/pets").await.assert_status(200);
}

#[tokio::test]
async fn an_invalid_setting_is_named_with_the_valid_form() {
    for (flags, named) in [
        (["--http-addr", "8080"].as_slice(), "--http-addr"),
        // No DNS query is sent for a name with this prefix, which could take long.
        (&["--http-addr=-nowhere.invalid:80"], "--http-addr: cannot resolve -nowhere.invalid:80"),
        (&["--grpc-addr", "0.0.0.0:0"], "--grpc-addr"),
        (&["--environment", "test"], "--environment"),
        (&["--trusted-proxy", "10.0.0.0/33"], "--trusted-proxy"),
        (&["--proxy-protocol", "on"], "--trusted-proxy"),
        (&["--cors-origin", "shop.example"], "--cors-origin"),
        (&["--drain-deadline", "soon"], "--drain-deadline"),
        (&["--database-url", "mysql://localhost/petstore"], "--database-url"),
        (&["--database-url", "sqlite://:memory:"], "--database-url: the database URL must name a file"),
        (&["--database-url-file", "nothing-here"], "--database-url-file"),
        (&["--log-level", "=="], "--log-level"),
        (&["--log-level", "debgu"], "error, warn, info, debug, trace"),
        (&["--log-level", ""], "error, warn, info, debug, trace"),
        (&["--redis-url", "http://localhost"], "redis://"),
        (&["--gateways", "0"], "--gateways"),
        (&["--on-redis-failure", "shut"], "local, open or closed"),
        (&["--colour", "black"], "--colour"),
    ] {
        let installation = petstore();
        let exit = installation.run(&[["serve"].as_slice(), flags].concat()).await;
        exit.assert_refused(2, &[named]);
        assert!(exit.took < REFUSAL_TIMEOUT, "{exit:?}");
        assert!(!installation.folder().join("data").exists(), "{flags:?}: a store was made for nothing");
    }
}

#[tokio::test]
async fn a_killed_start_is_completed_by_the_next_and_foreign_secrets_are_refused() {
    let first = petstore();
    let data = first.folder().join("data");
    for moment in 1..=12 {
        let _ = fs::remove_dir_all(&data);
        let killed = Installation::of("timeout");
        let moment = format!("{:.2}", 0.05 * f64::from(moment));
        let url = format!("sqlite://{}/petstore.db", data.display());
        let flags =
            ["--signal=KILL", &moment, env!("CARGO_BIN_EXE_petstore"), "serve", "--database-url", &url];
        killed.run(&[flags.as_slice(), &PORTS].concat()).await;
        let server = first.start(&serve(&[])).await;
        first_client(&first, &server).get("/v1/pets").await.assert_status(200);
        assert_eq!(server.terminate().await.code, Some(0));
    }
    for (secret, name) in [("first-api-key", "API key"), ("first-operator-token", "operator token")] {
        let installation = petstore();
        let folder = installation.folder().join("data");
        fs::create_dir(&folder).unwrap();
        let of_another = fs::read(data.join(secret)).unwrap();
        fs::write(folder.join(secret), &of_another).unwrap();
        let exit = installation.run(&serve(&[])).await;
        assert_eq!(exit.code, Some(1), "{exit:?}");
        let refusal = exit.stderr.lines().last().unwrap(); // the store was made before
        assert!(refusal.contains(&format!("first {name} to data/{secret}")), "{refusal}");
        assert!(refusal.ends_with("move it away"), "{refusal}");
        assert_eq!(fs::read(folder.join(secret)).unwrap(), of_another);
        fs::remove_file(folder.join(secret)).unwrap();
        let server = installation.start(&serve(&[])).await;
        first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
        assert_ne!(fs::read(folder.join(secret)).unwrap(), of_another);
    }
}

#[tokio::test]
async fn a_damaged_store_is_refused_and_left_unchanged() {
    let installation = petstore();
    let folder = installation.folder().join("data");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("petstore.db");
    let damaged = vec![0x5a; 64 * 1_024];
    fs::write(&file, &damaged).unwrap();
    let exit = installation.run(&serve(&[])).await;
    exit.assert_refused(1, &["data/petstore.db", "damaged"]);
    assert_eq!(fs::read(&file).unwrap(), damaged, "the file was changed");
    assert!(!folder.join("first-api-key").exists(), "a key was made");
    assert!(exit.took < REFUSAL_TIMEOUT, "{exit:?}");
}

#[tokio::test]
async fn a_store_damaged_in_the_middle_is_refused_and_left_unchanged() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let client = first_client(&installation, &server);
    for _ in 0..40 {
        let name = "x".repeat(255);
        created(&client.post("/v1/pets", &json!({"name": name, "categoryId": 1})).await);
    }
    server.terminate().await;
    let file = installation.folder().join("data/petstore.db");
    let mut damaged = fs::read(&file).unwrap();
    let header = 4_096; // the first page stays intact: only a check of the rest finds the damage
    damaged[header..].iter_mut().step_by(7).for_each(|byte| *byte ^= 0xff);
    fs::write(&file, &damaged).unwrap();
    let exit = installation.run(&serve(&[])).await;
    exit.assert_refused(1, &["data/petstore.db", "damaged"]);
    assert_eq!(fs::read(&file).unwrap(), damaged, "the file was changed");
}

#[tokio::test]
async fn a_store_in_an_impossible_place_is_refused() {
    let installation = petstore();
    fs::write(installation.folder().join("data"), "a file").unwrap();
    let exit = installation.run(&serve(&[])).await;
    exit.assert_refused(1, &["--database-url", "data"]);
    let installation = petstore().with_variable("PETSTORE_DATABASE_URL_FILE", "url");
    installation.write_secret("url", "sqlite://url/petstore.db");
    let exit = installation.run(&["account", "list"]).await;
    exit.assert_refused(1, &["PETSTORE_DATABASE_URL_FILE: ", "url"]);
}

#[tokio::test]
async fn host_names_are_resolved_when_a_port_is_bound() {
    let installation = petstore();
    let args =
        ["serve", "--http-addr", "localhost:0", "--grpc-addr", "localhost:0", "--admin-addr", "localhost:0"];
    let server = installation.start(&args).await;
    for port in ["REST", "gRPC", "admin"] {
        assert_eq!(server.address(port).ip().to_string(), "127.0.0.1", "{port}");
    }
    first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
}
