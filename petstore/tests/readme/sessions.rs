//! Sessions of the pages: every line is executed, and the calls of gRPC exist.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Output, Stdio},
};

use petstore_testkit::{
    free_port,
    servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer},
};

use crate::{ROOT, descriptor, pages, read};

/// Sessions that the tests of this file execute, each on the page that has its marker.
const EXECUTED_HERE: [&str; 8] =
    ["curl", "api", "operate", "operator", "operator-elsewhere", "bulk", "backup", "production"];

/// Sessions that `scripts/test --full` executes, because they need other tools.
const EXECUTED_BY_SCRIPTS: [&str; 6] = ["grpc", "certificates", "core", "gateway", "image", "compose"];

/// Executes a session of a page.
fn execute(session: &str) {
    succeed(&mut session_command(session));
}

fn session_command(session: &str) -> Command {
    let mut command = Command::new(Path::new(ROOT).join("scripts/readme-session"));
    command.args([session, env!("CARGO_BIN_EXE_petstore")]);
    command
}

fn succeed(command: &mut Command) {
    assert_succeeded(&command.output().unwrap());
}

fn assert_succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_first_session_works_as_its_page_says() {
    execute("curl");
}

#[test]
fn the_session_of_the_guide_for_clients_works_as_its_page_says() {
    execute("api");
}

#[test]
fn the_service_prints_at_its_first_start_what_the_readme_shows() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_petstore"));
    for port in ["HTTP", "GRPC", "ADMIN"] {
        command.env(format!("PETSTORE_{port}_ADDR"), "127.0.0.1:0");
    }
    let command = command.current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut service = command.spawn().unwrap();
    let mut lines = BufReader::new(service.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut printed = Vec::new();
    while !printed.last().is_some_and(|line: &String| line.starts_with("Its operator")) {
        printed.push(lines.next().expect("a line about the first operator"));
    }
    service.kill().unwrap();
    service.wait().unwrap();
    let mut printed = printed.join("\n");
    for (label, port) in [("REST   http://", "8080"), ("gRPC   ", "50051"), ("admin  http://", "9090")] {
        let (_, address) = printed.split_once(label).unwrap();
        let address = address.split(['/', '\n']).next().unwrap().to_owned();
        printed = printed.replace(&address, &format!("127.0.0.1:{port}"));
    }
    let readme = read("README.md");
    let (_, shown) = readme.split_once("<!-- startup -->\n```\n").unwrap();
    assert_eq!(printed, shown.split_once("\n```").unwrap().0);
}

/// Returns the programs of a page that are parts of a file, with its path.
fn quoted_programs(page: &str) -> Vec<(String, String)> {
    let quoted = page.split("<!-- from: ").skip(1);
    quoted
        .map(|rest| {
            let (path, rest) = rest.split_once(" -->\n```").unwrap();
            let (_, rest) = rest.split_once('\n').unwrap();
            (path.to_owned(), rest.split_once("\n```").unwrap().0.to_owned())
        })
        .collect()
}

/// `testing/sdk/run` executes these files.
#[test]
fn programs_of_the_guide_for_clients_are_those_of_the_tested_sessions() {
    let guide = read("docs/api.md");
    let sessions: Vec<_> = guide.split("](../").skip(1).filter_map(|rest| rest.split_once(')')).collect();
    let sessions: Vec<_> =
        sessions.iter().map(|(path, _)| *path).filter(|path| path.starts_with("testing/sdk/")).collect();
    assert_eq!(sessions.len(), 5);
    for session in sessions {
        assert!(read(session).to_lowercase().contains("x-next-cursor"), "{session} follows no pages");
    }
    let quoted = quoted_programs(&guide);
    assert_eq!(quoted.len(), 1);
    for (path, program) in quoted {
        let lines = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        assert!(lines(&read(&path)).contains(&lines(&program)), "{path} has no such lines:\n{program}");
    }
}

#[test]
fn the_operating_session_works_as_the_readme_says() {
    execute("operate");
}

#[test]
fn the_operators_session_works_as_its_page_says() {
    execute("operator");
}

#[test]
fn the_remote_session_works_as_its_page_says() {
    execute("operator-elsewhere");
}

#[test]
fn the_bulk_session_works_as_its_page_says() {
    execute("bulk");
}

#[test]
fn the_backup_session_works_as_its_page_says() {
    execute("backup");
}

/// On an overloaded machine Redis may miss its 50 ms. Then gateways count by themselves for a moment, as they
/// should, and `petstore check` notices. So a broken clause is looked at a second time.
#[tokio::test(flavor = "multi_thread")]
async fn the_production_session_works_as_its_page_says() {
    let first = production_session().await;
    if String::from_utf8_lossy(&first.stderr).contains("broken clauses") {
        assert_succeeded(&production_session().await);
    } else {
        assert_succeeded(&first);
    }
}

/// Executes the session with new servers.
async fn production_session() -> Output {
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let redis = RedisServer::start(RedisOptions::default()).await;
    let mut command = session_command("production");
    let of_servers = [(5432, postgres.address().port()), (6379, redis.address().port())];
    let of_processes = [8080, 8081, 50051, 50052, 9090, 9091, 9092, 9093].map(|port| (port, free_port()));
    command.args(of_servers.iter().chain(&of_processes).map(|(port, real)| format!("{port}={real}")));
    command.envs([("PGHOST", "127.0.0.1"), ("PGUSER", "postgres")]);
    command.env("PGPORT", postgres.address().port().to_string());
    command.output().unwrap()
}

#[test]
fn every_session_of_a_page_is_executed() {
    let marker = |line: &str| line.strip_prefix("<!-- session: ")?.strip_suffix(" -->").map(str::to_owned);
    let sessions: BTreeSet<_> =
        pages().iter().flat_map(|(_, text)| text.lines().filter_map(marker).collect::<Vec<_>>()).collect();
    let executed = EXECUTED_HERE.into_iter().chain(EXECUTED_BY_SCRIPTS).map(str::to_owned).collect();
    assert_eq!(sessions, executed);
}

/// Call of a gRPC method as a page shows it.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    method: String,
    data: Option<serde_json::Value>,
}

/// Returns the calls that a page makes with a program: its commands, and in them the last argument and that
/// of `-d`.
fn calls(page: &str, program: &str) -> Vec<Call> {
    let page = read(page).replace("\\\n", " ");
    let commands = page.lines().filter(|line| line.starts_with(program));
    commands
        .map(|command| {
            let data = command.split_once("-d '").map(|(_, rest)| rest.split_once('\'').unwrap().0);
            let method = command.split_whitespace().last().unwrap();
            Call {
                method: method.trim_start_matches("http://127.0.0.1:50051/").to_owned(),
                data: data.map(|data| serde_json::from_str(data).unwrap()),
            }
        })
        .collect()
}

#[test]
fn the_grpcurl_lines_make_the_calls_that_the_buf_lines_make() {
    let (buf, grpcurl) = (calls("docs/api.md", "buf curl"), calls("docs/api.md", "grpcurl"));
    assert_eq!(buf.len(), 3);
    assert_eq!(grpcurl[0], Call { method: "list".to_owned(), data: None });
    assert_eq!(buf[1..], grpcurl[1..]);
}

#[test]
fn the_grpcurl_lines_name_methods_and_fields_that_exist() {
    for call in &calls("docs/api.md", "grpcurl")[1..] {
        descriptor::assert_request(&call.method, call.data.as_ref().unwrap());
    }
}
