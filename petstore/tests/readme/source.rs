//! Checks of the rules in CONTRIBUTING about the text of the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::files;

/// Crates, whose code is in `src` below.
pub(crate) const CRATES: [&str; 23] = [
    "admin/check",
    "admin/commands",
    "admin/service",
    "admin/web",
    "core-service",
    "crates/caller",
    "crates/clock",
    "crates/command-line",
    "crates/core-client",
    "crates/database",
    "crates/grpc-server",
    "crates/http-server",
    "crates/key-cache",
    "crates/rate-limit",
    "crates/telemetry",
    "migrations",
    "petstore",
    "rest-gateway",
    "settings",
    "testing/fuzz",
    "testing/open-loop",
    "testing/servers",
    "testing/testkit",
];

const MAX_WIDTH: usize = 110;

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

#[test]
fn no_line_of_rust_is_wider_than_the_style_allows() {
    let mut wide = Vec::new();
    for folder in CRATES.into_iter().chain(["proto"]) {
        for (path, text) in files(folder).into_iter().filter(|(path, _)| is_rust(path)) {
            let lines = (1..).zip(text.lines()).filter(|(_, line)| line.chars().count() > MAX_WIDTH);
            wide.extend(lines.map(|(number, _)| format!("{path}:{number}")));
        }
    }
    assert!(wide.is_empty(), "more than {MAX_WIDTH} characters: {wide:#?}");
}

#[test]
fn every_field_of_a_public_request_says_whether_it_is_required() {
    let mut silent = Vec::new();
    for (path, text) in files("proto/petstore/v1") {
        let mut message = "";
        for (number, line) in (1..).zip(text.lines()) {
            message = line.strip_prefix("message ").unwrap_or(message);
            let is_of_request = message.contains("Request {") || message.starts_with("New");
            if is_of_request && line.contains(" = ") && !line.contains("(google.api.field_behavior) = ") {
                silent.push(format!("{path}:{number}"));
            }
        }
    }
    assert!(silent.is_empty(), "without google.api.field_behavior: {silent:#?}");
}

/// Returns `true` if a module with this name has only tests, or helpers of tests.
fn is_of_tests(module: &str) -> bool {
    ["tests", "testing", "test_support"].contains(&module) || module.ends_with("_tests")
}

/// Path of a module in the crate. The crate itself has an empty one.
type Module = Vec<String>;

/// Returns the modules of a crate that have their own files, with their text, without tests.
fn modules(name: &str) -> BTreeMap<Module, String> {
    let src = format!("{name}/src/");
    files(&src[..src.len() - 1])
        .into_iter()
        .filter(|(path, _)| is_rust(path))
        .map(|(path, text)| {
            let path = path.trim_start_matches(&src).trim_end_matches(".rs");
            let parts = path.split('/').filter(|part| !["mod", "lib", "main"].contains(part));
            let code = text.split_once("#[cfg(test)]\nmod tests {").map_or(&*text, |(code, _)| code);
            (parts.map(str::to_owned).collect::<Module>(), code.to_owned())
        })
        .filter(|(module, _)| !module.iter().any(|part| is_of_tests(part)))
        .collect()
}

/// Returns the paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn flatten(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else { return vec![tree.trim().to_owned()] };
    let group = rest.rsplit_once('}').map_or(rest, |(group, _)| group);
    let mut depth = 0;
    let members = group.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    members.flat_map(flatten).map(|path| format!("{}{path}", prefix.trim())).collect()
}

/// Returns the paths in a file that begin with `crate`, `self` or `super`.
fn named_paths(code: &str) -> Vec<String> {
    let lines = code.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    let code = lines.collect::<Vec<_>>().join(" ");
    let mut named = Vec::new();
    for statement in code.split(';') {
        match statement.rsplit_once("use ") {
            Some((_, tree)) => named.extend(flatten(tree)),
            None => named.extend(
                statement.split(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).map(str::to_owned),
            ),
        }
    }
    named.retain(|path| ["crate::", "self::", "super::"].iter().any(|start| path.starts_with(start)));
    named
}

/// Returns the module that a path leads to from another one, as far as modules go.
fn resolve(path: &str, from: &Module, modules: &BTreeMap<Module, String>) -> Module {
    let mut found = from.clone();
    for part in path.split("::") {
        match part {
            "crate" => found.clear(),
            "self" => {}
            "super" => drop(found.pop()),
            name => {
                found.push(name.to_owned());
                if !modules.keys().any(|module| module.starts_with(&found)) {
                    found.pop();
                    return found;
                }
            }
        }
    }
    found
}

/// Returns the modules beside it that each module needs: `a::b` needs `a::c` if anything below the first
/// names anything below the second.
fn needs(modules: &BTreeMap<Module, String>) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut needs = BTreeMap::<_, BTreeSet<_>>::new();
    for (module, code) in modules {
        for path in named_paths(code) {
            let named = resolve(&path, module, modules);
            let common = module.iter().zip(&named).take_while(|(one, other)| one == other).count();
            if common < module.len().min(named.len()) {
                needs.entry(module[..=common].to_vec()).or_default().insert(named[..=common].to_vec());
            }
        }
    }
    needs
}

#[test]
fn no_modules_beside_each_other_import_each_other_in_a_circle() {
    let mut imports = 0;
    for name in CRATES {
        let needs = needs(&modules(name));
        for (start, direct) in &needs {
            imports += direct.len();
            let (mut reached, mut next) = (BTreeSet::new(), Vec::from_iter(direct));
            while let Some(module) = next.pop() {
                if reached.insert(module) {
                    next.extend(needs.get(module).into_iter().flatten());
                }
            }
            assert!(!reached.contains(start), "{name}: {start:?} needs itself, by way of one of {direct:?}");
        }
    }
    assert!(imports > 300, "only {imports} imports were found");
}

#[test]
fn resources_of_the_core_do_not_know_each_other_but_orders_know_pets() {
    let modules = modules("core-service");
    let needs = needs(&modules);
    let resource = |module: &Module| match &module[..] {
        [folder, file] if file == "grpc" => Some(folder.clone()),
        _ => None,
    };
    let resources: Vec<_> = modules.keys().filter_map(resource).collect();
    assert!(resources.len() >= 3, "{resources:?}");
    for resource in &resources {
        let needs = &needs[&vec![resource.clone()]];
        assert!(needs.contains(&vec!["errors".to_owned()]), "{resource}: {needs:?}");
        for other in resources.iter().filter(|other| (&**resource, &***other) != ("orders", "pets")) {
            assert!(!needs.contains(&vec![other.to_owned()]), "{resource} knows {other}");
        }
    }
}

/// Returns the name that begins the text.
fn name(text: &str) -> &str {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// Constant and function have the same types if they belong to another method, so nothing else notices that.
#[test]
fn a_function_names_the_method_of_the_core_that_has_its_name() {
    let mut found = 0;
    for folder in ["core-service/src", "crates/core-client/src", "rest-gateway/src"] {
        for (path, code) in files(folder).into_iter().filter(|(path, _)| is_rust(path)) {
            let mut pairs = Vec::new();
            for function in code.split("async fn ").skip(1) {
                for call in ["self.answer(", "self.batched("] {
                    pairs.extend(function.split(call).nth(1).map(|named| (name(named), name(function))));
                }
                for call in function.split("|core, it| core.").skip(1) {
                    let called = name(call.split_once('.').unwrap().1);
                    let constants = function.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                    let is_constant = |word: &&str| word.contains('_') && **word == word.to_uppercase();
                    let own = constants.filter(is_constant).find(|word| *word == called.to_uppercase());
                    pairs.push((own.unwrap_or("no constant"), called));
                }
            }
            for arm in code.split(" => encoded(self.").collect::<Vec<_>>().windows(2) {
                pairs.push((arm[0].rsplit(' ').next().unwrap(), name(arm[1])));
            }
            for (constant, function) in pairs.into_iter().filter(|(constant, _)| *constant != "rpc") {
                assert_eq!(constant, function.to_uppercase(), "{path}");
                found += 1;
            }
        }
    }
    assert!(found > 25, "only {found} calls were found");
}
