//! Rules about the crates: which may depend on which, and how each is compiled.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::{ROOT, read, source::CRATES};

/// Folders of the mission. The binary is the only one of them that knows the administration.
const MISSION: [&str; 5] = ["core-service", "migrations", "settings", "rest-gateway", "."];

/// Packages that only the crates in these folders may use, beside tests.
const RESTRICTED: &[(&str, &[&str])] = &[
    ("axum", &["admin/web", "crates/http-server", "petstore", "rest-gateway"]),
    ("petstore-admin-commands", &["petstore", "testing/fuzz"]),
    ("petstore-admin-service", &["admin/commands", "petstore", "testing/fuzz", "testing/testkit"]),
    ("petstore-admin-web", &["admin/commands", "petstore", "testing/fuzz"]),
    ("petstore-core", &["admin/commands", "admin/service", "petstore", "testing/fuzz", "testing/testkit"]),
    ("petstore-migrations", &["core-service"]),
    ("petstore-settings", &["admin/commands", "petstore", "testing/testkit"]),
    ("redis", &["crates/rate-limit"]),
    ("sea-orm", &["admin/service", "core-service", "crates/database", "migrations"]),
];

/// Returns the name of a section of a manifest with each of its lines.
fn lines(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut section = "";
    manifest.lines().filter_map(move |line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        }
        (!line.is_empty()).then_some((section, line))
    })
}

/// Returns the packages that the code of a crate uses, without those of its tests and its build script.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = read(&format!("{folder}/Cargo.toml"));
    let names = lines(&manifest).filter(|(section, _)| *section == "dependencies");
    names.filter_map(|(_, line)| Some(line.split_once(['.', ' ', '='])?.0.to_owned())).collect()
}

/// Returns the folder of each crate by the name of its package.
fn folders() -> BTreeMap<String, &'static str> {
    let named = |folder| {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        let mut lines = lines(&manifest).filter(|(section, _)| *section == "package");
        let name = lines.find_map(|(_, line)| line.strip_prefix("name = \"")?.strip_suffix('"')).unwrap();
        (name.to_owned(), folder)
    };
    CRATES.into_iter().chain(["."]).map(named).collect()
}

/// Returns each crate that a crate uses, as a pair of folders.
fn edges() -> Vec<(&'static str, &'static str)> {
    let folders = folders();
    let used = |folder| {
        let used = dependencies(folder).into_iter().filter_map(|name| folders.get(&name).copied());
        used.map(move |used| (folder, used)).collect::<Vec<_>>()
    };
    let edges: Vec<_> = CRATES.into_iter().chain(["."]).flat_map(used).collect();
    assert!(edges.len() > 40, "only {} were found", edges.len());
    edges
}

/// Returns the folders of crates that a member of the workspace stands for, such as `crates/*`.
fn matching(member: &str) -> Vec<String> {
    let Some(folder) = member.strip_suffix("/*") else { return vec![member.to_owned()] };
    let entries = fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
    let crates = entries.map(Result::unwrap).filter(|entry| entry.path().join("Cargo.toml").exists());
    crates.map(|entry| format!("{folder}/{}", entry.file_name().into_string().unwrap())).collect()
}

#[test]
fn every_member_of_the_workspace_is_checked() {
    let manifest = read("Cargo.toml");
    let (_, members) = manifest.split_once("members = [").unwrap();
    let members = members.split(']').next().unwrap().split('"').skip(1).step_by(2);
    let members: BTreeSet<_> = members.flat_map(matching).collect();
    assert_eq!(members, CRATES.into_iter().map(str::to_owned).collect());
}

#[test]
fn engines_use_no_crate_above_them() {
    for (user, used) in edges() {
        // They carry messages of the contract: calls in batches, keys and their changes.
        let carries_messages = ["crates/core-client", "crates/key-cache"].contains(&user) && used == ".";
        let is_above = !used.starts_with("crates/") && !carries_messages;
        assert!(!user.starts_with("crates/") || !is_above, "{user} uses {used}");
    }
}

#[test]
fn the_mission_does_not_know_the_administration() {
    for (user, used) in edges() {
        assert!(!MISSION.contains(&user) || !used.starts_with("admin/"), "{user} uses {used}");
    }
}

#[test]
fn only_the_crates_that_may_use_a_restricted_package_do() {
    for folder in CRATES {
        let used = dependencies(folder);
        for (package, users) in RESTRICTED.iter().filter(|(package, _)| used.contains(*package)) {
            assert!(users.contains(&folder), "{folder} uses {package}");
        }
    }
}

#[test]
fn the_service_checks_for_overflows_in_a_release() {
    let manifest = read("Cargo.toml");
    let checks: Vec<_> = lines(&manifest).filter(|(_, line)| line.starts_with("overflow-checks")).collect();
    let others = ("profile.release.package.\"*\"", "overflow-checks = false");
    assert_eq!(checks, [("profile.release", "overflow-checks = true"), others]);
}

/// Returns the folders of the crates that a row of the table in architecture.md is about. Only the first
/// needs its parent.
fn crates_of_row(folders: &str) -> Vec<&'static str> {
    let named: Vec<_> =
        folders.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/')).collect();
    let parent = named[0].split_once('/').map_or("", |(parent, _)| parent);
    let is_named =
        |folder: &&str| named.iter().any(|name| *folder == *name || **folder == format!("{parent}/{name}"));
    if named == ["proto"] { vec!["."] } else { CRATES.into_iter().filter(is_named).collect() }
}

/// Returns the names of the packages in a list such as "proto (the form of a call), core", or none if it is a
/// sentence.
fn packages_of_row(known: &str) -> Option<BTreeSet<String>> {
    let folders = folders();
    let package = |name: &str| {
        let name = name.split(" (").next()?.trim_start_matches("the ");
        let is_named = |(package, folder): &(&String, &&str)| {
            package.strip_prefix("petstore-") == Some(name) || **folder == name
        };
        folders.iter().find(is_named).map(|(package, _)| package.clone())
    };
    if known == "none" { Some(BTreeSet::new()) } else { known.split(", ").map(package).collect() }
}

#[test]
fn the_table_of_the_architecture_names_the_crates_that_each_crate_uses() {
    let page = read("docs/architecture.md");
    let (_, table) = page.split_once("| Of the crates here it knows |\n").unwrap();
    let packages: BTreeSet<_> = folders().into_keys().collect();
    let is_listed = |package: &String| {
        let is_for_most = ["petstore-clock", "petstore-telemetry"].contains(&&**package);
        packages.contains(package) && !is_for_most
    };
    let mut described = BTreeSet::new();
    for row in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let crates = crates_of_row(cells[1]);
        let used: BTreeSet<_> =
            crates.iter().flat_map(|folder| dependencies(folder)).filter(is_listed).collect();
        match packages_of_row(cells[3]) {
            Some(named) => assert_eq!(used, named.into_iter().filter(is_listed).collect(), "{}", cells[1]),
            // They compose nearly everything else.
            None => assert!(["`petstore/`", "`settings/`"].contains(&cells[1]), "{row}"),
        }
        described.extend(crates);
    }
    let expected: BTreeSet<_> =
        CRATES.into_iter().chain(["."]).filter(|folder| !folder.starts_with("testing/")).collect();
    assert_eq!(described, expected);
}
