//! References of pages and code: links, files, functions, and sections of the contract.

use std::{collections::BTreeSet, fs, path::Path};

use crate::{ROOT, files, pages, paths, read, source::CRATES};

#[test]
fn every_relative_link_names_an_existing_file_and_heading() {
    for (document, text) in pages() {
        let path = Path::new(ROOT).join(&document);
        let after = |mark, end| text.split(mark).skip(1).filter_map(move |rest| rest.split(end).next());
        let targets = after("](", ')').chain(after(" src=\"", '"')).chain(after(" srcset=\"", '"'));
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
const CODE: [&str; 8] =
    ["admin", "core-service", "crates", "migrations", "petstore", "proto", "rest-gateway", "testing"];

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
    for page in ["docs/architecture.md", "docs/recipes.md", "CONTRIBUTING.md"] {
        let named = named_paths(&read(page));
        assert!(named.len() > 10, "only {} paths were found in {page}", named.len());
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

/// Returns the numbers in `docs/contract.md, 4.1 and 5`, up to the end of the line.
fn cited_sections(code: &str) -> impl Iterator<Item = &str> {
    code.split("docs/contract.md, ").skip(1).flat_map(|cited| {
        let end = cited.find(|c: char| !(c.is_ascii_digit() || " .and".contains(c))).unwrap_or(cited.len());
        cited[..end].split(" and ").map(|number| number.trim_matches([' ', '.']))
    })
}

/// Returns the numbers of the contract's clauses: `7`, `7.3`, and `7.3.6` for an item of its list.
fn clauses() -> BTreeSet<String> {
    let (mut section, mut clauses) = (String::new(), BTreeSet::new());
    for line in read("docs/contract.md").lines() {
        let is_heading = line.starts_with('#');
        let number = line.trim_start_matches(['#', ' ']).split(' ').next().unwrap_or_default();
        let number = number.trim_end_matches('.');
        if number.is_empty() || number.contains(|c: char| !(c.is_ascii_digit() || c == '.')) {
            continue;
        }
        if is_heading {
            number.clone_into(&mut section);
        }
        let is_item = !is_heading && !number.contains('.');
        clauses.insert(if is_item { format!("{section}.{number}") } else { number.to_owned() });
    }
    clauses
}

#[test]
fn the_code_cites_sections_of_the_contract_that_exist() {
    let (clauses, mut cited) = (clauses(), 0);
    for folder in CRATES {
        for (path, code) in files(&format!("{folder}/src")) {
            for section in cited_sections(&code) {
                let exists = clauses.contains(section);
                assert!(exists, "{path} cites {section:?} of the contract, which is not there");
                cited += 1;
            }
        }
    }
    assert!(cited > 25, "only {cited} citations were found");
}

/// Returns the name of every test, as `cargo test` writes it.
fn tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    let units = CRATES.map(|folder| format!("{folder}/src"));
    for folder in units.into_iter().chain(["petstore/tests/it".to_owned()]) {
        for (path, code) in files(&folder) {
            let modules = path[folder.len() + 1..].trim_end_matches(".rs").split('/');
            let mut modules: Vec<_> = modules.filter(|part| !["lib", "main", "mod"].contains(part)).collect();
            let (code, inline) = code.split_once("\nmod tests {").unwrap_or((&code, ""));
            for code in [code, inline] {
                for after in ["#[test]", "#[tokio::test"].iter().flat_map(|mark| code.split(mark).skip(1)) {
                    let name = after.split("fn ").nth(1).and_then(|rest| rest.split('(').next());
                    tests.insert(modules.iter().copied().chain(name).collect::<Vec<_>>().join("::"));
                }
                modules.push("tests");
            }
        }
    }
    tests
}

/// Returns the tests that a text names, in code type.
fn named_tests(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|word| word.contains("::")).collect()
}

#[test]
fn pages_name_tests_that_exist() {
    let tests = tests();
    for page in ["petstore/tests/threats.md", "petstore/tests/faults.md"] {
        let text = read(page);
        let named = named_tests(&text);
        assert!(named.len() > 25, "only {} tests are named in {page}", named.len());
        for name in named {
            assert!(tests.contains(name), "{page} names {name}, which is no test");
        }
    }
}

#[test]
fn every_injected_fault_has_a_test_and_a_clause_of_the_contract() {
    let (clauses, mut faults) = (clauses(), 0);
    let page = read("petstore/tests/faults.md");
    let (tests_of_faults, _) = page.split_once("## Long runs").expect("a section about long runs");
    for row in tests_of_faults.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [fault, _, _, promise, _, tests] = cells[..] else { panic!("not six cells: {row}") };
        if promise.is_empty() {
            continue; // it names the rows below
        }
        assert!(!named_tests(tests).is_empty(), "{fault}: no test is named");
        let cited = promise.rsplit_once('(').and_then(|(_, cited)| cited.strip_suffix(')'));
        for clause in cited.into_iter().flat_map(|cited| cited.split(", ")) {
            assert!(clauses.contains(clause), "{fault}: the contract has no clause {clause}");
            faults += 1;
        }
    }
    assert!(faults > 40, "only {faults} clauses were cited");
}

#[test]
fn files_of_deployments_name_the_image_of_this_release() {
    let mut tags = 0;
    for (path, text) in ["deploy", "testing/deploy"].into_iter().flat_map(files) {
        for mark in ["petstore:", "newTag: "] {
            for (_, tag) in text.match_indices(mark).map(|(at, mark)| text.split_at(at + mark.len())) {
                if tag.starts_with(|first: char| first.is_ascii_digit()) {
                    let tag: String =
                        tag.chars().take_while(|&it| it == '.' || it.is_alphanumeric()).collect();
                    assert_eq!(tag, env!("CARGO_PKG_VERSION"), "{path}");
                    tags += 1;
                }
            }
        }
    }
    assert!(tags >= 5, "only {tags} tags were found");
}
