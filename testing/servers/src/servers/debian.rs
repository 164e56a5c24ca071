//! Location of PostgreSQL in Debian's package, and the account that it runs as.

use std::path::PathBuf;

use rustix::process::getuid;

pub(super) const HINT: &str = "install the Debian package postgresql-15 (scripts/install-test-servers does)";

/// Returns the folder of the newest installed version's programs.
pub(super) fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions
        .filter(|version| version.path().join("bin/postgres").exists())
        .max_by_key(|version| version.file_name().to_string_lossy().parse::<u32>().ok());
    newest
        .unwrap_or_else(|| panic!("there is no /usr/lib/postgresql/*/bin/postgres; {HINT}"))
        .path()
        .join("bin")
}

/// Returns the user and group `postgres`, if this process is root.
pub(super) fn role_account() -> Option<(u32, u32)> {
    if !getuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("the list of users");
    let fields = users.lines().find_map(|line| line.strip_prefix("postgres:"));
    let fields = fields.unwrap_or_else(|| panic!("there is no user postgres to run as; {HINT}"));
    let mut ids = fields.split(':').skip(1).map(|id| id.parse().expect("a number"));
    Some((ids.next()?, ids.next()?))
}
