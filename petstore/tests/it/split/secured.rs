//! Core and gateway as two processes that authenticate each other, or share a Unix socket.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use petstore_testkit::{Authority, Installation, Server, eventually, grpc, servers::HaproxyServer};
use serde_json::json;
use tokio::time::timeout;

use super::{Clients, part_is};
use crate::{key_of_new_account, key_without_limits, metric, pets::created, petstore};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const NEXT_TOKEN: &str = "another-token-that-is-as-long-as-needed";
const RELOADED: &str = "reloaded the";
const CERTIFICATE_EXPIRY: &str = "petstore_grpc_certificate_expiry_timestamp_seconds";
/// Time within which the service must notice that a part is there.
const NOTICED_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_gateway_with_the_cores_token_is_served_and_one_without_is_not() {
    let (installation, authority) = (petstore(), Authority::new());
    let token = authority.keep_token(TOKEN);
    let core = start_core(&installation, "127.0.0.1:0", &["--service-token-file", &token]).await;
    let key = key_of_new_account(&installation).await;
    let url = format!("http://{}", core.address("gRPC"));
    let gateway = start_gateway(&installation, &url, &["--service-token-file", &token]).await;
    assert_serves(&gateway, &key).await;

    let other = authority.keep_token(NEXT_TOKEN);
    for flags in [[].as_slice(), &["--service-token-file", &other]] {
        let gateway = start_gateway(&installation, &url, flags).await;
        assert_says_that_the_core_is_away(&gateway, &key, "cannot fetch account changes from the core").await;
        part_is(&gateway, "core", "down", "token_refused").await;
        assert!(!gateway.stderr().contains(TOKEN), "{}", gateway.stderr());
    }

    let mended = start_gateway(&installation, &url, &["--service-token-file", &other]).await;
    part_is(&mended, "core", "down", "token_refused").await;
    fs::write(&other, TOKEN).unwrap();
    mended.signal("HUP").await;
    let is_over = timeout(Duration::from_secs(20), part_is(&mended, "core", "ok", ""));
    is_over.await.expect("eight answers, one each second");
    let exit = core.terminate().await;
    assert!(!exit.stderr.contains(TOKEN), "{exit:?}");
}

#[tokio::test]
async fn a_gateway_says_that_one_of_two_cores_refuses_it() {
    let (installation, authority) = (petstore(), Authority::new());
    let [token, other] = [TOKEN, NEXT_TOKEN].map(|it| authority.keep_token(it));
    let first = start_core(&installation, "127.0.0.1:0", &["--service-token-file", &token]).await;
    let second = start_core(&installation, "127.0.0.1:0", &["--service-token-file", &other]).await;
    let cores = [&first, &second].map(|core| (core.address("gRPC"), core.address("admin")));
    let proxy = HaproxyServer::start_before_cores(&cores).await;
    let url = format!("http://{}", proxy.address());
    let gateway = start_gateway(&installation, &url, &["--service-token-file", &token]).await;
    let body = part_is(&gateway, "core", "degraded", "token_refused").await;
    let message = body["causes"]["core"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("the service token is not this core's"), "{body}");
    // Every second question for changes is answered.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let ready = gateway.admin().get("/readyz").await;
        assert_eq!(ready.assert_status(200).json()["parts"]["core"], "degraded", "no flapping: {ready:?}");
    }
    drop(second);
    part_is(&gateway, "core", "ok", "").await;
}

#[tokio::test]
async fn an_operator_needs_the_service_token_and_the_audit_has_the_peers_address() {
    let (installation, authority) = (petstore(), Authority::new());
    let token = authority.keep_token(TOKEN);
    let core = start_core(&installation, "127.0.0.1:0", &["--service-token-file", &token]).await;
    let url = format!("http://{}", core.address("gRPC"));
    let created = installation.run(&["operator", "create", "ann", "--role", "admin"]).await.stdout;
    let operator = authority.keep_token(created.trim());
    let run = async |args: &[&str]| {
        let target = ["--core-url", &url, "--operator-token-file", &operator];
        installation.run(&[args, &target].concat()).await
    };
    let refused = run(&["account", "list"]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("petstore-service-token"), "{refused:?}");
    let create = ["account", "create", "acme", "--plan", "free", "--service-token-file", &token];
    let done = run(&create).await;
    assert_eq!(done.code, Some(0), "{done:?}");

    let gateway = start_gateway(&installation, &url, &["--service-token-file", &token]).await;
    let admin = gateway.admin().with_header("authorization", &format!("Bearer {}", created.trim()));
    let events = admin.get("/admin/v1/audit-events?account=acme").await.assert_status(200).json();
    let event = &events["events"][0];
    assert_eq!(
        (&event["operator"], &event["clientAddress"]),
        (&json!("ann"), &json!("127.0.0.1")),
        "{event}"
    );
}

#[tokio::test]
async fn sighup_reloads_the_service_token_on_both_sides() {
    let (installation, authority) = (petstore(), Authority::new());
    let [at_core, at_gateway] = [TOKEN, TOKEN].map(|token| authority.keep_token(token));
    let core = start_core(&installation, "127.0.0.1:0", &["--service-token-file", &at_core]).await;
    let key = key_of_new_account(&installation).await;
    let url = format!("http://{}", core.address("gRPC"));
    let gateway = start_gateway(&installation, &url, &["--service-token-file", &at_gateway]).await;
    assert_serves(&gateway, &key).await;

    // The order of a rotation: a gateway that is refused once reports that for 30 seconds.
    let both = format!("{TOKEN}\n{NEXT_TOKEN}");
    for (file, server, written, times) in [
        (&at_core, &core, both.as_str(), 1),
        (&at_gateway, &gateway, NEXT_TOKEN, 1),
        (&at_core, &core, NEXT_TOKEN, 2),
    ] {
        fs::write(file, "too short").unwrap();
        server.signal("HUP").await;
        eventually(NOTICED_TIMEOUT, async || match server.stderr() {
            log if log.matches(": the old one stays in use").count() >= times => Ok(()),
            log => Err(log),
        })
        .await;
        fs::write(file, written).unwrap();
        server.signal("HUP").await;
        reloads(server, times).await;
    }
    assert_serves(&gateway, &key).await;
    fs::write(&at_gateway, TOKEN).unwrap();
    gateway.signal("HUP").await;
    eventually(NOTICED_TIMEOUT, async || {
        let answer = gateway.client(&key).get("/v1/pets").await;
        if answer.status() == 503 { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
    for server in [core, gateway] {
        let exit = server.terminate().await;
        assert_eq!(exit.code, Some(0), "{exit:?}");
        assert!(!exit.stderr.contains(TOKEN) && !exit.stderr.contains("too short"), "{exit:?}");
    }
}

#[tokio::test]
async fn a_service_token_is_replaced_in_any_order_without_a_failed_request() {
    let (installation, authority) = (petstore(), Authority::new());
    let [at_first, at_second, at_gateway] = [TOKEN; 3].map(|token| authority.keep_token(token));
    let first = start_core(&installation, "127.0.0.1:0", &["--service-token-file", &at_first]).await;
    let second = start_core(&installation, "127.0.0.1:0", &["--service-token-file", &at_second]).await;
    let key = key_without_limits(&installation).await;
    let url = [&first, &second].map(|core| format!("http://{}", core.address("gRPC"))).join(",");
    let gateway = start_gateway(&installation, &url, &["--service-token-file", &at_gateway]).await;
    assert_serves(&gateway, &key).await;

    let clients = Clients::start(&gateway, &key);
    let mut order = [(&at_first, &first), (&at_second, &second), (&at_gateway, &gateway)];
    for written in
        [format!("{TOKEN}\n{NEXT_TOKEN}\n"), format!("{NEXT_TOKEN}\n{TOKEN}\n"), NEXT_TOKEN.to_owned()]
    {
        order.reverse();
        for (file, server) in order {
            let read = server.stderr().matches(RELOADED).count();
            fs::write(file, &written).unwrap();
            server.signal("HUP").await;
            eventually(NOTICED_TIMEOUT, async || {
                let log = server.stderr();
                if log.matches(RELOADED).count() > read { Ok(()) } else { Err(log) }
            })
            .await;
            clients.answered(50).await;
        }
    }
    clients.assert_all_served().await;

    let old = start_gateway(
        &installation,
        &format!("http://{}", first.address("gRPC")),
        &["--service-token-file", &authority.keep_token(&format!("{TOKEN}\n{NEXT_TOKEN}"))],
    )
    .await;
    assert_says_that_the_core_is_away(&old, &key, "cannot fetch account changes from the core").await;
}

#[tokio::test]
async fn a_changed_token_or_certificate_is_used_without_a_signal() {
    let (installation, authority, next) = (petstore(), Authority::new(), Authority::new());
    let [at_core, at_gateway] = [TOKEN, TOKEN].map(|token| authority.keep_token(token));
    let (server, new) = (authority.issue("127.0.0.1"), next.issue("127.0.0.1"));
    let flags = ["--tls-cert", &server.file, "--tls-key", &server.key_file, "--service-token-file", &at_core];
    let core = start_core(&installation, "127.0.0.1:0", &flags).await;
    let (key, address) = (key_of_new_account(&installation).await, core.address("gRPC"));
    let (url, trusted) = (format!("https://{address}"), authority.file());
    let flags = ["--core-ca", &trusted, "--service-token-file", &at_gateway];
    let gateway = start_gateway(&installation, &url, &flags).await;
    assert_serves(&gateway, &key).await;
    grpc::tls_channel(address, &next, None).await.expect_err("the certificate is not in use yet");

    // In the order of a rotation, as above. The file's mode is refused at first.
    fs::set_permissions(&at_core, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&at_core, format!("{TOKEN}\n{NEXT_TOKEN}")).unwrap();
    eventually(NOTICED_TIMEOUT, async || {
        let log = core.stderr();
        if log.contains("must be a file of mode 0600 or stricter") { Ok(()) } else { Err(log) }
    })
    .await;
    fs::set_permissions(&at_core, fs::Permissions::from_mode(0o600)).unwrap();
    fs::copy(&new.key_file, &server.key_file).unwrap();
    fs::copy(&new.file, &server.file).unwrap();
    reloads(&core, 2).await;
    fs::write(&at_gateway, NEXT_TOKEN).unwrap();
    fs::copy(next.file(), &trusted).unwrap();
    reloads(&gateway, 1).await;
    fs::write(&at_core, NEXT_TOKEN).unwrap();
    reloads(&core, 3).await;
    grpc::tls_channel(address, &next, None).await.expect("the new certificate is in use");
    assert_serves(&gateway, &key).await;
    for server in [core, gateway] {
        let exit = server.terminate().await;
        assert!(!exit.stderr.contains(NEXT_TOKEN), "{exit:?}");
    }
}

#[tokio::test]
async fn a_gateway_and_a_core_that_trust_each_others_certificates_work_together() {
    let (installation, authority, stranger) = (petstore(), Authority::new(), Authority::new());
    let (server, client) = (authority.issue("127.0.0.1"), authority.issue("gateway"));
    let forged = stranger.issue("gateway");
    let tls =
        ["--tls-cert", &server.file, "--tls-key", &server.key_file, "--tls-client-ca", &authority.file()];
    let core = start_core(&installation, "127.0.0.1:0", &tls).await;
    let key = key_of_new_account(&installation).await;
    let port = core.address("gRPC").port();
    let (right, wrong_name) = (format!("https://127.0.0.1:{port}"), format!("https://localhost:{port}"));
    let (trusted, distrusted) = (authority.file(), stranger.file());
    let shown = ["--core-cert", &client.file, "--core-key", &client.key_file];
    let shown_forged = ["--core-cert", &forged.file, "--core-key", &forged.key_file];

    let gateway =
        start_gateway(&installation, &right, &[["--core-ca", &trusted].as_slice(), &shown].concat()).await;
    assert_serves(&gateway, &key).await;
    let (refused, lost) = ("cannot fetch account changes from the core", "the core does not answer");
    for (url, authority, shown, line) in [
        (&right, &trusted, [].as_slice(), refused),
        (&right, &trusted, &shown_forged, lost),
        (&right, &distrusted, &shown, lost),
        (&wrong_name, &trusted, &shown, lost),
    ] {
        let gateway =
            start_gateway(&installation, url, &[["--core-ca", authority].as_slice(), shown].concat()).await;
        assert_says_that_the_core_is_away(&gateway, &key, line).await;
        if line == refused {
            let body = part_is(&gateway, "core", "down", "certificate_required").await;
            let message = body["causes"]["core"]["message"].as_str().unwrap_or_default().to_owned();
            assert!(message.contains("certificate"), "{body}");
        }
    }
    for server in [&core, &gateway] {
        assert!(metric(server, CERTIFICATE_EXPIRY).await > 0, "{:?}", server.stderr());
    }
    let without = start_gateway(&installation, &right, &["--core-ca", &trusted]).await;
    assert_eq!(metric(&without, CERTIFICATE_EXPIRY).await, 0);

    let created = installation.run(&["operator", "create", "ann", "--role", "viewer"]).await.stdout;
    let operator = authority.keep_token(created.trim());
    let listing =
        ["account", "list", "--core-url", &right, "--core-ca", &trusted, "--operator-token-file", &operator];
    let refused = installation.run(&listing).await;
    assert!(refused.stderr.contains("--core-cert and --core-key"), "{refused:?}");
    let done = installation.run(&[listing.as_slice(), &shown].concat()).await;
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[tokio::test]
async fn the_core_names_the_certificate_of_a_gateway_in_its_log_its_metrics_and_the_audit_log() {
    let (installation, authority) = (petstore(), Authority::new());
    let (server, client) = (authority.issue("127.0.0.1"), authority.issue("gateway-7.example"));
    let (token, other, trusted) =
        (authority.keep_token(TOKEN), authority.keep_token(NEXT_TOKEN), authority.file());
    let required = ["--tls-cert", &server.file, "--tls-key", &server.key_file, "--tls-client-ca", &trusted];
    let flags = [required.as_slice(), &["--service-token-file", &token, "--log-level", "debug"]].concat();
    let core = start_core(&installation, "127.0.0.1:0", &flags).await;
    let key = key_of_new_account(&installation).await;
    let url = format!("https://{}", core.address("gRPC"));
    let shown = ["--core-ca", &trusted, "--core-cert", &client.file, "--core-key", &client.key_file];
    let with_token = |token| [shown.as_slice(), &["--service-token-file", token]].concat();

    let gateway = start_gateway(&installation, &url, &with_token(&token)).await;
    assert_serves(&gateway, &key).await;
    gateway.client(&key).get("/v1/pets/999").await.assert_error(404, "PET_NOT_FOUND");
    let labels = r#"client_certificate="gateway-7.example",code="PET_NOT_FOUND""#;
    let series = format!("petstore_rpc_caller_failures_total{{{labels}}} 1");
    let metrics = core.admin().get("/metrics").await;
    assert!(metrics.text().lines().any(|line| line == series), "{}", metrics.text());

    let operator = installation.run(&["operator", "create", "ann", "--role", "admin"]).await.stdout;
    let admin = gateway.admin().with_header("authorization", &format!("Bearer {}", operator.trim()));
    let account = json!({"name": "globex", "plan": "free"});
    admin.post("/admin/v1/accounts", &account).await.assert_status(201);
    let events = admin.get("/admin/v1/audit-events?account=globex").await.assert_status(200).json();
    assert_eq!(events["events"][0]["clientCertificate"], "gateway-7.example", "{events}");

    let operator = authority.keep_token(operator.trim());
    // A certificate for an address has neither a DNS name nor a URI.
    let command = ["audit", "--core-url", &url, "--operator-token-file", &operator];
    let nameless = ["--core-ca", &trusted, "--core-cert", &server.file, "--core-key", &server.key_file];
    let with_it = [command.as_slice(), &nameless, &["--service-token-file", &token]].concat();
    let table = installation.run(&with_it).await.stdout;
    assert!(table.contains("127.0.0.1 gateway-7.example"), "{table}");

    let _refused = start_gateway(&installation, &url, &with_token(&other)).await;
    for (event, certificate) in [
        ("GetPet refused", "gateway-7.example"),
        ("handled an operator's request", "unnamed"),
        ("refused a caller", "gateway-7.example"),
    ] {
        let shown = format!("certificate=\"{certificate}\"");
        eventually(NOTICED_TIMEOUT, async || {
            let log = core.stderr();
            let is_named = log.lines().any(|line| line.contains(event) && line.contains(&shown));
            if is_named { Ok(()) } else { Err(format!("{event}: {log}")) }
        })
        .await;
    }
}

#[tokio::test]
async fn gateway_and_core_connect_over_a_unix_socket_that_only_its_owner_can_use() {
    let installation = petstore();
    let socket = installation.folder().join("core.sock");
    let address = format!("unix://{}", socket.display());
    let core = start_core(&installation, &address, &[]).await;
    assert!(core.stdout().contains(&format!("gRPC   {address}\n")), "{}", core.stdout());
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let key = key_of_new_account(&installation).await;
    let gateway = start_gateway(&installation, &address, &[]).await;
    assert_serves(&gateway, &key).await;

    let second = installation.run(&core_args(&address, &[])).await;
    assert_eq!(second.code, Some(1), "{second:?}");
    assert!(second.stderr.contains("--grpc-addr") && second.stderr.contains("already in use"), "{second:?}");
    assert_serves(&gateway, &key).await;

    core.crash().await;
    assert!(socket.exists(), "a crash leaves the file behind");
    let core = start_core(&installation, &address, &[]).await;
    assert_serves(&gateway, &key).await;
    let exit = core.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(!socket.exists(), "an orderly end removes it");
}

fn core_args<'a>(address: &'a str, flags: &[&'a str]) -> Vec<&'a str> {
    [["core", "--grpc-addr", address, "--admin-addr", "127.0.0.1:0"].as_slice(), flags].concat()
}

async fn start_core(installation: &Installation, address: &str, flags: &[&str]) -> Server {
    installation.start(&core_args(address, flags)).await
}

async fn start_gateway(installation: &Installation, core: &str, flags: &[&str]) -> Server {
    let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    installation.start(&[["gateway", "--core-url", core].as_slice(), &ports, flags].concat()).await
}

/// Waits until the process has reread changed files this many times.
async fn reloads(server: &Server, times: usize) {
    eventually(NOTICED_TIMEOUT, async || match server.stderr() {
        log if log.matches(RELOADED).count() >= times => Ok(()),
        log => Err(log),
    })
    .await;
}

/// Checks that the gateway is ready, and adds a pet with the key.
async fn assert_serves(gateway: &Server, key: &str) {
    eventually(NOTICED_TIMEOUT, async || {
        let ready = gateway.admin().get("/readyz").await;
        let core = ready.json()["parts"]["core"] == "ok";
        if ready.status() == 200 && core { Ok(()) } else { Err(format!("{ready:?}: {}", gateway.stderr())) }
    })
    .await;
    created(&gateway.client(key).post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
}

/// Checks that the gateway answers 503, with the reason in its log.
async fn assert_says_that_the_core_is_away(gateway: &Server, key: &str, line: &str) {
    gateway.client(key).get("/v1/pets").await.assert_error(503, "UNAVAILABLE");
    eventually(NOTICED_TIMEOUT, async || {
        let log = gateway.stderr();
        if log.contains(line) { Ok(()) } else { Err(log) }
    })
    .await;
    gateway.admin().get("/readyz").await.assert_status(503);
    gateway.anonymous().get("/v1/pets").await.assert_error(401, "MISSING_API_KEY");
}
