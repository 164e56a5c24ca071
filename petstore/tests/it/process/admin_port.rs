//! The admin port: liveness and readiness, the hosts that it answers, and slow clients.

use std::{fs, time::Duration};

use petstore_testkit::{Authority, Client, Protocol, eventually, raw};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, time::timeout};

use crate::{PORTS, petstore, serve};

/// Time within which a new certificate must be in use.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of an answer on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of an answer while slow clients have all connections. It is shorter than the time after which
/// their heads are overdue (9 s), which would make room too.
const RECLAIM_TIMEOUT: Duration = Duration::from_secs(8);

#[tokio::test]
async fn the_admin_port_reports_liveness_and_readiness() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let live = server.admin().get("/livez").await;
    live.assert_status(200);
    // The core has answered once: shortly after the start.
    let ready = server.ready().await;
    assert_eq!(ready.header("content-type"), "application/json");
    assert_eq!(
        ready.json(),
        json!({"status": "ok", "parts": {"core": "ok", "database": "ok", "grpc": "ok", "limiter": "ok"}}),
        "{ready:?}"
    );
    for path in ["/v1/pets", "/openapi.json"] {
        server.admin().get(path).await.assert_status(404);
    }
    server.anonymous().get("/readyz").await.assert_status(404);
    for path in ["/livez", "/readyz", "/metrics", "/log-level"] {
        let refused = server.admin().send("DELETE", path, &[], "").await;
        refused.assert_error_body(405, "METHOD_NOT_ALLOWED");
    }
    let token = format!("Bearer {}", installation.read("data/first-operator-token").trim());
    let long = format!("info,{}=debug", "a".repeat(1_000));
    for filter in [b"inf\xff".to_vec(), b"loud".to_vec(), long.into_bytes()] {
        let refused = server.admin().send("PUT", "/log-level", &[("authorization", &token)], filter).await;
        refused.assert_error_body(400, "INVALID_REQUEST");
        assert!(refused.message().starts_with("must be "), "{refused:?}");
    }
}

#[tokio::test]
async fn dns_rebinding_reads_and_changes_nothing_on_the_admin_port() {
    let installation = petstore();
    let server = installation.start(&serve(&["--admin-host", "known.example"])).await;
    let admin = server.address("admin");
    let ask = async |head: &str, host: &str| {
        let request =
            format!("{head} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwarn");
        raw::answer(&raw::exchange(admin, request.as_bytes()).await)
    };
    for host in ["evil.example", "evil.example:9090", "127.0.0.1.evil.example"] {
        for head in ["PUT /log-level", "GET /log-level", "GET /metrics", "GET /nothing"] {
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
async fn the_admin_port_refuses_the_heads_and_origins_that_no_operator_sends() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    server.ready().await;
    let ask = async |head: &str| {
        let request = format!("GET {head}\r\nConnection: close\r\n\r\n");
        raw::answer(&raw::exchange(server.address("admin"), request.as_bytes()).await)
    };
    for path in ["/livez", "/readyz", "/metrics", "/log-level", "/admin/v1/accounts", "/console", "/nothing"]
    {
        for hosts in ["", "\r\nHost: localhost\r\nHost: localhost", "\r\nHost: a b"] {
            let refused = ask(&format!("{path} HTTP/1.1{hosts}")).await;
            refused.assert_error_body(400, "INVALID_REQUEST");
        }
        let of_http_1_0 = format!("GET {path} HTTP/1.0\r\n\r\n");
        let answer = raw::exchange(server.address("admin"), of_http_1_0.as_bytes()).await;
        assert!(!answer.starts_with(b"HTTP/1.0 400"), "{path}: HTTP/1.0 needs no Host");
    }
    for path in ["/metrics", "/log-level", "/admin/v1/accounts", "/admin/v1/openapi.json", "/console"] {
        for origin in ["http://evil.example", "null"] {
            let refused = ask(&format!("{path} HTTP/1.1\r\nHost: localhost:9090\r\nOrigin: {origin}")).await;
            refused.assert_error_body(403, "CROSS_SITE_REQUEST");
        }
        let own = format!("{path} HTTP/1.1\r\nHost: localhost:9090\r\nOrigin: http://localhost:9090");
        assert_ne!(ask(&own).await.status(), 403, "{path}");
    }
}

#[tokio::test]
async fn slow_clients_of_the_admin_port_block_neither_health_nor_operators() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    server.ready().await;
    let mut slow = Vec::new();
    for begun in
        ["", "GET /livez HT", "PUT /log-level HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{"]
    {
        for _ in 0..70 {
            let mut stream = raw::connect(server.address("admin")).await;
            let _ = stream.write_all(begun.as_bytes()).await; // an error: it has been closed for another
            slow.push(stream);
        }
        for path in ["/livez", "/readyz", "/metrics"] {
            let answer = timeout(RECLAIM_TIMEOUT, server.admin().get(path)).await.expect("an answer in time");
            answer.assert_status(200);
        }
    }
    // Connections that are still open are refused when their time is up.
    let mut last = slow.pop().unwrap();
    let answer = timeout(ANSWER_TIMEOUT, raw::read_to_end(&mut last)).await.expect("an answer in time");
    raw::answer(&answer).assert_error_body(408, "REQUEST_TIMEOUT");
}

#[tokio::test]
async fn the_admin_port_refuses_bodies_over_64_kib_and_unsupported_codings() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    server.ready().await;
    let send = async |fields: &str| {
        let head =
            format!("PUT /log-level HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n\r\n");
        raw::answer(&raw::exchange(server.address("admin"), head.as_bytes()).await)
    };
    send("Content-Length: 65537").await.assert_error_body(413, "BODY_TOO_LARGE");
    let chunk = format!("10001\r\n{}\r\n", " ".repeat(0x10001));
    let chunks = format!("Transfer-Encoding: chunked\r\n\r\n{chunk}0");
    send(&chunks).await.assert_error_body(413, "BODY_TOO_LARGE");
    let coded = send("Transfer-Encoding: gzip, chunked\r\n\r\n0").await;
    coded.assert_error_body(501, "UNSUPPORTED_TRANSFER_CODING");
}

#[tokio::test]
async fn health_is_the_readiness_of_a_process() {
    let installation = petstore();
    let server = installation.start(&PORTS).await;
    let admin = format!("http://{}", server.address("admin"));
    let exit = installation.run(&["health", "--admin-url", &admin]).await;
    assert_eq!(
        (exit.code, exit.stdout.as_str()),
        (Some(0), "ok: core ok, database ok, limiter ok, grpc ok\n"),
        "{exit:?}"
    );
    let exit = installation.run(&["health", "--admin-url", &admin, "--output", "json"]).await;
    let readiness: Value = serde_json::from_str(&exit.stdout).unwrap();
    assert_eq!(readiness["parts"]["database"], "ok");
    let rest = format!("http://{}", server.address("REST"));
    let of_rest = installation.run(&["health", "--admin-url", &rest]).await;
    of_rest.assert_refused(1, &["no admin port answers at", &rest]);
    server.terminate().await;
    let exit = installation.run(&["health", "--admin-url", &admin]).await;
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(1), ""), "{exit:?}");
    assert!(exit.stderr.contains(&admin) && exit.stderr.contains("is the service running?"), "{exit:?}");
}

#[tokio::test]
async fn a_process_that_is_not_ready_fails_its_health_check() {
    let installation = petstore();
    let args = ["gateway", "--core-url", "http://127.0.0.1:1", "--http-addr", "127.0.0.1:0"];
    let gateway = installation.start(&[args.as_slice(), &["--admin-addr", "127.0.0.1:0"]].concat()).await;
    let admin = format!("http://{}", gateway.address("admin"));
    let exit = installation.run(&["health", "--admin-url", &admin]).await;
    let (parts, cause) = exit.stdout.split_once('\n').unwrap_or_default();
    assert_eq!((exit.code, parts), (Some(1), "down: core down, limiter ok"), "{exit:?}");
    assert!(cause.starts_with("core: No core has answered since this gateway started"), "{exit:?}");
    assert_eq!(exit.stderr, "error: the process is not ready for requests\n");
}

#[tokio::test]
async fn the_admin_port_over_https_has_secure_sessions_and_takes_a_new_certificate() {
    let (authority, installation) = (Authority::new(), petstore());
    let certificate = authority.issue("127.0.0.1");
    let https = ["--admin-https-addr", "127.0.0.1:0", "--admin-https-cert", &certificate.file];
    let key = ["--admin-https-key", &certificate.key_file];
    let server = installation.start(&serve(&[&https[..], &key].concat())).await;
    let address = server.address("admin-https");
    assert!(server.stdout().contains(&format!("console https://{address}/console\n")), "{}", server.stdout());
    let token = installation.read("data/first-operator-token");
    for protocol in Protocol::ALL {
        let admin = Client::new(address).over_tls(&authority, protocol);
        admin.get("/readyz").await.assert_status(200);
        admin.get("/v1/pets").await.assert_status(404);
        let origin = format!("https://{address}");
        let fields = [("petstore-console", "1"), ("origin", origin.as_str())];
        let body = json!({"token": token.trim()}).to_string();
        let session = admin.send("POST", "/console/session", &fields, body).await;
        session.assert_status(200);
        let cookies = session.values("set-cookie");
        let name = format!("__Host-petstore-console{}=", address.port());
        assert!(cookies[0].starts_with(&name), "{cookies:?}");
        assert!(cookies.iter().all(|cookie| cookie.ends_with("; Secure")), "{cookies:?}");
        let cookie = cookies[0].split(';').next().unwrap();
        let console = admin.with_header("cookie", cookie).with_header("petstore-console", "1");
        console.get("/console/api/accounts").await.assert_status(200);
    }
    let metrics = server.admin().get("/metrics").await;
    let name = "petstore_admin_https_certificate_expiry_timestamp_seconds ";
    let expiry: i64 =
        metrics.text().lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap();
    assert!(expiry > 0, "{expiry}");

    let log_has = async |line: &str| {
        eventually(RELOAD_TIMEOUT, async || {
            let log = server.stderr();
            if log.contains(line) { Ok(()) } else { Err(log) }
        })
        .await;
    };
    let (other, kept) = (Authority::new(), Client::new(address).over_tls(&authority, Protocol::Http1));
    let new = other.issue("127.0.0.1");
    fs::write(&certificate.file, "not a certificate").unwrap();
    log_has("cannot reload the HTTPS certificate of the admin port").await;
    kept.get("/livez").await.assert_status(200);
    fs::copy(&new.key_file, &certificate.key_file).unwrap();
    fs::copy(&new.file, &certificate.file).unwrap();
    log_has(": reloaded the HTTPS certificate of the admin port").await;
    Client::new(address).over_tls(&other, Protocol::Http2).get("/livez").await.assert_status(200);
}

#[tokio::test]
async fn an_unusable_certificate_of_the_admin_port_is_named_at_the_start() {
    let (installation, authority) = (petstore(), Authority::new());
    let (certificate, other) = (authority.issue("127.0.0.1"), authority.issue("127.0.0.1"));
    let with = async |cert: &str, key: &str| {
        let addr = ["--admin-https-addr", "127.0.0.1:0"];
        let files = ["--admin-https-cert", cert, "--admin-https-key", key];
        installation.run(&serve(&[&addr[..], &files].concat())).await
    };
    for (exit, setting, fault) in [
        (with("/nowhere.pem", &certificate.key_file).await, "--admin-https-cert: ", "/nowhere.pem"),
        (with(&certificate.key_file, &certificate.key_file).await, "--admin-https-cert: ", "no certificate"),
        (with(&certificate.file, &other.key_file).await, "--admin-https-key: ", "the key of another"),
    ] {
        assert_eq!((exit.code, exit.stderr.lines().count()), (Some(2), 1), "{exit:?}");
        assert!(exit.stderr.contains(setting) && exit.stderr.contains(fault), "{exit:?}");
    }
    let exit = installation.run(&serve(&["--admin-https-addr", "127.0.0.1:0"])).await;
    assert_eq!(exit.code, Some(2), "{exit:?}");
    assert!(exit.stderr.contains("--admin-https-cert"), "{exit:?}");
}
