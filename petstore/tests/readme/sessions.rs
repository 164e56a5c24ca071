//! Sessions of the pages: every line is executed, and the calls of gRPC exist.

use std::{collections::BTreeSet, path::Path, process::Command};

use petstore_testkit::{
    free_port,
    servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer},
};

use crate::{ROOT, descriptor, pages, read};

/// Sessions that the tests of this file execute, each on the page that has its marker.
const EXECUTED_HERE: [&str; 7] =
    ["curl", "operate", "operator", "operator-elsewhere", "bulk", "backup", "production"];

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
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_first_session_works_as_its_page_says() {
    execute("curl");
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

#[tokio::test(flavor = "multi_thread")]
async fn the_production_session_works_as_its_page_says() {
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let redis = RedisServer::start(RedisOptions::default()).await;
    let mut command = session_command("production");
    let of_servers = [(5432, postgres.address().port()), (6379, redis.address().port())];
    let of_processes = [8080, 50051, 9090, 9091].map(|port| (port, free_port()));
    command.args(of_servers.iter().chain(&of_processes).map(|(port, real)| format!("{port}={real}")));
    command.envs([("PGHOST", "127.0.0.1"), ("PGUSER", "postgres")]);
    command.env("PGPORT", postgres.address().port().to_string());
    succeed(&mut command);
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
    let (buf, grpcurl) = (calls("README.md", "buf curl"), calls("docs/clients.md", "grpcurl"));
    assert_eq!(buf.len(), 4);
    assert_eq!(grpcurl[0], Call { method: "list".to_owned(), data: None });
    assert_eq!(buf[1..], grpcurl[1..]);
}

#[test]
fn the_grpcurl_lines_name_methods_and_fields_that_exist() {
    for call in &calls("docs/clients.md", "grpcurl")[1..] {
        descriptor::assert_request(&call.method, call.data.as_ref().unwrap());
    }
}
