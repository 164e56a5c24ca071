//! Secrets only occur in the request that carries them, and in the file in which an operator keeps them.

use std::{fmt::Write as _, fs, path::Path};

use petstore_testkit::{
    Client, Exit, Server, TraceReceiver,
    grpc::{self, pb::ListPetsRequest},
    raw,
    servers::{PostgresOptions, PostgresServer},
};
use serde_json::json;

use crate::{FIRST_KEY, PORTS, first_client, key_of_new_account, only_key_id, petstore};

/// Key that does not exist: its checksum is wrong.
const GUESS: &str = "pet_live_canarycanarycanarycanarycanary000000";

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const REDIS_PASSWORD: &str = "canaryQ7w8e9Rt5Zu6Iop3As";
const POSTGRES_PASSWORD: &str = "canaryY5x4C3v2B1n0M9l8K7j6";
const SERVICE_TOKEN: &str = "canaryH6g5F4d3S2a1P0o9I8u7Z6t5R4e3W2q1";

/// Files that may hold a secret.
const SECRET_FILES: [&str; 3] = [FIRST_KEY, "redis-url", "service-token"];

#[tokio::test]
async fn no_secret_is_written_anywhere_by_the_whole_service() {
    let installation = petstore();
    installation.write_secret("redis-url", &format!("redis://:{REDIS_PASSWORD}@127.0.0.1:1/0\n"));
    let receiver = TraceReceiver::start().await;
    let traced = ["--otlp-endpoint", receiver.url(), "--trace-ratio", "1"];
    let flags = ["--log-level", "trace", "--log-format", "json", "--redis-url-file", "redis-url"];
    let server = installation.start(&[["serve"].as_slice(), &PORTS, &flags, &traced].concat()).await;
    let client = first_client(&installation, &server);
    let mut sweep = Sweep::new(&[client.key(), GUESS, REDIS_PASSWORD]);
    sweep.session(&server, &client).await;
    sweep.observe(&server).await;

    let id = only_key_id(&installation, "first").await;
    for args in [
        &["key", "list", "--account", "first"][..],
        &["account", "list"],
        &["migrate", "status"],
        &["key", "revoke", &id],
        &["key", "revoke", client.key()], // mistaken for the identifier
        &["serve", "--database-url", &format!("postgres://petstore:{REDIS_PASSWORD}@127.0.0.1:1/petstore")],
    ] {
        sweep.exit(args, &installation.run(args).await);
    }
    sweep.exit(&["serve"], &server.terminate().await);
    sweep.spans(&receiver);
    sweep.files(installation.folder());
    sweep.assert_clean();
}

#[tokio::test]
async fn no_secret_is_written_anywhere_by_core_and_gateway_apart() {
    let options = PostgresOptions { password: Some(POSTGRES_PASSWORD), ..PostgresOptions::default() };
    let mut postgres = PostgresServer::start(options).await;
    let database = postgres.database().await;
    let installation = petstore()
        .with_variable("PETSTORE_DATABASE_URL", &database.url())
        // The port is closed: the message of a failed login is searched, too.
        .with_variable("PETSTORE_REPLICA_URL", &database.url_at("127.0.0.1:1".parse().unwrap()));
    installation.write_secret("service-token", SERVICE_TOKEN);
    let receiver = TraceReceiver::start().await;
    let common = [
        ["--admin-addr", "127.0.0.1:0", "--log-level", "trace", "--service-token-file", "service-token"]
            .as_slice(),
        &["--otlp-endpoint", receiver.url(), "--trace-ratio", "1"],
    ]
    .concat();
    let core = installation.start(&[&["core", "--grpc-addr", "127.0.0.1:0"], &common[..]].concat()).await;
    let key = key_of_new_account(&installation).await;
    let url = format!("http://{}", core.address("gRPC"));
    let gateway = installation
        .start(&[&["gateway", "--core-url", &url, "--http-addr", "127.0.0.1:0"], &common[..]].concat())
        .await;
    let client = gateway.client(&key);
    let mut sweep = Sweep::new(&[&key, GUESS, POSTGRES_PASSWORD, SERVICE_TOKEN]);
    sweep.session(&gateway, &client).await;

    postgres.stop_immediate().await;
    sweep.said.push(("an answer".to_owned(), format!("{:?}", client.get("/v1/pets").await)));
    let mut anonymous = grpc::pet_store(core.address("gRPC")).await;
    for token in [None, Some(SERVICE_TOKEN)] {
        let mut named = tonic::Request::new(ListPetsRequest { page_size: -1, ..Default::default() });
        named.metadata_mut().insert("x-request-id", format!("k.{key}").parse().unwrap());
        if let Some(token) = token {
            named.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        sweep.said.push(("an answer".to_owned(), format!("{:?}", anonymous.list_pets(named).await)));
    }
    for args in [&["migrate", "status"][..], &["serve"]] {
        sweep.exit(args, &installation.run(args).await);
    }
    sweep.observe(&gateway).await;
    sweep.observe(&core).await;
    sweep.exit(&["gateway"], &gateway.terminate().await);
    sweep.exit(&["core"], &core.terminate().await);
    sweep.spans(&receiver);
    sweep.files(installation.folder());
    sweep.assert_clean();
}

/// Tests files that belong to another user, which only root can create. Without root the test does nothing.
#[tokio::test]
async fn a_secret_file_of_another_user_is_refused() {
    let nobody = 65_534;
    if std::os::unix::fs::chown(petstore().folder(), Some(nobody), None).is_err() {
        return;
    }
    for (file, content, flags, code) in [
        ("url", "sqlite://data/petstore.db", &["account", "list", "--database-url-file", "url"][..], 2),
        ("url", "sqlite://data/petstore.db", &["serve", "--database-url-file", "url"], 2),
        ("url", "redis://127.0.0.1:1", &["serve", "--redis-url-file", "url"], 2),
        ("token", SERVICE_TOKEN, &["core", "--service-token-file", "token"], 2),
        ("token", SERVICE_TOKEN, &["gateway", "--service-token-file", "token"], 2),
    ] {
        let installation = petstore();
        installation.write_secret(file, content);
        std::os::unix::fs::chown(installation.folder().join(file), Some(nobody), None).unwrap();
        let exit = installation.run(flags).await;
        assert_eq!(exit.code, Some(code), "{flags:?}: {exit:?}");
        assert!(
            exit.stderr.contains("belongs to user 65534") && exit.stderr.contains(file),
            "{flags:?}: {exit:?}"
        );
        assert!(!exit.stderr.contains(content.trim()), "{flags:?}: {exit:?}");
    }
}

#[test]
#[should_panic(expected = "secret 0 is in serve: stderr, as anaryQ7w8e9R")]
fn the_sweep_finds_a_part_of_a_secret() {
    let mut sweep = Sweep::new(&[REDIS_PASSWORD]);
    let log = format!("{}{}", ".".repeat(20_000), &REDIS_PASSWORD[1..13]);
    sweep.said.push(("serve: stderr".to_owned(), log));
    sweep.assert_clean();
}

/// All output of the service, and the texts that must not be in it.
struct Sweep {
    /// Texts that reveal a secret, with the secret's name.
    traces: Vec<(String, String)>,
    /// Source and text of each output.
    said: Vec<(String, String)>,
}

impl Sweep {
    fn new(secrets: &[&str]) -> Self {
        let traces = secrets.iter().enumerate().flat_map(|(number, secret)| {
            let random = secret.strip_prefix("pet_live_").unwrap_or(secret);
            let name = format!("secret {number}");
            encodings(random).into_iter().map(move |trace| (name.clone(), trace))
        });
        Self { traces: traces.collect(), said: Vec::new() }
    }

    /// Sends valid and invalid requests of a client, and keeps the answers.
    async fn session(&mut self, server: &Server, client: &Client) {
        let (key, anonymous) = (client.key(), server.anonymous());
        let encoded = key.replace('_', "%5f");
        let (body, pet) = (json!({"name": 7, "key": key}), json!({"name": "Rex", "categoryId": 1}));
        let lists_key = format!("{key}:");
        let mut answers = vec![
            client.post("/v1/pets", &pet).await,
            client.post("/v1/pets", &body).await,
            client.post_text("/v1/pets", &format!("{{\"name\": {key}}}")).await,
            client.get("/v1/pets/404").await,
            client.send("BREW", "/v1/pets", &[], "").await,
            client.send("PUT", &format!("/v1/{key}"), &[("content-type", key)], key.to_owned()).await,
            anonymous.with_key(GUESS).get("/v1/pets").await,
            anonymous.with_header("x-api-key", key).get("/v1/pets").await,
            anonymous.with_header("cookie", &lists_key).get("/v1/pets").await,
            client.with_header("x-request-id", key).get("/v1/pets/405").await,
            client.with_header("x-request-id", &format!("k.{key}")).get("/v1/pets/406").await,
            client.with_header("x-request-id", &format!("{key}-2")).post("/v1/pets", &body).await,
            client.with_header("x-request-id", &format!("a_{}", &key[..44])).get("/v1/pets/407").await,
            client.with_header("user-agent", key).with_header("referer", key).get("/v1/pets/408").await,
            client.with_header("x-forwarded-for", key).get("/v1/pets/409").await,
            client
                .with_header("traceparent", TRACEPARENT)
                .with_header("tracestate", key)
                .get("/v1/pets")
                .await,
            client.with_header("traceparent", &format!("00-{key}-01")).get("/v1/pets").await,
            client.with_header("baggage", &format!("key={key}")).get("/v1/pets").await,
            anonymous.with_header("authorization", &format!("Basic {key}")).get("/v1/pets").await,
            client.with_header("authorization", &format!("Bearer {key}")).get("/v1/pets").await,
            anonymous.get(&format!("/docs/{key}")).await,
            server.admin().send(key, "/admin/v1/accounts", &[], "").await,
            server.admin().send(key, "/console", &[], "").await,
            anonymous.get("/docs").await,
            anonymous.get("/openapi.json").await,
        ];
        for path in
            ["/v1/pets?api_key=", "/v1/pets?limit=", "/v1/pets?status=", "/v1/pets?cursor=", "/v1/pets/"]
        {
            for key in [key, &encoded] {
                answers.push(client.get(&format!("{path}{key}")).await);
                answers.push(anonymous.get(&format!("{path}{key}")).await);
            }
        }
        answers.extend(client.sends(60, "/v1/pets").await);
        assert!(answers.iter().any(|answer| answer.status() == 429), "the session ends over the limit");
        self.said.extend(answers.iter().map(|answer| ("an answer".to_owned(), format!("{answer:?}"))));

        let malformed = format!("GET /v1/pets HTTP/1.1\r\nHost: h\r\nAuthorization : Bearer {key}\r\n\r\n");
        let refused = raw::exchange(server.address("REST"), malformed.as_bytes()).await;
        self.said.push(("an answer".to_owned(), String::from_utf8_lossy(&refused).into_owned()));
    }

    /// Collects the output for operators.
    async fn observe(&mut self, server: &Server) {
        for path in ["/metrics", "/readyz", "/log-level"] {
            self.said.push((path.to_owned(), format!("{:?}", server.admin().get(path).await)));
        }
        let argv = fs::read(format!("/proc/{}/cmdline", server.pid())).unwrap();
        self.said.push(("argv".to_owned(), String::from_utf8_lossy(&argv).into_owned()));
    }

    /// Collects the spans of a receiver of traces.
    fn spans(&mut self, receiver: &TraceReceiver) {
        let spans = receiver.spans();
        assert!(spans.len() > 100, "the session was traced: {} spans", spans.len());
        self.said.extend(spans.iter().map(|span| ("a span".to_owned(), format!("{span:?}"))));
    }

    fn exit(&mut self, command: &[&str], exit: &Exit) {
        let command = command[..command.len().min(2)].join(" ");
        self.said.push((format!("{command}: stdout"), exit.stdout.clone()));
        self.said.push((format!("{command}: stderr"), exit.stderr.clone()));
    }

    /// Collects every file of the installation except those that may hold a secret.
    fn files(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                self.files(&path);
            } else if !SECRET_FILES.iter().any(|secret| path.ends_with(secret)) {
                let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                self.said.push((path.display().to_string(), content));
            }
        }
    }

    fn assert_clean(&self) {
        let log = self.said.iter().filter(|(place, _)| place.ends_with("stderr"));
        let logged: usize = log.map(|(_, text)| text.len()).sum();
        assert!(logged > 10_000, "the log is what is searched, and it has only {logged} bytes");
        for (place, text) in &self.said {
            for (name, trace) in &self.traces {
                assert!(!text.contains(trace), "{name} is in {place}, as {trace}:\n{text}");
            }
        }
    }
}

/// Returns every twelve characters of the secret, as they are and in hexadecimal.
fn encodings(secret: &str) -> Vec<String> {
    let parts: Vec<_> = (0..=secret.len() - 12).map(|at| &secret[at..at + 12]).collect();
    let hex = |part: &&str| {
        part.bytes().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        })
    };
    parts.iter().map(|part| (*part).to_owned()).chain(parts.iter().map(hex)).collect()
}
