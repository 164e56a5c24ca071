//! Checks of the claims in the README and `docs/`, and of the rules in CONTRIBUTING about the code's text.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "clippy does not know that helpers of tests are tests"
)]

use std::{fs, path::Path};

mod comparison;
mod crates;
mod descriptor;
mod limits;
mod performance;
mod platforms;
mod references;
mod sessions;
mod settings;
mod source;
mod tables;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the paths of the files under a folder of the repository, without what npm installs.
fn paths(folder: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_name() == "node_modules" {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            paths.extend(self::paths(&path));
        } else {
            paths.push(path);
        }
    }
    paths
}

/// Returns the files under a folder of the repository, with their text. Files that are not UTF-8, such as
/// pictures, are left out.
fn files(folder: &str) -> Vec<(String, String)> {
    let text = |path: String| fs::read_to_string(Path::new(ROOT).join(&path)).ok().map(|text| (path, text));
    paths(folder).into_iter().filter_map(text).collect()
}

/// Folders with pages for people.
const FOLDERS_OF_PAGES: [&str; 5] = ["deploy", "docs", "migrations", "petstore/tests", "testing"];

/// Returns every page for people: in the root and below some folders.
fn pages() -> Vec<(String, String)> {
    let in_root =
        fs::read_dir(ROOT).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let in_root = in_root.filter(|name| is_page(name)).map(|name| (name.clone(), read(&name)));
    let in_folders = FOLDERS_OF_PAGES.into_iter().flat_map(files);
    let pages: Vec<_> = in_root.chain(in_folders).filter(|(path, _)| is_page(path)).collect();
    assert!(pages.len() > 10, "only {} pages were found", pages.len());
    pages
}

fn is_page(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}
