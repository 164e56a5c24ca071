//! The command line itself: help, completions, mistyped words, terminals.

use std::process::Stdio;

use petstore_testkit::Installation;
use serde_json::{Value, json};
use tokio::process::Command;

use super::TwoMachines;
use crate::{ACCOUNT, PORTS, key_of_new_account, petstore};

#[tokio::test]
async fn help_and_version_go_to_stdout() {
    let installation = petstore();
    for args in [["--help"].as_slice(), &["--version"], &["serve", "--help"], &["key", "create", "--help"]] {
        let exit = installation.run(args).await;
        assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), ""), "{args:?}: {exit:?}");
        assert!(!exit.stdout.is_empty(), "{args:?}");
    }
}

#[tokio::test]
async fn a_mistyped_variable_gets_a_suggestion() {
    let installation = petstore().with_variable("PETSTORE_HTP_ADDR", "127.0.0.1:1");
    let warning = "PETSTORE_HTP_ADDR is set, but is not a setting: did you mean PETSTORE_HTTP_ADDR?";
    let exit = installation.run(&["migrate", "up"]).await;
    assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), format!("warning: {warning}\n").as_str()));
    let server = installation.start(&PORTS).await;
    assert!(server.terminate().await.stderr.contains(warning));
}

#[tokio::test]
async fn an_empty_filter_is_refused_as_in_the_admin_api() {
    let installation = petstore();
    installation.json(&["migrate", "up"]).await;
    for args in [
        ["account", "list", "--name", ""].as_slice(),
        &["key", "list", "--account", ""],
        &["audit", "--operator", ""],
        &["audit", "--account", ""],
        &["audit", "--key", ""],
        &["usage", "--account", ""],
        &["deprecation", "--account", ""],
        &["brownout", "create", "--account", "", "--for", "1h"],
        &["brownout", "create", "--from", "", "--for", "1h"],
        &["key", "create", "--account", ""],
        &["key", "create", "--account", "shop", "--allowed-addresses", ""],
        &["usage", "--account", "shop", "--by", "minute", "--key", ""],
        &["explain", "--account", ""],
        &["explain", "--key", ""],
        &["explain", ""],
    ] {
        installation.run(args).await.assert_refused(2, &["a value is required"]);
    }
}

#[tokio::test]
async fn a_flag_without_effect_is_refused() {
    let installation = petstore();
    installation.json(&["migrate", "up"]).await;
    installation.json(&["account", "create", "shop", "--plan", "free"]).await;
    installation.write_secret("key", "pet_live_0000000000000000000000000000001PRvVh");
    let (id, url) = ("01890000-0000-7000-8000-000000000001", "http://127.0.0.1:1/v1");
    for args in [
        ["usage", "--near-limit", "--csv"].as_slice(),
        &["usage", "--over-limit", "--csv"],
        &["usage", "--account", "shop", "--csv"],
        &["usage", "--all", "--key", id],
        &["usage", "--near-limit", "--key", id],
        &["usage", "--over-limit", "--key", id],
        &["usage", "--all", "--by-key"],
        &["usage", "--near-limit", "--by-key"],
        &["usage", "--over-limit", "--by-key"],
        &["usage", "--near-limit", "--by", "month"],
        &["usage", "--over-limit", "--last", "1d"],
        &["usage", "--account", "shop", "--key", id],
        &["usage", "--account", "shop", "--by-key"],
        &["usage", "--account", "shop", "--by", "month"],
        &["usage", "--all", "--by", "minute"],
        &["deprecation", "--by", "key"],
        &["deprecation", "--account", "shop", "--by", "key", "--days", "3"],
        &["explain", "request-1", "--key", id],
        &["explain", "--account", "shop", "--key", id],
        &["account", "create", "a", "--plan", "free", "--per-minute", "5", "--per-day", "5"],
        &["account", "set-plan", "shop", "--plan", "pro", "--per-minute", "5", "--per-day", "5"],
        &["account", "list", "--core-ca", "ca.pem"],
        &["account", "list", "--service-token-file", "token"],
        &["key", "list", "--core-cert", "cert.pem", "--core-key", "key.pem", "--core-ca", "ca.pem"],
        &["export", "--core-ca", "ca.pem"],
        &["import", "pets.ndjson", "--service-token-file", "token"],
        &["gateway", "--core-url", "http://127.0.0.1:1", "--core-ca", "key"],
        &["check", url, "--key-file", "key", "--ca", "key"],
        &["serve", "--replica-url", "postgres://reader@two/shop"],
    ] {
        let exit = installation.run(args).await;
        assert_eq!((exit.code, exit.stderr.lines().count()), (Some(2), 1), "{args:?}: {exit:?}");
    }
}

#[tokio::test]
async fn what_does_not_exist_is_exit_code_3_in_every_command() {
    let installation = petstore();
    installation.json(&["migrate", "up"]).await;
    let id = "01890000-0000-7000-8000-000000000001";
    for args in [
        ["account", "show", "nobody"].as_slice(),
        &["account", "rename", "nobody", "somebody"],
        &["account", "set-plan", "nobody", "--plan", "pro"],
        &["account", "suspend", "nobody", "--yes"],
        &["account", "resume", "nobody"],
        &["key", "create", "--account", "nobody"],
        &["key", "list", "--account", "nobody"],
        &["key", "show", id],
        &["key", "revoke", id, "--yes"],
        &["key", "rotate", id],
        &["key", "handover", id],
        &["key", "find"],
        &["ban", "add", id, "--for", "1h"],
        &["ban", "lift", id],
        &["brownout", "create", "--account", "nobody", "--for", "1h"],
        &["brownout", "cancel", "77"],
        &["operator", "rotate", "nobody"],
        &["operator", "revoke", "nobody", "--yes"],
        &["explain", "--account", "nobody"],
        &["explain", "--key", id],
        &["explain", "request-1"],
        &["usage", "--account", "nobody"],
        &["deprecation", "--account", "nobody"],
    ] {
        let exit = installation.run(args).await;
        assert_eq!((exit.code, exit.stderr.lines().count()), (Some(3), 1), "{args:?}: {exit:?}");
    }
}

#[tokio::test]
async fn no_refusal_shows_internals() {
    let installation = petstore();
    installation.json(&["migrate", "up"]).await;
    for (args, right) in [
        (["serve", "--gateways", "0"].as_slice(), "must be a whole number from 1 to 65535"),
        (&["serve", "--gateways", "x"], "must be a whole number from 1 to 65535"),
        (&["serve", "--gateways", ""], "must be a whole number from 1 to 65535"),
        (
            &["account", "create", "a", "--plan", "enterprise", "--per-minute", "x", "--per-day", "1"],
            "must be a whole number",
        ),
        (
            &["account", "create", "a", "--plan", "enterprise", "--per-minute", "0", "--per-day", "1"],
            "must be a whole number",
        ),
        (&["account", "create", "a", "--plan", "enterprise"], "--per-minute <N> --per-day <N>"),
        (&["migrate", "down", "--steps", "0"], "must be a whole number from 1 to"),
        (&["serve", "--service-token-file", "nothing"], "no such file"),
        (&["serve", "--database-url-file", "nothing"], "no such file"),
        (&["import", "nothing.csv"], "o such file"),
        (&["export", "/nowhere/pets.csv"], "o such file"),
        (&["import", "pets.ndjson", "--core-url", "http://127.0.0.1:1"], "cannot reach the core"),
        (&["export", "--core-url", "http://127.0.0.1:1"], "cannot reach the core"),
        (&["migrate", "status", "--database-url", "postgres://127.0.0.1:1/petstore"], "onnection refused"),
        (&["gateway", "--core-url", "http://core:99999"], "--core-url"),
        (&["gateway", "--core-url", "http://user:word@core:1"], "--core-url"),
        (&["gateway", "--core-url", "http://core:1/path"], "--core-url"),
        (&["gateway", "--core-url", "unix://core.sock"], "--core-url"),
    ] {
        std::fs::write(installation.folder().join("pets.ndjson"), "{}\n").unwrap();
        let exit = installation.run(args).await;
        assert!(exit.code.is_some_and(|code| code != 0), "{args:?}: {exit:?}");
        assert!(exit.stderr.contains(right) && exit.stderr.lines().count() == 1, "{args:?}: {exit:?}");
        for inside in [
            "os error",
            "Error(",
            "Error {",
            "tonic::",
            "non-zero type",
            "target type",
            "invalid digit",
            "..=",
            "entity not found",
            "a boolean",
            "Os {",
            "kind:",
            "word@",
        ] {
            assert!(!exit.stderr.contains(inside), "{inside}: {args:?}: {exit:?}");
        }
    }
    let exit = petstore().with_variable("PETSTORE_NO_MIGRATE", "maybe").run(&["serve"]).await;
    exit.assert_refused(2, &[]);
    assert!(exit.stderr.contains("must be true or false"), "{exit:?}");
}

#[tokio::test]
async fn shells_get_completions_and_man_gets_a_page_for_each_command() {
    let installation = petstore();
    for shell in ["bash", "zsh", "fish"] {
        let exit = installation.run(&["completions", shell]).await;
        assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), ""), "{exit:?}");
        for word in ["set-plan", "core-url", "operator"] {
            assert!(exit.stdout.contains(word), "{shell}: {word}");
        }
    }
    let script = installation.run(&["completions", "bash"]).await.stdout;
    let mut bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut bash.stdin.take().unwrap(), script.as_bytes()).await.unwrap();
    assert!(bash.wait().await.unwrap().success(), "bash cannot read the script");

    let exit = installation.run(&["man", "pages/man1"]).await;
    assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), ""), "{exit:?}");
    let page = installation.read("pages/man1/petstore-key-create.1");
    assert!(page.starts_with(".ie") && page.contains("label"), "{page}");
    for part in ["PETSTORE_OUTPUT", "EXIT STATUS", "petstore key create \\-\\-account north"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(installation.read("pages/man1/petstore.1").contains("petstore\\-serve"));
}

#[tokio::test]
async fn the_version_names_the_build() {
    let installation = petstore();
    let short = installation.run(&["-V"]).await;
    assert_eq!(short.stdout, format!("petstore {}\n", env!("CARGO_PKG_VERSION")));
    let long = installation.run(&["--version"]).await;
    assert!(long.stdout.starts_with(short.stdout.trim()), "{long:?}");
    assert!(long.stdout.contains(" build for ") && long.stdout.lines().count() == 1, "{long:?}");
}

/// Runs `petstore` in a terminal, types `typed` there, and returns its exit code and all its output.
async fn in_a_terminal(installation: &Installation, args: &[&str], typed: &str) -> (i32, String) {
    in_a_terminal_with(&[], installation, args, typed).await
}

/// Runs `petstore` in a terminal, with these environment variables (`NAME=value`).
async fn in_a_terminal_with(
    variables: &[&str],
    installation: &Installation,
    args: &[&str],
    typed: &str,
) -> (i32, String) {
    const TERMINAL: &str = "import os, pty, sys
typed = sys.argv[1].encode()
def answer(fd):
    global typed
    seen = os.read(fd, 65536)
    if typed and b'[y/N]' in seen:
        line, _, typed = typed.partition(b'\\n')
        os.write(fd, line + b'\\n')
    return seen
status = pty.spawn(sys.argv[2:], answer, lambda fd: b'')
sys.exit(os.waitstatus_to_exitcode(status))";
    let mut python = Command::new("python3");
    python
        .args(["-c", TERMINAL, typed, "env"])
        .args(variables)
        .arg(env!("CARGO_BIN_EXE_petstore"))
        .args(args);
    let output = python.current_dir(installation.folder()).stdin(Stdio::null()).output().await.unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    (output.status.code().unwrap_or(-1), shown)
}

#[tokio::test]
async fn tables_have_a_bold_head_on_a_terminal_unless_no_color_is_set() {
    let installation = petstore();
    assert_eq!(installation.run(&["migrate", "up"]).await.code, Some(0));
    let (code, shown) = in_a_terminal(&installation, &["account", "list"], "").await;
    assert_eq!((code, shown.contains("\u{1b}[1mID  NAME")), (0, true), "{shown:?}");
    let plain = installation.run(&["account", "list"]).await.stdout;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
    let without_color = in_a_terminal_with(&["NO_COLOR=1"], &installation, &["account", "list"], "").await;
    assert_eq!(without_color, (0, plain));
}

#[tokio::test]
async fn the_last_admin_is_revoked_only_with_force_or_a_second_yes() {
    let machines = TwoMachines::start().await;
    let revoke = ["operator", "revoke", "first", "--yes"];
    let refused = machines.service.run(&revoke).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let last = "first is the last admin: after this, only `petstore` on the database host can make changes";
    assert_eq!(refused.stderr, format!("error: {last}; add --force to confirm\n"));
    let ask = ["operator", "revoke", "first"];
    let (code, shown) = in_a_terminal(&machines.service, &ask, "y\nn\n").await;
    assert_eq!((code, shown.matches("[y/N]").count()), (1, 2), "{shown}");
    assert!(shown.contains(&format!("{last}. Revoke it anyway?")), "{shown}");
    assert!(shown.contains("nothing was changed"), "{shown}");
    machines.json(&["account", "list"]).await;
    let (code, shown) = in_a_terminal(&machines.service, &ask, "y\ny\n").await;
    assert_eq!(code, 0, "{shown}");
    assert_eq!(machines.run(&["account", "list"]).await.code, Some(1));

    let rotated = machines.service.run(&["operator", "rotate", "first"]).await;
    assert_eq!(rotated.code, Some(0), "{rotated:?}");
    assert_eq!(machines.run(&["account", "list"]).await.code, Some(1), "the old token stays worthless");
    machines.desk.write_secret("token", &rotated.stdout);
    machines.json(&["account", "list"]).await;
    let forced = machines.run(&["operator", "revoke", "first", "--force"]).await;
    assert_eq!(forced.code, Some(0), "{forced:?}");
}

#[tokio::test]
async fn irreversible_commands_ask_for_confirmation_only_on_a_terminal() {
    let installation = petstore();
    assert_eq!(installation.run(&["migrate", "up"]).await.code, Some(0));
    key_of_new_account(&installation).await;
    let id = crate::only_key_id(&installation, ACCOUNT).await;
    let state = async || {
        let keys = installation.run(&["key", "list", "--account", ACCOUNT, "--output", "json"]).await.stdout;
        serde_json::from_str::<Value>(&keys).unwrap()["keys"][0]["state"].clone()
    };
    let (code, shown) = in_a_terminal(&installation, &["key", "revoke", &id], "n\n").await;
    assert_eq!((code, state().await), (1, json!("active")), "{shown}");
    assert!(shown.contains(&id) && shown.contains("nothing was changed"), "{shown}");
    let (code, shown) = in_a_terminal(&installation, &["account", "suspend", ACCOUNT, "--yes"], "").await;
    assert_eq!((code, shown.contains("[y/N]")), (0, false), "{shown}");
    let (code, shown) = in_a_terminal(&installation, &["key", "revoke", &id], "y\n").await;
    assert_eq!((code, state().await), (0, json!("revoked")), "{shown}");
}
