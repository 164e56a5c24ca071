//! Tables of the pages: settings, states of parts, routes, error codes.

use std::{collections::BTreeSet, fs, path::Path};

use petstore_proto::v1::ErrorReason;
use petstore_telemetry::parts::FaultCause;

use crate::{
    ROOT, files, read,
    settings::{setting_names, settings_tables},
};

/// Checks a table between two comments of a page. With `UPDATE_PAGES=1` in the environment this writes it
/// instead.
pub(crate) fn assert_table(path: &str, name: &str, current: &str) {
    let page = read(path);
    let [begin, end] = ["begin", "end"].map(|edge| format!("<!-- {name}:{edge} -->"));
    let (before, rest) = page.split_once(&format!("{begin}\n")).unwrap();
    let (table, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("UPDATE_PAGES").is_some() {
        let updated = format!("{before}{begin}\n{current}{end}{after}");
        fs::write(Path::new(ROOT).join(path), updated).unwrap();
        return;
    }
    assert!(
        table == current,
        "the table in {path} is not the current one; UPDATE_PAGES=1 writes it:\n{current}"
    );
}

#[test]
fn the_settings_tables_are_those_that_the_flags_make() {
    assert_table("docs/settings.md", "settings", &settings_tables());
}

/// Returns the section of the troubleshooting page that explains a cause: that of the alert it raises.
const fn section(cause: FaultCause) -> &'static str {
    match cause {
        FaultCause::CoreNotReached | FaultCause::CoreUnreachable | FaultCause::CoreFails => {
            "PetstoreCoreAway"
        }
        FaultCause::CoreTokenRefused | FaultCause::CoreCertificateRequired => "PetstoreCoreRefuses",
        FaultCause::CoreLacksMethods => "PetstoreNotReady",
        FaultCause::CoreDatabaseUnreachable
        | FaultCause::DatabaseUnreachable
        | FaultCause::DatabaseFileReplaced => "PetstoreDatabaseAway",
        FaultCause::DatabaseDamaged => "PetstoreDatabaseDamaged",
        FaultCause::CoreDatabaseNotWritable
        | FaultCause::DatabaseReadOnly
        | FaultCause::DatabaseDiskFull
        | FaultCause::DatabaseWritesFail => "PetstoreWritesFail",
        FaultCause::LimiterLocal
        | FaultCause::LimiterOpen
        | FaultCause::LimiterClosed
        | FaultCause::LimiterRefused => "PetstoreLimitsNotShared",
        FaultCause::GrpcFull => "PetstoreGrpcPortFull",
    }
}

#[test]
fn the_operators_guide_has_every_cause_of_a_part_that_is_not_ok() {
    let mut table = "| Part | Cause | State | Remedy |\n|---|---|---|---|\n".to_owned();
    for cause in FaultCause::ALL {
        let states: Vec<_> = cause.states().iter().map(|state| format!("`{}`", state.name())).collect();
        let (part, name, states, section) =
            (cause.part(), cause.name(), states.join(" or "), section(*cause));
        let link = format!("[{section}](troubleshooting.md#{})", section.to_lowercase());
        let row = format!("| `{part}` | `{name}` | {states} | {link} |\n");
        // Redis has one cause, with a message for each policy.
        if !table.contains(&row) {
            table += &row;
        }
    }
    assert_table("docs/operations.md", "causes", &table);
}

/// Returns a section of a page, from its heading to the next one of the same level.
fn section_of(page: &str, heading: &str) -> String {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n## ").next().unwrap().to_owned()
}

#[test]
fn every_cause_is_explained_in_the_section_that_its_remedy_links_to() {
    let page = read("docs/troubleshooting.md");
    for cause in FaultCause::ALL {
        let (name, section) = (cause.name(), section(*cause));
        let is_explained = section_of(&page, section).contains(&format!("`{name}`"));
        assert!(is_explained, "{section} does not explain `{name}`");
    }
}

/// Pages whose words in capitals with underscores are error codes.
const PAGES_WITH_CODES: [&str; 5] =
    ["README.md", "docs/api.md", "docs/limits.md", "docs/reliability.md", "docs/troubleshooting.md"];

#[test]
fn every_error_code_on_the_pages_of_clients_and_operators_exists() {
    let is_code = |word: &&str| {
        let is_upper = word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        is_upper && word.trim_matches('_').contains('_') && !word.starts_with("PETSTORE_")
    };
    let mut named = 0;
    for page in PAGES_WITH_CODES {
        for code in read(page).split('`').skip(1).step_by(2).filter(is_code) {
            assert!(ErrorReason::named(code).is_some(), "{page} names {code}, which is no error code");
            named += 1;
        }
    }
    assert!(named > 12, "only {named} codes were found");
}

/// Pages that name settings.
const OPERATORS_PAGES: [&str; 5] = [
    "docs/limits.md",
    "docs/operations.md",
    "docs/reliability.md",
    "docs/running.md",
    "docs/troubleshooting.md",
];

#[test]
fn the_deployment_and_the_operators_guide_name_settings_that_exist() {
    let settings = setting_names();
    let known_flags: BTreeSet<_> =
        petstore::args().iter().filter_map(|(_, arg)| Some(format!("--{}", arg.get_long()?))).collect();
    let mut named = 0;
    for (path, text) in
        files("deploy").into_iter().chain(OPERATORS_PAGES.map(|page| (page.to_owned(), read(page))))
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

/// Returns the cells of the rows of every table under a heading, without the table's head.
fn rows(document: &str, heading: &str) -> Vec<Vec<String>> {
    let section = document.split_once(heading).unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

#[test]
fn the_guide_and_the_compose_file_give_the_service_the_same_rights() {
    let statements = |page: &str| {
        let one_line = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let begun = one_line.split("ALTER DEFAULT PRIVILEGES ").skip(1);
        begun.map(|rest| rest.split([';', '"']).next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let of_the_guide = statements(&read("docs/running.md"));
    assert_eq!(of_the_guide, statements(&read("deploy/compose/roles.sh")));
    assert_eq!(of_the_guide.len(), 1);
}

/// Returns every operation of the OpenAPI document: method and path, and name.
fn operations() -> BTreeSet<(String, String)> {
    let document = petstore_gateway::openapi::document();
    let mut operations = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let route = format!("{} /v1{path}", method.to_uppercase());
            operations.insert((route, operation["operationId"].as_str().unwrap().to_owned()));
        }
    }
    operations
}

#[test]
fn the_readmes_routes_are_the_documented_ones() {
    for (page, heading) in [("README.md", "## Operations"), ("docs/api.md", "## First call")] {
        let listed = rows(&read(page), heading)
            .into_iter()
            .map(|row| (row[0].trim_matches('`').to_owned(), row[1].split('`').nth(1).unwrap().to_owned()))
            .collect::<BTreeSet<_>>();
        assert_eq!(listed, operations(), "{page}");
    }
}

#[test]
fn the_contract_names_every_operation_and_every_method() {
    let contract = read("docs/contract.md");
    let clause = |number: &str| {
        let (_, begun) = contract.split_once(&format!("\n{number} ")).unwrap();
        begun.split("\n\n").next().unwrap().replace('(', " ")
    };
    let names =
        |clause: &str, name: &str| clause.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
    for (_, name) in operations() {
        assert!(names(&clause("9.4"), &name), "9.4 does not name {name}");
    }
    for rpc in petstore_proto::rpc::RPCS.iter().filter(|rpc| rpc.path.starts_with("petstore.v1.")) {
        let method = rpc.path.rsplit('/').next().unwrap();
        assert!(names(&clause("11.1"), method), "11.1 does not name {method}");
    }
}

#[test]
fn every_operation_has_a_file_of_black_box_tests() {
    let tests = files("petstore/tests/it");
    for (route, name) in operations() {
        let path = route.split([' ', '{']).nth(1).unwrap();
        let is_tested = tests.iter().any(|(_, code)| {
            let head = code.lines().next().unwrap();
            head.contains(&format!("`{route}`"))
                && code.contains("::test]")
                && code.contains(&format!("\"{path}"))
        });
        assert!(is_tested, "no file of petstore/tests/it says `{route}` in its first line and calls {name}");
    }
}

/// A resource that is added is no longer among what the pages say is missing.
#[test]
fn no_page_denies_an_operation_that_exists() {
    let document = petstore_gateway::openapi::document();
    let description = document["info"]["description"].as_str().unwrap().to_owned();
    let denies = |page: &str, resource: &str| {
        let words = page.to_lowercase().replace('\n', " ");
        ["no ", "operations on "].iter().any(|denial| words.contains(&format!("{denial}{resource}")))
    };
    for page in [read("docs/contract.md"), read("docs/api.md"), description] {
        assert!(denies(&page, "categories"), "what does not exist is said in other words: {page}");
        for (route, _) in operations() {
            for resource in route.split('/').skip(2).filter(|segment| !segment.contains('{')) {
                assert!(!denies(&page, resource), "it says that there is no {resource}: {page}");
            }
        }
    }
}

#[test]
fn the_grpc_contract_names_both_statuses_of_every_code() {
    let proto = read("proto/petstore/v1/error_reason.proto");
    let mut named = 0;
    let mut comment = String::new();
    for line in proto.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("//") {
            comment += text;
            continue;
        }
        let name = line.strip_prefix("ERROR_REASON_").and_then(|value| value.split(' ').next());
        if let Some(reason) = name.and_then(ErrorReason::named) {
            let status = |interface: &str| comment.rsplit_once(interface)?.1.split([',', '.']).next();
            let (code, grpc) = (reason.code(), status(" gRPC ").map(|name| name.replace('_', "")));
            let expected = code.grpc.map(|code| format!("{code:?}").to_uppercase());
            assert_eq!(grpc, expected, "{}", code.name);
            let http = status(" HTTP ").filter(|status| status.parse::<u16>().is_ok());
            let is_sent_on_grpc_alone = http.is_none() && expected.is_some();
            assert!(is_sent_on_grpc_alone || http == Some(code.http.as_str()), "{}", code.name);
            named += 1;
        }
        comment.clear();
    }
    assert_eq!(named, ErrorReason::all().count());
}
