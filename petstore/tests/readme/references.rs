//! References of pages and code: links, files, functions, and sections of the contract.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{ROOT, files, pages, paths, read};

#[test]
fn every_relative_link_names_an_existing_file_and_heading() {
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

/// Returns the anchors of a page, as GitHub makes them of its headings.
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

/// Folders with code.
const CODE: [&str; 7] =
    ["core-service", "crates", "migrations", "petstore", "proto", "rest-gateway", "testing"];

/// Returns the paths in code type on a page: a file by the end of its path, or a folder.
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

/// Returns the numbers in `docs/contract.md, 4.1 and 5`, which stand in doc comments, also over the end of a
/// line.
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

#[test]
fn the_security_page_names_tests_that_exist() {
    let tests: BTreeSet<_> = files("petstore/tests/it")
        .into_iter()
        .flat_map(|(path, code)| {
            let module =
                path.trim_start_matches("petstore/tests/it/").trim_end_matches(".rs").replace('/', "::");
            let names = code.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
            names.map(|name| format!("{module}::{name}")).collect::<Vec<_>>()
        })
        .collect();
    let page = read("docs/security.md");
    let named: Vec<_> = page.split('`').skip(1).step_by(2).filter(|word| word.contains("::")).collect();
    assert!(named.len() > 25, "only {} tests are named", named.len());
    for name in named {
        assert!(tests.contains(name), "docs/security.md names {name}, which is no test");
    }
}
