//! The binary as an operator starts and stops it.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt, time::Duration};

use petstore_testkit::{Installation, eventually, grpc, raw};
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream, process::Command};

use crate::{FIRST_KEY, PORTS, first_client, pets::created, petstore};

/// Timeout of a refusal to start, or of an end without requests in flight, on a busy machine. It is shorter
/// than the 20 s that requests in flight may take.
const AT_ONCE: Duration = Duration::from_secs(15);

#[tokio::test]
async fn a_new_store_comes_with_a_key_that_works_at_once() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let announced = server.stdout();
    assert_eq!(
        announced,
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
async fn serve_is_what_runs_without_a_command() {
    let installation = petstore();
    let server = installation.start(&PORTS).await;
    first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
}

#[tokio::test]
async fn a_pet_survives_a_restart_and_so_does_a_cursor_and_the_key_is_not_made_again() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let client = first_client(&installation, &server);
    created(
        &client.post("/v1/pets", &json!({"name": "Rex", "categoryId": i64::MIN, "status": "sold"})).await,
    );
    created(&client.post("/v1/pets", &json!({"name": "Tom", "categoryId": i64::MAX})).await);
    let cursor = client.get("/v1/pets?limit=1").await.header("x-next-cursor").to_owned();
    let before = client.get("/v1/pets").await.json();
    let exit = server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");

    let server = installation.start(&serve(&[])).await;
    assert!(!server.stdout().contains("The store is new"), "{}", server.stdout());
    let client = first_client(&installation, &server);
    assert_eq!(client.get("/v1/pets").await.json(), before);
    assert_eq!(client.get("/v1/pets/1").await.json(), before[0]);
    assert_eq!(client.get(&format!("/v1/pets?cursor={cursor}")).await.json(), json!([before[1]]));
    let id = created(&client.post("/v1/pets", &json!({"name": "Kit", "categoryId": 1})).await);
    assert!(id > 2, "an id is assigned upward, also after a restart: {id}");
}

#[tokio::test]
async fn a_pet_survives_a_crash() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let client = first_client(&installation, &server);
    let id = created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    server.crash().await;
    let server = installation.start(&serve(&[])).await;
    let answer = first_client(&installation, &server).get(&format!("/v1/pets/{id}")).await;
    assert_eq!(answer.assert_status(200).json()["name"], "Rex");
}

#[tokio::test]
async fn a_pet_is_seen_through_grpc() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let client = first_client(&installation, &server);
    let id = created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": i64::MAX})).await);
    let mut pets = grpc::pet_store(server.address("gRPC")).await;
    let page = pets.list_pets(grpc::pb::ListPetsRequest::default()).await.unwrap().into_inner();
    assert_eq!(page.pets.iter().map(|pet| (pet.id, pet.category_id)).collect::<Vec<_>>(), [(id, i64::MAX)]);
}

#[tokio::test]
async fn the_admin_port_tells_how_the_service_is() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let live = server.admin().get("/livez").await;
    live.assert_status(200);
    // The core has answered once: shortly after the start.
    let ready = server.ready().await;
    assert_eq!(ready.header("content-type"), "application/json");
    assert_eq!(
        ready.json(),
        json!({"status": "ok", "parts": {"core": "ok", "database": "ok", "limiter": "ok"}}),
        "{ready:?}"
    );
    for path in ["/v1/pets", "/openapi.json"] {
        server.admin().get(path).await.assert_status(404);
    }
    server.anonymous().get("/readyz").await.assert_status(404);
}

#[tokio::test]
async fn a_page_that_lets_its_own_name_point_to_the_admin_port_learns_and_changes_nothing() {
    let installation = petstore();
    let server = installation.start(&serve(&["--admin-host", "known.example"])).await;
    let admin = server.address("admin");
    let ask = async |head: &str, host: &str| {
        let request =
            format!("{head} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwarn");
        raw::answer(&raw::exchange(admin, request.as_bytes()).await)
    };
    for host in ["evil.example", "evil.example:9090", "127.0.0.1.evil.example"] {
        for head in ["PUT /log-level", "GET /log-level", "GET /metrics"] {
            let refused = ask(head, host).await;
            assert_eq!(refused.assert_status(421).json()["code"], "INVALID_REQUEST", "{head}: {refused:?}");
        }
        ask("GET /livez", host).await.assert_status(200);
    }
    assert_eq!(server.admin().get("/log-level").await.assert_status(200).text(), "info");
    for host in ["localhost", "gateway-1:9090", "known.example:9090", "[::1]:9090", "10.0.0.1"] {
        ask("GET /metrics", host).await.assert_status(200);
    }
    ask("PUT /log-level", "localhost:9090").await.assert_status(401); // it requires an operator's token
}

#[tokio::test]
async fn sigterm_or_ctrl_c_ends_an_idle_service_at_once_with_0() {
    for signal in ["TERM", "INT"] {
        let installation = petstore();
        let server = installation.start(&serve(&[])).await;
        let exit = server.ended_by(signal).await;
        assert_eq!(exit.code, Some(0), "SIG{signal}: {exit:?}");
        assert!(exit.took < AT_ONCE, "SIG{signal}: {exit:?}");
    }
}

#[tokio::test]
async fn a_signal_that_comes_twice_at_once_still_ends_the_service_in_order() {
    // Sent as by coreutils' timeout, with a pause, so that the service sees both.
    let twice = "kill -TERM \"$0\" && sleep 0.02 && kill -TERM \"$0\"";
    // On a machine that stalls for 200 ms between the two, the second counts as a separate request to stop:
    // then the test tries again.
    eventually(Duration::from_secs(30), async || {
        let installation = petstore();
        let server = installation.start(&serve(&["--drain-delay", "1s"])).await;
        let sent = Command::new("/bin/sh").args(["-c", twice, &server.pid().to_string()]).status().await;
        assert!(sent.expect("sh runs").success(), "the signals were not sent");
        let exit = server.ended().await;
        if exit.code == Some(0) { Ok(()) } else { Err(format!("{exit:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_second_wish_to_stop_ends_the_service_without_waiting() {
    let installation = petstore();
    let server = installation.start(&serve(&["--drain-delay", "1m"])).await;
    let admin = server.address("admin");
    eventually(AT_ONCE, async || {
        server.signal("INT").await;
        match TcpStream::connect(admin).await {
            Ok(_) => Err("it still listens".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
    let exit = server.ended().await;
    assert_eq!(exit.code, Some(1), "{exit:?}");
    assert!(exit.stderr.ends_with("error: ended at once by a second signal\n"), "{exit:?}");
}

#[tokio::test]
async fn sigterm_ends_the_service_also_under_idle_and_half_sent_connections() {
    let installation = petstore();
    let server = installation.start(&serve(&["--drain-deadline", "3s"])).await;
    let key = installation.read(FIRST_KEY);
    let half_a_body = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\n{{",
        key.trim()
    );
    let mut open = Vec::new();
    for port in ["REST", "gRPC", "admin"] {
        for begun in ["", "GET /v1/pe", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &half_a_body] {
            let mut stream = raw::connect(server.address(port)).await;
            stream.write_all(begun.as_bytes()).await.unwrap();
            open.push(stream);
        }
    }
    // A request that is answered proves that the service has seen those before it.
    first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
    let exit = server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(exit.took < Duration::from_secs(3) + AT_ONCE, "{:?}", exit.took);
    drop(open);
}

#[tokio::test]
async fn while_it_drains_requests_are_served_and_readiness_is_down() {
    let installation = petstore();
    // The delay is longer than the test: nothing waits for its end.
    let server = installation.start(&serve(&["--drain-delay", "5m"])).await;
    let (client, admin) = (first_client(&installation, &server), server.admin());
    server.signal("TERM").await;
    let ready = eventually(AT_ONCE, async || {
        let ready = admin.get("/readyz").await;
        if ready.status() == 503 { Ok(ready) } else { Err(format!("{ready:?}")) }
    })
    .await;
    assert_eq!(ready.json()["status"], "down", "{ready:?}");
    client.get("/v1/pets").await.assert_status(200);
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
        assert_eq!(exit.code, Some(1), "{exit:?}");
        assert_one_line(&exit.stderr, &[flag, &address]);
        assert_eq!(exit.stdout, "", "nothing was announced");
        assert!(exit.took < AT_ONCE, "{exit:?}");
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
async fn a_setting_that_cannot_be_used_is_named_with_what_would_be_right() {
    for (flags, named) in [
        (["--http-addr", "8080"].as_slice(), "--http-addr"),
        // No DNS query is sent for a name with this prefix, which could take long.
        (&["--http-addr=-nowhere.invalid:80"], "--http-addr: cannot resolve -nowhere.invalid:80"),
        (&["--grpc-addr", "0.0.0.0:0"], "--grpc-addr"),
        (&["--environment", "test"], "--environment"),
        (&["--trusted-proxy", "10.0.0.0/33"], "--trusted-proxy"),
        (&["--cors-origin", "shop.example"], "--cors-origin"),
        (&["--drain-deadline", "soon"], "--drain-deadline"),
        (&["--database-url", "mysql://localhost/petstore"], "--database-url"),
        (&["--database-url-file", "nothing-here"], "--database-url-file"),
        (&["--log-level", "=="], "--log-level"),
        (&["--log-level", "debgu"], "error, warn, info, debug, trace"),
        (&["--log-level", ""], "error, warn, info, debug, trace"),
        (&["--colour", "black"], "--colour"),
    ] {
        let installation = petstore();
        let exit = installation.run(&[["serve"].as_slice(), flags].concat()).await;
        assert_eq!(exit.code, Some(2), "{flags:?}: {exit:?}");
        assert_one_line(&exit.stderr, &[named]);
        assert!(exit.took < AT_ONCE, "{exit:?}");
        assert!(!installation.folder().join("data").exists(), "{flags:?}: a store was made for nothing");
    }
}

#[tokio::test]
async fn a_start_that_was_killed_is_completed_by_the_next_and_secrets_of_another_store_are_refused() {
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
        assert!(refusal.contains(&format!("first {name} in data/{secret}")), "{refusal}");
        assert!(refusal.ends_with("move it away"), "{refusal}");
        assert_eq!(fs::read(folder.join(secret)).unwrap(), of_another);
        fs::write(folder.join(secret), "").unwrap(); // as an interrupted start of an earlier release left it
        let server = installation.start(&serve(&[])).await;
        first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
        assert_ne!(fs::read(folder.join(secret)).unwrap(), of_another);
    }
}

#[tokio::test]
async fn a_damaged_store_is_refused_and_left_as_it_is() {
    let installation = petstore();
    let folder = installation.folder().join("data");
    fs::create_dir(&folder).unwrap();
    let file = folder.join("petstore.db");
    let damaged = vec![0x5a; 64 * 1_024];
    fs::write(&file, &damaged).unwrap();
    let exit = installation.run(&serve(&[])).await;
    assert_eq!(exit.code, Some(1), "{exit:?}");
    assert_one_line(&exit.stderr, &["data/petstore.db", "damaged"]);
    assert_eq!(fs::read(&file).unwrap(), damaged, "the file was changed");
    assert!(!folder.join("first-api-key").exists(), "a key was made");
    assert!(exit.took < AT_ONCE, "{exit:?}");
}

#[tokio::test]
async fn a_store_damaged_in_the_middle_is_refused_and_left_as_it_is() {
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
    assert_eq!(exit.code, Some(1), "{exit:?}");
    assert_one_line(&exit.stderr, &["data/petstore.db", "damaged"]);
    assert_eq!(fs::read(&file).unwrap(), damaged, "the file was changed");
}

#[tokio::test]
async fn a_store_in_a_place_that_cannot_be_is_refused() {
    let installation = petstore();
    fs::write(installation.folder().join("data"), "a file").unwrap();
    let exit = installation.run(&serve(&[])).await;
    assert_eq!(exit.code, Some(1), "{exit:?}");
    assert_one_line(&exit.stderr, &["--database-url", "data"]);
}

fn serve<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    ["serve"].into_iter().chain(PORTS).chain(flags.iter().copied()).collect()
}

#[track_caller]
fn assert_one_line(stderr: &str, parts: &[&str]) {
    assert_eq!(stderr.lines().count(), 1, "not one line: {stderr}");
    for part in parts {
        assert!(stderr.contains(part), "{part} is not named: {stderr}");
    }
}
