//! The program compiles on macOS too: what only Linux has stands under a `cfg`. There is no compiler for
//! macOS here, so the sources of the packages that wrap the system are read instead.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{ROOT, files, source::CRATES};

/// Packages whose items depend on the operating system.
const PACKAGES: [&str; 5] = ["redis", "rustix", "socket2", "tokio", "tokio-rustls"];
const LINUX: &str = "#[cfg(target_os = \"linux\")]";

/// Returns `true` if the condition of a `cfg` holds on Linux or, with `false`, on macOS. What is not about
/// the operating system holds if it is a feature.
fn holds(condition: &str, on_linux: bool) -> bool {
    let condition = condition.trim();
    let inner = |name: &str| condition.strip_prefix(name)?.trim_end().strip_suffix(')').map(parts);
    if let Some(all) = inner("all(") {
        return all.into_iter().all(|part| holds(part, on_linux));
    }
    if let Some(any) = inner("any(") {
        return any.into_iter().any(|part| holds(part, on_linux));
    }
    if let Some(not) = inner("not(") {
        return !not.into_iter().all(|part| holds(part, on_linux));
    }
    if condition.starts_with("feature") {
        return true;
    }
    match condition.replace(' ', "").as_str() {
        "unix" | "target_family=\"unix\"" | "libc" | "std" | "alloc" => true,
        "linux_kernel" | "linux_like" | "target_os=\"linux\"" | "target_env=\"gnu\"" => on_linux,
        "apple" | "bsd" | "target_os=\"macos\"" | "target_vendor=\"apple\"" => !on_linux,
        _ => false,
    }
}

/// Returns the parts of a list, which commas separate.
fn parts(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let is_comma = |letter: char| {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        letter == ',' && depth == 0
    };
    list.split(is_comma).filter(|part| !part.trim().is_empty()).collect()
}

/// Names of public items of packages.
#[derive(Default)]
struct Items {
    on_linux: BTreeSet<String>,
    on_macos: BTreeSet<String>,
    read: BTreeSet<PathBuf>,
}

impl Items {
    /// Collects the public items of a file, and of the modules in it that are files.
    fn collect(&mut self, file: &Path, exists: [bool; 2]) {
        let Ok(text) = fs::read_to_string(file) else { return };
        if !self.read.insert(file.to_owned()) {
            return;
        }
        let is_root = ["lib.rs", "mod.rs"].iter().any(|name| file.ends_with(name));
        let folder = if is_root { file.with_file_name("") } else { file.with_extension("") };
        let (mut exists_here, mut attribute) = (exists, String::new());
        for line in text.lines().map(str::trim) {
            if attribute.is_empty() && !line.starts_with("#[") {
                if line.is_empty() || line.starts_with("//") {
                    continue;
                }
                let words: Vec<_> = line.split(|letter: char| !is_of_word(letter)).collect();
                let kinds = ["fn", "struct", "enum", "trait", "type", "const"];
                let kind = words.iter().position(|word| kinds.contains(word));
                if let (true, Some(name)) =
                    (line.starts_with("pub "), kind.and_then(|kind| words.get(kind + 1)))
                {
                    self.on_linux.extend(exists_here[0].then(|| (*name).to_owned()));
                    self.on_macos.extend(exists_here[1].then(|| (*name).to_owned()));
                }
                if let Some(module) =
                    words.iter().position(|word| *word == "mod").filter(|_| line.ends_with(';'))
                {
                    let module = folder.join(words[module + 1]);
                    self.collect(&module.with_extension("rs"), exists_here);
                    self.collect(&module.join("mod.rs"), exists_here);
                }
                exists_here = exists;
                continue;
            }
            attribute += line;
            if attribute.matches('[').count() > attribute.matches(']').count() {
                continue; // the attribute has more lines
            }
            let condition = attribute.strip_prefix("#[cfg(").and_then(|rest| rest.split_once(")]"));
            if let Some((condition, _)) = condition {
                exists_here[0] &= holds(condition, true);
                exists_here[1] &= holds(condition, false);
            }
            attribute.clear();
        }
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn paths_below(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { paths_below(&path) } else { vec![path] }).collect()
}

/// Returns the names that a package has on Linux and nowhere on macOS.
fn linux_only(package: &str, metadata: &Value) -> BTreeSet<String> {
    let mut items = Items::default();
    for it in metadata["packages"].as_array().unwrap().iter().filter(|it| it["name"] == package) {
        let sources = PathBuf::from(it["manifest_path"].as_str().unwrap()).with_file_name("src");
        items.collect(&sources.join("lib.rs"), [true, true]);
        // Modules whose file an attribute names.
        for file in paths_below(&sources).iter().filter(|file| !file.to_string_lossy().contains("windows")) {
            items.collect(file, [true, true]);
        }
    }
    // Other names are those of many things.
    let is_named = |name: &String| name.contains('_') || name.starts_with(char::is_uppercase);
    let is_searchable = |name: &String| is_named(name) && !name.starts_with("as_");
    (&items.on_linux - &items.on_macos).into_iter().filter(is_searchable).collect()
}

/// Returns the code without what stands under the `cfg` of Linux, comments and tests.
fn for_every_system(code: &str) -> String {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.fold(String::new(), |code, line| code + line + "\n");
    let mut parts = code.split(LINUX);
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |done, part| {
        let mut depth = 0;
        let end = part.char_indices().find(|(_, letter)| {
            depth += i32::from("([{".contains(*letter)) - i32::from(")]}".contains(*letter));
            depth == 0 && ";,}".contains(*letter)
        });
        done + end.map_or("", |(end, _)| &part[end..])
    })
}

/// Returns the files of the program.
fn production() -> impl Iterator<Item = (String, String)> {
    let folders = CRATES.into_iter().filter(|folder| !folder.starts_with("testing/"));
    folders.flat_map(|folder| files(&format!("{folder}/src"))).filter(|(path, _)| !path.contains("test"))
}

#[test]
fn what_only_linux_has_stands_under_its_cfg() {
    let mut cargo = Command::new(env!("CARGO"));
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH); // the others' packages are absent
    cargo.args(["metadata", "--offline", "--locked", "--format-version=1", "--filter-platform", &platform]);
    cargo.current_dir(ROOT);
    let metadata: Value = serde_json::from_slice(&cargo.output().unwrap().stdout).unwrap();
    let mut wrong = Vec::new();
    for package in PACKAGES {
        let names = linux_only(package, &metadata);
        for (known, of) in
            [("set_dumpable_behavior", "rustix"), ("SockFilter", "socket2"), ("set_user_timeout", "redis")]
        {
            assert_eq!(names.contains(known), of == package, "{package}: {known}");
        }
        for (path, code) in production() {
            let code = for_every_system(&code);
            if !code.contains(&format!("{}::", package.replace('-', "_"))) {
                continue;
            }
            let words: BTreeSet<_> = code.split(|letter| !is_of_word(letter)).map(str::to_owned).collect();
            wrong.extend(words.intersection(&names).map(|name| format!("{path}: {package}'s {name}")));
        }
    }
    for (path, code) in production() {
        wrong.extend(for_every_system(&code).contains("linux::").then_some(path));
    }
    assert!(wrong.is_empty(), "only Linux has these: put them under {LINUX}: {wrong:#?}");
}
