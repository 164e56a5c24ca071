//! Texts of `petstore --version` besides the version: the commit, if it is known, and the build's profile and
//! target. `BUILD_COMMIT` names the commit if there is no git, as in the container image.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-env-changed=BUILD_COMMIT");
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let profile = variable("PROFILE").unwrap_or_default();
    // A development build is not rebuilt with each commit.
    let commit = variable("BUILD_COMMIT").or_else(|| if profile == "release" { commit() } else { None });
    let version = env!("CARGO_PKG_VERSION");
    let commit = commit.map(|commit| format!("commit {commit}, ")).unwrap_or_default();
    let target = variable("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=BUILD_VERSION={version} ({commit}{profile} build for {target})");
}

/// Returns the commit that is checked out, with `-dirty` if files differ from it.
fn commit() -> Option<String> {
    println!("cargo:rerun-if-changed=../.git/HEAD");
    println!("cargo:rerun-if-changed=../.git/index");
    let git =
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]).output();
    let described = git.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(described.stdout).ok()?.trim().to_owned())
}
