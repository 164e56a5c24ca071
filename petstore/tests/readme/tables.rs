//! Tables of the pages: settings, routes, error codes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use petstore_proto::v1::ErrorReason;

use crate::{ROOT, files, read};

const SETTINGS: &str = "docs/settings.md";

/// Checks the table. With `UPDATE_PAGES=1` in its environment this test writes it instead.
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

#[test]
fn the_deployment_and_the_operators_guide_name_settings_that_exist() {
    let table = petstore::settings_table();
    let settings = table.split('`').collect::<BTreeSet<_>>();
    let known_flags = petstore::flags();
    let mut named = 0;
    for (path, text) in files("deploy")
        .into_iter()
        .chain(["docs/operations.md", "docs/running.md"].map(|page| (page.to_owned(), read(page))))
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

/// Codes that no operation of REST answers with, and the status that the gRPC code stands for.
const GRPC_ONLY: [(&str, &str); 2] = [("ORDER_NOT_FOUND", "404"), ("INVALID_ORDER_TRANSITION", "400")];

/// Returns every code, with its status. The OpenAPI document has those of REST from [`ErrorReason`].
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

/// Returns every code with the gRPC code that its comment in the contract of gRPC names, or a dash.
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
