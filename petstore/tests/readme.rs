//! What the README and `docs/` claim, held against the code.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy does not know that helpers of tests are tests"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use petstore_proto::v1::ErrorReason;
use petstore_testkit::{
    free_port,
    servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer},
};

mod descriptor;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The cells of the rows of every table under a heading, without the table's head.
fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    let section = document.split_once(heading).unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// The sessions that the tests of this file execute, each on the page that has its marker.
const EXECUTED_HERE: [&str; 5] = ["curl", "operator", "operator-elsewhere", "bulk", "production"];

/// The sessions that `scripts/test --full` executes, because they need tools of their own.
const EXECUTED_BY_SCRIPTS: [&str; 4] = ["grpc", "certificates", "core", "gateway"];

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
fn every_line_of_the_first_session_does_what_the_page_says() {
    execute("curl");
}

#[test]
fn every_line_of_the_operators_session_does_what_the_page_says() {
    execute("operator");
}

#[test]
fn every_line_of_the_session_from_another_machine_does_what_the_page_says() {
    execute("operator-elsewhere");
}

#[test]
fn every_line_of_the_bulk_session_does_what_the_page_says() {
    execute("bulk");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_the_production_session_leads_from_empty_servers_to_a_served_request() {
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

const SETTINGS: &str = "docs/settings.md";

/// With `UPDATE_PAGES=1` in its environment this test writes the table instead of judging it.
#[test]
fn the_settings_table_is_the_one_that_the_flags_make() {
    let page = read(SETTINGS);
    let (before, rest) = page.split_once("<!-- settings:begin -->\n").unwrap();
    let (table, after) = rest.split_once("<!-- settings:end -->").unwrap();
    let current = petstore::settings_table();
    if std::env::var_os("UPDATE_PAGES").is_some() {
        let updated = format!("{before}<!-- settings:begin -->\n{current}<!-- settings:end -->{after}");
        fs::write(Path::new(ROOT).join(SETTINGS), updated).unwrap();
        return;
    }
    assert!(
        table == current,
        "the table in {SETTINGS} is not the current one; UPDATE_PAGES=1 writes it:\n{current}"
    );
}

/// What no operation of REST answers with, and the status that the gRPC code stands for.
const GRPC_ONLY: [(&str, &str); 2] = [("ORDER_NOT_FOUND", "404"), ("INVALID_ORDER_TRANSITION", "400")];

/// Every code, with its status. The OpenAPI document has those of REST from [`ErrorReason`].
fn codes() -> BTreeMap<String, String> {
    fn collect(value: &serde_json::Value, codes: &mut BTreeMap<String, String>) {
        if let Some(examples) = value.get("examples").filter(|_| value.get("schema").is_some()) {
            for (code, example) in examples.as_object().unwrap() {
                if let Some(status) = example["value"].get("status").filter(|status| status.is_u64()) {
                    codes.insert(code.clone(), status.to_string());
                }
            }
        }
        let children: Vec<_> = match value {
            serde_json::Value::Object(members) => members.values().collect(),
            serde_json::Value::Array(items) => items.iter().collect(),
            _ => Vec::new(),
        };
        for child in children {
            collect(child, codes);
        }
    }
    let mut codes = GRPC_ONLY.map(|(code, status)| (code.to_owned(), status.to_owned())).into();
    collect(&petstore_gateway::openapi(), &mut codes);
    codes
}

#[test]
fn the_error_guide_lists_every_code_with_its_status() {
    let listed = rows(&read("docs/errors.md"), "# Error codes")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone()))
        .collect::<BTreeMap<_, _>>();
    assert_eq!(listed, codes());
    let reasons = (1..1_000).filter_map(|number| ErrorReason::try_from(number).ok()).count();
    assert_eq!(listed.len(), reasons);
}

#[test]
fn the_error_guide_has_a_section_for_every_code_under_its_status() {
    let guide = read("docs/errors.md");
    let sections = guide
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|heading| heading.split_once(" – ").unwrap_or((heading, "")))
        .map(|(code, status)| (code.to_owned(), status.to_owned()))
        .collect::<BTreeMap<_, _>>();
    assert_eq!(sections, codes());
}

#[test]
fn the_contract_lists_every_error_code_with_both_statuses() {
    let rows = rows(&read("docs/contract.md"), "8.6 The codes");
    let listed = |column: usize| {
        let cell = |row: &Vec<String>| {
            row[column].split_once(' ').map_or(row[column].clone(), |(first, _)| first.into())
        };
        rows.iter().map(|row| (row[0].trim_matches('`').to_owned(), cell(row))).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(listed(1), codes());
    assert_eq!(listed(2), grpc_codes());
}

/// The numbers in `docs/contract.md, 4.1 and 5`, which stand in doc comments, also over the end of a line.
fn cited_sections(code: &str) -> impl Iterator<Item = &str> {
    code.split("docs/contract.md, ").skip(1).flat_map(|cited| {
        let end = cited.find(|c: char| !(c.is_ascii_digit() || " .and".contains(c))).unwrap_or(cited.len());
        cited[..end].split(" and ").map(|number| number.trim_matches([' ', '.']))
    })
}

#[test]
fn the_code_cites_sections_of_the_contract_that_exist() {
    let contract = read("docs/contract.md");
    let sections: BTreeSet<_> = contract
        .lines()
        .map(|line| line.trim_start_matches('#').trim_start())
        .filter_map(|line| line.split(' ').next())
        .map(|number| number.trim_end_matches('.'))
        .filter(|number| number.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    let mut cited = 0;
    for folder in ["core-service/src", "rest-gateway/src", "petstore/src"] {
        for (path, code) in files(folder) {
            for section in cited_sections(&code) {
                assert!(
                    sections.contains(section),
                    "{path} cites {section:?} of the contract, which is not there"
                );
                cited += 1;
            }
        }
    }
    assert!(cited > 25, "only {cited} citations were found");
}

/// Every code with the gRPC code that its comment in the contract of gRPC names, or a dash.
fn grpc_codes() -> BTreeMap<String, String> {
    let proto = read("proto/petstore/v1/error_reason.proto");
    let mut comment = String::new();
    let mut codes = BTreeMap::new();
    for line in proto.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("//") {
            comment += text;
        } else if let Some(value) = line.strip_prefix("ERROR_REASON_") {
            let code = comment.rsplit_once("gRPC ").map_or("–", |(_, code)| code.trim_end_matches('.'));
            codes.insert(value.split(' ').next().unwrap().to_owned(), code.to_owned());
        }
        if !line.starts_with("//") {
            comment.clear();
        }
    }
    codes.remove("UNSPECIFIED");
    codes
}

#[test]
fn the_readmes_routes_are_the_documented_ones() {
    let listed = rows(&read("README.md"), "## Routes")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), row[1].split('`').nth(1).unwrap().to_owned()))
        .collect::<BTreeSet<_>>();
    let document = petstore_gateway::openapi();
    let mut documented = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let route = format!("{} /v1{path}", method.to_uppercase());
            documented.insert((route, operation["operationId"].as_str().unwrap().to_owned()));
        }
    }
    assert_eq!(listed, documented);
}

/// The paths of the files under a folder of the repository.
fn paths(folder: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            paths.extend(self::paths(&path));
        } else {
            paths.push(path);
        }
    }
    paths
}

/// The files under a folder of the repository, with their text. Pictures are left out.
fn files(folder: &str) -> Vec<(String, String)> {
    let is_picture = |path: &String| Path::new(path).extension().is_some_and(|extension| extension == "png");
    paths(folder)
        .into_iter()
        .filter(|path| !is_picture(path))
        .map(|path| {
            let text = read(&path);
            (path, text)
        })
        .collect()
}

#[test]
fn the_deployment_and_the_operators_guide_name_settings_that_exist() {
    let table = petstore::settings_table();
    let settings = table.split('`').collect::<BTreeSet<_>>();
    let known_flags = petstore::flags();
    let mut named = 0;
    for (path, text) in
        files("deploy").into_iter().chain([("docs/operations.md".to_owned(), read("docs/operations.md"))])
    {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let variables = words.filter(|word| word.starts_with("PETSTORE_") && *word != "PETSTORE_");
        let flags = text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("--"));
        for setting in variables.chain(flags.filter_map(|code| code.split([' ', '=']).next())) {
            let is_known = settings.contains(setting) || known_flags.contains(setting);
            assert!(is_known, "{path} names {setting}, which is no setting");
            named += 1;
        }
    }
    assert!(named > 30, "only {named} settings were found");
}

/// The folders with code.
const CODE: [&str; 7] =
    ["core-service", "crates", "migrations", "petstore", "proto", "rest-gateway", "testing"];

/// What a page names in code type that looks like a path: a file by the end of its path, or a folder.
fn named_paths(page: &str) -> Vec<String> {
    const EXTENSIONS: [&str; 4] = ["lua", "md", "proto", "rs"];
    let is_file = |word: &str| {
        Path::new(word)
            .extension()
            .is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known))
    };
    let is_in_the_repository =
        |word: &str| word.split_once('/').is_some_and(|(root, _)| Path::new(ROOT).join(root).is_dir());
    let words = page.split('`').skip(1).step_by(2);
    words
        .filter(|word| !word.contains(|c: char| c.is_whitespace() || "…*:{".contains(c)))
        .filter(|word| is_file(word) || is_in_the_repository(word))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_architecture_and_the_recipes_name_files_that_exist() {
    let known: Vec<_> = CODE.into_iter().flat_map(paths).collect();
    for page in ["docs/architecture.md", "CONTRIBUTING.md"] {
        let named = named_paths(&read(page));
        assert!(named.len() > 15, "only {} paths were found in {page}", named.len());
        for path in named {
            let end = format!("/{path}");
            let exists =
                Path::new(ROOT).join(&path).exists() || known.iter().any(|known| known.ends_with(&end));
            assert!(exists, "{page} names {path}, which is not there");
        }
    }
}

#[test]
fn the_main_line_of_a_get_names_files_and_functions_that_exist() {
    let page = read("docs/architecture.md");
    let section = page.split_once("## The main line of a GET by id").unwrap().1;
    let steps = section.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let mut found = 0;
    for step in steps {
        let [_, path, _, function, ..] = step.split('`').collect::<Vec<_>>()[..] else {
            panic!("no file and function in: {step}")
        };
        let code = read(path);
        let is_there = ["(", "<"].iter().any(|next| code.contains(&format!("fn {function}{next}")));
        assert!(is_there, "{path} has no function {function}");
        found += 1;
    }
    assert!(found >= 7, "only {found} steps were found");
}

/// Every page for people: in the root, in `deploy` and below `docs`.
fn pages() -> Vec<(String, String)> {
    let in_root =
        fs::read_dir(ROOT).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let in_root = in_root.filter(|name| is_page(name)).map(|name| (name.clone(), read(&name)));
    let pages: Vec<_> =
        in_root.chain(files("deploy")).chain(files("docs")).filter(|(path, _)| is_page(path)).collect();
    assert!(pages.len() > 10, "only {} pages were found", pages.len());
    pages
}

fn is_page(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// The anchors of a page, as GitHub makes them of its headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut in_code = false;
    let headings = page.lines().filter(|line| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    });
    headings
        .map(|heading| {
            let text = heading.trim_start_matches('#').trim().to_lowercase();
            text.chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
        .collect()
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    for (document, text) in pages() {
        let path = Path::new(ROOT).join(&document);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(file.exists(), "{document} links to {target}, which is not there");
            if !anchor.is_empty() {
                let found = anchors(&fs::read_to_string(file).unwrap()).contains(anchor);
                assert!(found, "{document} links to {target}, a heading that is not there");
            }
        }
    }
}

/// A call of a gRPC method as a page shows it.
#[derive(Debug, PartialEq, Eq)]
struct Call {
    method: String,
    data: Option<serde_json::Value>,
}

/// The calls that a page makes with a program: its commands, and in them the last argument and that of `-d`.
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
