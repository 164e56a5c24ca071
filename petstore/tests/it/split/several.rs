//! Several cores: their shares of the calls, each at its own address or all behind one, and a core that
//! refuses the gateway.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::Command,
    time::Duration,
};

use petstore_testkit::{
    Authority, Balancer, Installation, Server, eventually, free_port,
    servers::{HaproxyServer, PostgresServer},
};
use tokio::time::sleep;

use super::{Clients, part_is, readiness};
use crate::{calls_answered, is_long, key_without_limits, metric, petstore};

/// Time within which a core must have its share. On an idle machine it takes a few seconds.
const SHARE_TIMEOUT: Duration = Duration::from_secs(30);

/// Answers after which the shares are compared.
const ENOUGH: u64 = 100;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn each_url_is_a_core_with_its_share_also_when_it_is_added_replaced_or_lost() {
    let cores = Cores::new().await;
    let ports = [free_port(), free_port()];
    let urls = ports.map(|port| format!("http://127.0.0.1:{port}")).join(",");
    let first = cores.start(ports[0], &[]).await;
    let key = key_without_limits(&cores.installation).await;
    let gateway = cores.start_gateway(&urls, &[]).await;
    let clients = Clients::start(&gateway, &key);
    clients.answered(20).await;

    let added = cores.start(ports[1], &[]).await;
    assert_shared(&[&first, &added]).await;
    assert_eq!(first.terminate().await.code, Some(0));
    let replaced = cores.start(ports[0], &[]).await;
    assert_shared(&[&replaced, &added]).await;
    added.crash().await;
    clients.answered(100).await;
    clients.assert_all_served().await;
}

#[tokio::test]
async fn cores_behind_one_address_have_their_shares_also_when_one_is_added_or_replaced() {
    let cores = Cores::new().await;
    let (balancer, age) = (Balancer::start().await, ["--grpc-connection-age", "500ms"]);
    let first = cores.start(0, &age).await;
    let key = key_without_limits(&cores.installation).await;
    balancer.lead_to([&first], "gRPC").await;
    let gateway = cores.start_gateway(&format!("http://{}", balancer.address()), &[]).await;
    let clients = Clients::start(&gateway, &key);
    clients.answered(20).await;

    let added = cores.start(0, &age).await;
    balancer.lead_to([&first, &added], "gRPC").await;
    assert_shared(&[&first, &added]).await;
    assert_eq!(first.terminate().await.code, Some(0));
    let replaced = cores.start(0, &age).await;
    balancer.lead_to([&replaced, &added], "gRPC").await;
    assert_shared(&[&replaced, &added]).await;
    clients.assert_all_served().await;
}

#[tokio::test]
async fn a_core_with_another_token_gets_no_calls_and_both_sides_say_so() {
    let (cores, authority) = (Cores::new().await, Authority::new());
    let [token, other] =
        [TOKEN, "another-token-that-is-as-long-as-needed"].map(|it| authority.keep_token(it));
    let ports = [free_port(), free_port()];
    let trusting = cores.start(ports[0], &["--service-token-file", &token]).await;
    let refusing = cores.start(ports[1], &["--service-token-file", &other]).await;
    let key = key_without_limits(&cores.installation).await;
    let urls = ports.map(|port| format!("http://127.0.0.1:{port}")).join(",");
    let gateway = cores.start_gateway(&urls, &["--service-token-file", &token]).await;
    let clients = Clients::start(&gateway, &key);
    clients.answered(100).await;
    let refused = r#"petstore_grpc_refused_callers_total{reason="wrong_token"}"#;
    eventually(SHARE_TIMEOUT, async || {
        let log = gateway.stderr();
        let line =
            log.lines().find(|line| line.contains("the core refuses this process")).unwrap_or_default();
        let is_named = line.contains(&refusing.address("gRPC").to_string());
        if is_named && line.contains("the service token is not this core's") { Ok(()) } else { Err(log) }
    })
    .await;
    assert!(metric(&refusing, refused).await >= 1);
    assert_eq!(lists(&refusing).await, 0);
    for (server, line) in [(&gateway, "the core refuses this process"), (&refusing, "refused a caller")] {
        logs_once(server, line).await;
    }

    fs::write(&other, TOKEN).unwrap();
    refusing.signal("HUP").await;
    assert_shared(&[&trusting, &refusing]).await;
    clients.assert_all_served().await;
}

/// The three ways to name several cores.
#[derive(Clone, Copy, Debug)]
enum Naming {
    Urls,
    OneName,
    Balancer,
}

#[tokio::test]
async fn a_refused_token_is_told_however_the_cores_are_named_and_if_one_refuses_or_all() {
    let urls = refusals_are_told(Naming::Urls);
    let balancer = refusals_are_told(Naming::Balancer);
    let has_namespaces = Command::new("unshare").args(["--map-root-user", "--mount", "true"]).status();
    let name = async {
        if has_namespaces.is_ok_and(|status| status.success()) {
            refusals_are_told(Naming::OneName).await;
        } else {
            assert!(!is_long(), "no name can have addresses: `unshare --map-root-user --mount` is refused");
        }
    };
    tokio::join!(urls, balancer, name);
}

async fn refusals_are_told(naming: Naming) {
    let (cores, authority, port) = (Cores::new().await, Authority::new(), free_port());
    let files = [TOKEN; 2].map(|token| authority.keep_token(token));
    let hosts = ["127.0.0.2", "127.0.0.3"];
    let addresses = hosts.map(|host| format!("{host}:{port}"));
    let start = async |number: usize| {
        let admin = format!("{}:0", hosts[number]);
        let ports = ["core", "--grpc-addr", &addresses[number], "--admin-addr", &admin];
        let flags = ["--service-token-file", &files[number]];
        cores.installation.start(&[ports.as_slice(), &flags].concat()).await
    };
    let servers = [start(0).await, start(1).await];
    let key = key_without_limits(&cores.installation).await;
    let proxy = HaproxyServer::start_before_cores(
        &servers.each_ref().map(|core| (core.address("gRPC"), core.address("admin"))),
    )
    .await;
    let (url, gateways) = match naming {
        Naming::Urls => (addresses.each_ref().map(|it| format!("http://{it}")).join(","), cores.installation),
        Naming::Balancer => (format!("http://{}", proxy.address()), cores.installation),
        Naming::OneName => (format!("http://cores.example:{port}"), with_one_name(&cores.installation)),
    };
    let token = authority.keep_token(TOKEN);
    let start_gateway = async || {
        let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
        let flags = ["gateway", "--core-url", &url, "--service-token-file", &token];
        gateways.start(&[flags.as_slice(), &ports].concat()).await
    };
    let gateway = start_gateway().await;
    part_is(&gateway, "core", "ok", "").await;
    let refuse = async |number: usize| {
        fs::write(&files[number], "another-token-that-is-as-long-as-needed").unwrap();
        servers[number].signal("HUP").await;
    };

    println!("{naming:?}: one of two refuses");
    let clients = Clients::start(&gateway, &key);
    clients.answered(20).await;
    refuse(1).await;
    part_is(&gateway, "core", "degraded", "token_refused").await;
    if !matches!(naming, Naming::Balancer) {
        clients.answered(30).await;
        clients.assert_all_served().await;
    }
    let started = start_gateway().await;
    part_is(&started, "core", "degraded", "token_refused").await;

    println!("{naming:?}: all refuse");
    refuse(0).await;
    eventually(SHARE_TIMEOUT, async || match gateway.client(&key).get("/v1/pets").await {
        answer if answer.status() == 503 => Ok(()),
        answer => Err(format!("{answer:?}")),
    })
    .await;
    let never_ready = start_gateway().await;
    for (gateway, state) in [(&never_ready, "down"), (&gateway, "degraded"), (&started, "degraded")] {
        for _ in 0..10 {
            part_is(gateway, "core", state, "token_refused").await;
            sleep(Duration::from_millis(200)).await;
        }
    }

    println!("{naming:?}: all are gone");
    drop(servers);
    part_is(&gateway, "core", "degraded", "unreachable").await;
    part_is(&never_ready, "core", "down", "not_reached").await;
}

/// Returns the installation of gateways for which one name has the addresses of both cores.
fn with_one_name(cores: &Installation) -> Installation {
    let folder = cores.folder().display();
    let hosts = "127.0.0.1 localhost\n127.0.0.2 cores.example\n127.0.0.3 cores.example\n";
    fs::write(cores.folder().join("hosts"), hosts).unwrap();
    let script = format!(
        "#!/bin/sh\nexec unshare --map-root-user --mount sh -ec \
         'mount --bind {folder}/hosts /etc/hosts; exec \"$@\"' sh {} \"$@\"\n",
        env!("CARGO_BIN_EXE_petstore")
    );
    let program = cores.folder().join("with-one-name");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
    Installation::of(program.to_str().unwrap())
}

#[tokio::test]
async fn a_gateway_whose_only_core_refuses_it_logs_one_line_for_all_requests() {
    let (cores, authority) = (Cores::new().await, Authority::new());
    let [token, other] =
        [TOKEN, "another-token-that-is-as-long-as-needed"].map(|it| authority.keep_token(it));
    let core = cores.start(0, &["--service-token-file", &token]).await;
    let key = key_without_limits(&cores.installation).await;
    let url = format!("http://{}", core.address("gRPC"));
    let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    let flags = ["gateway", "--core-url", &url, "--service-token-file", &other];
    let gateway = cores.installation.start(&[flags.as_slice(), &ports].concat()).await;
    let client = gateway.client(&key);
    for _ in 0..20 {
        client.get("/v1/pets").await.assert_error(503, "UNAVAILABLE");
    }
    readiness(&gateway).await.assert_status(503);
    let log = logs_once(&gateway, "the core refuses this process").await;
    assert!(log.contains(&core.address("gRPC").to_string()), "{log}");
}

/// Returns the log once the line is in it, which must be there no more than once.
async fn logs_once(server: &Server, line: &str) -> String {
    eventually(SHARE_TIMEOUT, async || {
        let log = server.stderr();
        if log.matches(line).count() == 1 { Ok(log) } else { Err(log) }
    })
    .await
}

/// Cores with one database.
struct Cores {
    installation: Installation,
}

impl Cores {
    async fn new() -> Self {
        let database = PostgresServer::shared().await.database().await;
        let installation = petstore()
            .with_variable("PETSTORE_DATABASE_URL", &database.url())
            .with_variable("PETSTORE_DRAIN_DELAY", "300ms"); // several checks of a balancer
        Self { installation }
    }

    async fn start(&self, port: u16, flags: &[&str]) -> Server {
        let address = format!("127.0.0.1:{port}");
        let ports = ["core", "--grpc-addr", &address, "--admin-addr", "127.0.0.1:0"];
        self.installation.start(&[ports.as_slice(), flags].concat()).await
    }

    /// Starts a gateway, and waits until it is ready.
    async fn start_gateway(&self, urls: &str, flags: &[&str]) -> Server {
        let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
        let flags = [["gateway", "--core-url", urls].as_slice(), &ports, flags].concat();
        let gateway = self.installation.start(&flags).await;
        eventually(SHARE_TIMEOUT, async || match readiness(&gateway).await {
            ready if ready.status() == 200 => Ok(()),
            unready => Err(format!("{unready:?}: {}", gateway.stderr())),
        })
        .await;
        gateway
    }
}

/// Waits until each core answers at least three tenths of the calls.
async fn assert_shared(cores: &[&Server]) {
    let begin = std::time::Instant::now();
    let mut before = Vec::new();
    for core in cores {
        before.push(lists(core).await);
    }
    eventually(SHARE_TIMEOUT, async || {
        let mut calls = Vec::new();
        for (core, before) in cores.iter().zip(&before) {
            calls.push(lists(core).await - before);
        }
        let all: u64 = calls.iter().sum();
        let is_shared = all >= ENOUGH && calls.iter().all(|calls| calls * 10 >= all * 3);
        if is_shared { Ok(()) } else { Err(format!("{calls:?}")) }
    })
    .await;
    println!("shared after {:?}", begin.elapsed());
}

/// Returns the number of lists that the core has answered.
async fn lists(core: &Server) -> u64 {
    calls_answered(&core.admin(), "ListPets").await
}
