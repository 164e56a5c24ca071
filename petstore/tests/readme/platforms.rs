//! The program compiles on macOS too: what only Linux has stands under a `cfg`. There is no compiler for
//! macOS here, so the code is searched for the names of such items.

use crate::{files, source::CRATES};

const LINUX: &str = "#[cfg(target_os = \"linux\")]";

/// Items that the standard library, redis, rustix, socket2 and tokio have on Linux alone: those that were
/// used here, and those that would be useful. A new one is added when it is found.
const NAMES: [&str; 19] = [
    "os::linux::",
    "DumpableBehavior",
    "PROC_SUPER_MAGIC",
    "SockFilter",
    "SocketAddrExt",
    "accept4",
    "attach_filter(",
    "eventfd",
    "fallocate(",
    "fdatasync",
    "from_abstract_name",
    "memfd_create",
    "pidfd_",
    "prlimit",
    "set_dumpable_behavior",
    "set_quickack",
    "set_tcp_user_timeout",
    "set_user_timeout",
    "syncfs",
];

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

#[test]
fn what_only_linux_has_stands_under_its_cfg() {
    let (mut wrong, mut guarded) = (Vec::new(), 0);
    for folder in CRATES.into_iter().filter(|folder| !folder.starts_with("testing/")) {
        for (path, code) in
            files(&format!("{folder}/src")).into_iter().filter(|(path, _)| !path.contains("test"))
        {
            let plain = for_every_system(&code);
            for name in NAMES {
                guarded += usize::from(code.contains(name) && !plain.contains(name));
                wrong.extend(plain.contains(name).then(|| format!("{path}: {name}")));
            }
        }
    }
    assert!(wrong.is_empty(), "only Linux has these: put them under {LINUX}: {wrong:#?}");
    assert!(guarded > 3, "only {guarded} were found");
}
