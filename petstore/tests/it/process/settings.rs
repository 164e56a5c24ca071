//! Settings from variables and files: one rule for all of them.

use std::{
    any::TypeId,
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use petstore_testkit::{Authority, Installation, eventually};

use crate::{PORTS, first_client, petstore, serve};

/// Timeout of a start that reads no more than it should.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the variable of each setting, with the words of a command that has it.
fn variables() -> BTreeMap<String, String> {
    let of = |(command, arg): (String, clap::Arg)| {
        let command = if command == "key" { "key create".to_owned() } else { command };
        let command = if command == "migrate" { "migrate up".to_owned() } else { command };
        Some((arg.get_env()?.to_str()?.to_owned(), command))
    };
    let variables: BTreeMap<_, _> = petstore::args().into_iter().filter_map(of).collect();
    assert!(variables.len() > 40, "only {} variables were found", variables.len());
    variables
}

fn with_all(value: impl Fn(&str) -> String) -> Installation {
    variables().keys().fold(petstore(), |program, name| program.with_variable(name, &value(name)))
}

#[tokio::test]
async fn an_empty_variable_counts_as_unset_in_every_command() {
    for empty in ["", " ", "\r", "\n", "\r\n", " \t\r\n"] {
        let installation = with_all(|_| empty.to_owned());
        let server = installation.start(&serve(&[])).await;
        first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
        let admin_url = format!("http://{}", server.address("admin"));
        let stderr = server.stderr();
        assert!(!stderr.contains("PETSTORE_"), "{empty:?}: {stderr}");
        for args in [
            ["account", "list"].as_slice(),
            &["key", "create", "--account", "first"],
            &["export"],
            &["migrate", "status"],
            &["backup", "copy", "--force"],
            &["health", "--admin-url", &admin_url],
        ] {
            let exit = installation.run(args).await;
            assert_eq!(exit.code, Some(0), "{empty:?} {args:?}: {exit:?}");
        }
    }
}

#[tokio::test]
async fn blanks_and_line_ends_around_a_variable_do_not_count_in_any_command() {
    for (before, after) in [("", "\r"), ("", "\n"), ("", "\r\n"), (" ", " "), ("\t", "\t\r\n")] {
        let installation = with_all(|name| format!("{before}value of {name}{after}"));
        let mut helps = BTreeMap::new();
        for (name, command) in variables() {
            if !helps.contains_key(&command) {
                let help = [command.split(' ').collect::<Vec<_>>(), vec!["--help"]].concat();
                helps.insert(command.clone(), installation.run(&help).await.stdout);
            }
            let help = &helps[&command];
            let hidden = ["DATABASE_URL", "REDIS_URL", "REPLICA_URL", "CORE_URL"];
            let is_hidden = hidden.map(|end| format!("PETSTORE_{end}"));
            let shown = format!("[env: {name}=value of {name}]");
            assert!(help.contains(&shown) || is_hidden.contains(&name), "{after:?} {name}: {help}");
        }
    }
    let installation = petstore().with_variable("PETSTORE_DATABASE_URL", "sqlite://data/petstore.db\r");
    first_client(&installation, &installation.start(&serve(&[])).await);
    let names = fs::read_dir(installation.folder().join("data")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.iter().any(|name| name == "petstore.db"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains('\r')), "a second store: {names:?}");
}

#[tokio::test]
async fn a_control_character_in_a_variable_is_refused_by_its_name() {
    for name in variables().keys() {
        for value in ["a\u{1}b\u{7f}", "a\r\nb"] {
            let exit = petstore().with_variable(name, value).run(&["openapi"]).await;
            exit.assert_refused(2, &[&format!("{name}: must not contain control characters")]);
            assert!(!exit.stderr.contains(value), "{exit:?}");
        }
    }
    let other = petstore().with_variable("PETSTORE_MOTD", "a\nb").run(&["migrate", "up"]).await;
    assert_eq!(other.code, Some(0), "it is no setting: {other:?}");
}

#[tokio::test]
async fn a_value_that_is_not_utf_8_is_refused_by_its_name() {
    let installation = petstore();
    let not_utf_8 = OsStr::from_bytes(b"caf\xe9");
    let run = |command: &str, change: &dyn Fn(&mut Command)| {
        let mut process = Command::new(env!("CARGO_BIN_EXE_petstore"));
        process.args(command.split(' ')).current_dir(installation.folder());
        change(&mut process);
        let output = process.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let is_file = |arg: &clap::Arg| arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
    let files = petstore::args().into_iter().filter(|(_, arg)| is_file(arg));
    let files: Vec<_> = files.filter_map(|(_, arg)| Some(arg.get_env()?.to_owned())).collect();
    for (name, command) in variables() {
        if files.iter().any(|file| *file == *name) {
            continue; // which may be named by any bytes
        }
        let (code, stderr) = run(&command, &|process| _ = process.env(&name, not_utf_8));
        assert!(code == Some(2) && stderr.contains(&name), "{command} {name}: {code:?} {stderr}");
    }
    for flag in ["--http-addr", "--gateways", "--log-level"] {
        for args in [
            vec![OsStr::new(flag), not_utf_8],
            vec![OsStr::from_bytes(&[flag.as_bytes(), b"=\xe9"].concat())],
        ] {
            let (code, stderr) = run("serve", &|process| _ = process.args(&args));
            assert_eq!((code, &*stderr), (Some(2), &*format!("error: {flag} must be UTF-8\n")));
        }
    }
    let (code, stderr) = run("account create", &|process| _ = process.arg(not_utf_8));
    assert_eq!((code, &*stderr), (Some(2), "error: each argument must be UTF-8\n"));
}

#[tokio::test]
async fn an_error_names_the_variable_that_has_the_value() {
    for (name, value) in [
        ("PETSTORE_HTTP_ADDR", "8080"),
        ("PETSTORE_HTTP_ADDR", "192.0.2.1:80"),
        ("PETSTORE_GRPC_ADDR", "0.0.0.0:0"),
        ("PETSTORE_TRUSTED_PROXY", "10.0.0.0/8, x"),
        ("PETSTORE_NO_MIGRATE", "maybe"),
        ("PETSTORE_LOG_LEVEL", "debgu"),
        ("PETSTORE_LOG_FORMAT", "xml"),
        ("PETSTORE_OTLP_ENDPOINT", "h"),
        ("PETSTORE_DATABASE_URL", "h"),
        ("PETSTORE_DATABASE_URL_FILE", "nothing"),
        ("PETSTORE_REDIS_URL", "h"),
        ("PETSTORE_SERVICE_TOKEN_FILE", "nothing"),
    ] {
        let mut args = serve(&[]);
        if let Some(at) = args.iter().position(|arg| name == format!("PETSTORE_{}", variable_of(arg))) {
            args.drain(at..at + 2);
        }
        let exit = petstore().with_variable(name, value).run(&args).await;
        assert!(exit.stderr.contains(name), "{exit:?}");
        let flag = format!("--{} ", variable_of(name).to_lowercase().replace('_', "-"));
        assert!(!exit.stderr.contains(&flag.replace("--petstore-", "--")), "nobody typed {flag}: {exit:?}");
    }
    let both = petstore().with_variable("PETSTORE_HTTP_ADDR", "1").run(&["serve", "--http-addr=2"]).await;
    both.assert_refused(2, &["--http-addr"]);
    assert!(!both.stderr.contains("PETSTORE_HTTP_ADDR"), "the flag wins: {both:?}");
}

fn variable_of(flag: &str) -> String {
    flag.trim_start_matches("--").to_uppercase().replace('-', "_")
}

#[tokio::test]
async fn no_error_about_a_url_repeats_its_password() {
    let installation = petstore();
    let flags: Vec<(String, String)> = petstore::args()
        .into_iter()
        .filter(|(_, arg)| {
            let names = arg.get_value_names().unwrap_or_default();
            names.iter().any(|name| ["URL", "BASE_URL", "ORIGIN"].contains(&name.as_str()))
        })
        .filter(|(command, _)| ["serve", "gateway", "health", "check", "backup"].contains(&command.as_str()))
        .map(|(command, arg)| (command, arg.get_long().unwrap_or_default().to_owned()))
        .collect();
    for flag in ["otlp-endpoint", "cors-origin", "core-url", "redis-url", "replica-url", "admin-url", ""] {
        assert!(flags.iter().any(|(_, found)| found == flag), "{flag} is not in {flags:?}");
    }
    for (command, flag) in flags {
        for url in [
            "http://user:SECRET@host:1",
            "http://user:SECRET@host:port",
            "http://user:SE/SECRET@host",
            "http://user:SECRET@[::1",
            "user:SECRET@host",
            "http:/user:SECRET",
            "http://host:1/?password=SECRET",
            "mysql://user:SECRET@host/db",
            "postgres://user:SECRET@host:port/db",
            "redis://user:SECRET@host:port",
            "SECRET",
        ] {
            let variable = format!("PETSTORE_{}", flag.to_uppercase().replace('-', "_"));
            let typed = if flag.is_empty() { url.to_owned() } else { format!("--{flag}={url}") };
            let file = format!("--{flag}-file={url}");
            let key: &[&str] = if command == "check" { &["--key-file", "nothing"] } else { &[] };
            let to: &[&str] = if command == "backup" { &["copy"] } else { &[] };
            let named = petstore().with_variable(&variable, url);
            for (installation, args) in [
                (&installation, [&[&*command, &typed], key, to].concat()),
                (
                    &installation,
                    [&[&*command, if url.contains("://") { &file } else { &typed }], key, to].concat(),
                ),
                (&named, [&[&*command], key, to].concat()),
            ] {
                let exit = installation.run(&args).await;
                assert_ne!(exit.code, Some(0), "{exit:?}");
                assert!(!exit.stderr.contains("SECRET"), "{args:?}: {exit:?}");
            }
        }
    }
    let secret = "postgres://user:SECRET@host/db";
    for args in [[secret].as_slice(), &["serve", secret], &["serve", "--http-addr", secret]] {
        let exit = installation.run(args).await;
        exit.assert_refused(2, &[]);
        assert!(!exit.stderr.contains("SECRET"), "{exit:?}");
    }
}

/// Settings that name a file, with what else their commands need.
fn files() -> Vec<(String, Vec<String>)> {
    let is_of_file = |arg: &clap::Arg| arg.get_value_names().is_some_and(|names| names == ["FILE"]);
    let of_settings = petstore::args().into_iter().filter(|(_, arg)| is_of_file(arg));
    let others = ["--https-cert", "--tls-cert", "--admin-https-cert", "--core-cert"];
    of_settings
        .filter_map(|(command, arg)| Some((command, format!("--{}", arg.get_long()?))))
        .filter(|(command, flag)| {
            let is_read = flag != "--junit";
            ["serve", "gateway", "check", "account"].contains(&command.as_str()) && is_read
        })
        .map(|(command, flag)| {
            let mut args: Vec<String> = match command.as_str() {
                "check" => vec!["check".into(), "https://127.0.0.1:1/v1".into()],
                "account" => vec!["account".into(), "list".into()],
                _ => vec![command.clone(), "--http-addr=127.0.0.1:0".into()],
            };
            if command == "account" && flag.starts_with("--database") {
                return (flag, args);
            }
            if flag == "--ca" {
                args.extend(["--key-file".into(), "key".into()]);
            }
            if flag.contains("core") || flag.contains("-token") && command == "account" {
                args.extend(["--core-url".into(), "https://127.0.0.1:1".into()]);
            }
            if command == "account" && flag != "--operator-token-file" {
                args.extend(["--operator-token-file".into(), "operator".into()]);
            }
            for certificate in others {
                let key = certificate.replace("-cert", "-key");
                let client_ca = certificate == "--tls-cert" && flag == "--tls-client-ca";
                if flag == certificate || flag == key || client_ca {
                    args.extend([(certificate, "cert.pem"), (&key, "key.pem")].map(|(name, file)| {
                        if name == flag { String::new() } else { format!("{name}={file}") }
                    }));
                    args.retain(|arg| !arg.is_empty());
                    if let Some(addr) = certificate.strip_suffix("https-cert") {
                        args.extend([format!("{addr}https-addr"), "127.0.0.1:0".into()]);
                    }
                    if certificate == "--core-cert" {
                        args.extend(["--core-ca".into(), "cert.pem".into()]);
                    }
                }
            }
            (flag, args)
        })
        .collect()
}

#[tokio::test]
async fn every_file_of_a_setting_is_regular_and_bounded() {
    let installation = petstore();
    let folder = installation.folder();
    make_fifo(&folder.join("fifo"));
    fs::create_dir(folder.join("folder")).unwrap();
    let authority = Authority::new();
    let certificate = authority.issue("localhost");
    installation.write_secret("cert.pem", &certificate.pem);
    installation.write_secret("key.pem", &certificate.key);
    installation.write_secret("large", &"x\n".repeat(600_000));
    installation.write_secret("key", "pet_live_0000000000000000000000000000001PRvVh");
    assert_eq!(installation.run(&["migrate", "up"]).await.code, Some(0));
    let token = installation.run(&["operator", "create", "me", "--role", "admin"]).await.stdout;
    installation.write_secret("operator", &token);
    let files = files();
    assert!(files.len() >= 20, "{files:?}");
    for (flag, args) in files {
        for file in ["fifo", "folder", "large", "/dev/zero"] {
            let given = format!("{flag}={file}");
            let args: Vec<&str> = args.iter().map(String::as_str).chain([given.as_str()]).collect();
            let exit = installation.run(&args).await;
            exit.assert_refused(2, &[&flag, &format!("{file} must be a regular file of at most 1 MiB")]);
            assert!(exit.took < START_TIMEOUT, "{exit:?}");
        }
    }
}

#[tokio::test]
async fn several_gateways_without_redis_are_warned_of() {
    let installation = petstore();
    for (gateways, is_warned_of) in [("1", false), ("2", true)] {
        let flags = [["serve"].as_slice(), &PORTS, &["--gateways", gateways]].concat();
        let log = installation.start(&flags).await.terminate().await.stderr;
        assert_eq!(log.contains("without --redis-url, each of the --gateways"), is_warned_of, "{log}");
    }
}

#[tokio::test]
async fn a_credential_of_systemd_shows_its_acl_as_a_right_of_the_group() {
    for (mode, is_read, is_read_elsewhere) in
        [(0o400, true, true), (0o440, true, false), (0o444, false, false)]
    {
        let elsewhere = petstore().with_variable("CREDENTIALS_DIRECTORY", "/run/credentials/other");
        let mut of_systemd = petstore();
        let folder = of_systemd.folder().to_str().unwrap().to_owned();
        of_systemd = of_systemd.with_variable("CREDENTIALS_DIRECTORY", &folder);
        for (installation, is_read) in [(of_systemd, is_read), (elsewhere, is_read_elsewhere)] {
            let url = installation.folder().join("url");
            installation.write_secret("url", "sqlite://shop.db");
            fs::set_permissions(&url, Permissions::from_mode(mode)).unwrap();
            let exit =
                installation.run(&["migrate", "up", "--database-url-file", url.to_str().unwrap()]).await;
            assert_eq!(exit.code, Some(if is_read { 0 } else { 2 }), "{mode:o}: {exit:?}");
        }
    }
}

/// The driver of PostgreSQL reads these by itself.
#[tokio::test]
async fn every_file_that_a_database_url_names_is_regular_and_bounded() {
    let installation = petstore();
    let fifo = installation.folder().join("fifo");
    make_fifo(&fifo);
    let (authority, store) = (Authority::new(), "postgres://petstore@127.0.0.1:2/shop");
    let certificate = authority.issue("localhost");
    let (ca, cert, key) = (&*authority.file(), &*certificate.file, &*certificate.key_file);
    for file in [fifo.to_str().unwrap(), "/dev/zero"] {
        for [ca, cert, key] in [[file, cert, key], [ca, file, key], [ca, cert, file]] {
            let url = format!("{store}?sslmode=verify-full&sslrootcert={ca}&sslcert={cert}&sslkey={key}");
            let said = format!("{file} must be a regular file of at most 1 MiB");
            let named = petstore().with_variable("PETSTORE_DATABASE_URL", &url);
            let exit = named.run(&["migrate", "up"]).await;
            exit.assert_refused(2, &["PETSTORE_DATABASE_URL: ", &said]);
            installation.write_secret("url", &url);
            for args in [
                ["serve", "--database-url-file", "url"].as_slice(),
                &["export", "--database-url-file", "url"],
                &["core", "--database-url", store, "--replica-url-file", "url"],
            ] {
                let exit = installation.run(args).await;
                exit.assert_refused(2, &["-url-file: ", &said]);
                assert!(exit.took < START_TIMEOUT, "{exit:?}");
            }
        }
    }
    let plain = ["core", "--database-url", &format!("{store}?sslmode=verify-ca")];
    let exit = petstore().with_variable("PGSSLROOTCERT", "/dev/zero").run(&plain).await;
    exit.assert_refused(2, &["--database-url: /dev/zero must be a regular file"]);
}

/// Likewise. It takes what it does not know for none given.
#[tokio::test]
async fn a_misspelt_variable_of_libpq_does_not_switch_tls_off() {
    let store = ["migrate", "up", "--database-url", "postgres://petstore@127.0.0.1:2/shop"];
    for (name, value, said) in [
        ("PGSSLMODE", "verify_full", Some("PGSSLMODE must be one of disable, ")),
        ("PGSSLMODE", " require", Some("PGSSLMODE must be one of disable, ")),
        ("PGPORT", "5432x", Some("PGPORT must be a number")),
        ("PGSSLMODE", "", None),
        ("PGPORT", "", None),
    ] {
        let exit = petstore().with_variable(name, value).run(&store).await;
        assert_eq!(exit.code, Some(if said.is_some() { 2 } else { 1 }), "{name}={value}: {exit:?}");
        assert!(exit.stderr.contains(said.unwrap_or("cannot reach")), "{name}={value}: {exit:?}");
    }
}

#[tokio::test]
async fn a_message_about_two_settings_names_both() {
    let installation = petstore().with_variable("PETSTORE_DATABASE_URL_FILE", "url");
    let exit = installation.run(&["export", "--database-url", "sqlite://x.db"]).await;
    let both = "the argument '--database-url <URL>' cannot be used with 'PETSTORE_DATABASE_URL_FILE'";
    exit.assert_refused(2, &[both]);
}

fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").args([OsStr::new("-m600"), path.as_os_str()]).status().unwrap();
    assert!(made.success());
}

#[tokio::test]
async fn a_file_that_becomes_a_fifo_is_refused_and_the_process_still_stops() {
    let installation = petstore();
    installation.write_secret("token", &"0".repeat(32));
    let server = installation.start(&serve(&["--service-token-file", "token"])).await;
    fs::remove_file(installation.folder().join("token")).unwrap();
    make_fifo(&installation.folder().join("token"));
    server.signal("HUP").await;
    eventually(START_TIMEOUT, async || {
        let stderr = server.stderr();
        let is_refused = stderr.contains("token must be a regular file of at most 1 MiB");
        if is_refused { Ok(()) } else { Err(stderr) }
    })
    .await;
    assert_eq!(server.terminate().await.code, Some(0));
}

#[tokio::test]
async fn a_secret_has_no_control_characters_and_blanks_around_it_do_not_count() {
    let installation = petstore();
    for (file, flag, value) in [
        ("url", "--database-url-file", "sqlite://data/petstore.db"),
        ("token", "--service-token-file", "0123456789abcdef0123456789abcdef"),
    ] {
        for (content, is_valid) in [
            (format!("{value}\r\n"), true),
            (format!(" {value} \r"), true),
            (format!("\n{value}\n\n"), true),
            (value.replace("pet", "p\u{1}et").replace('9', "9\u{1}"), false),
            (value.replace("pet", "p\ret").replace('9', "9\r"), false),
        ] {
            installation.write_secret(file, &content);
            if is_valid {
                installation.start(&serve(&[flag, file])).await.terminate().await;
            } else {
                let exit = installation.run(&serve(&[flag, file])).await;
                exit.assert_refused(2, &[flag, "without control characters"]);
            }
        }
    }
    let stores = fs::read_dir(installation.folder().join("data")).unwrap();
    let stores = stores.filter(|entry| entry.as_ref().unwrap().path().extension() == Some(OsStr::new("db")));
    assert_eq!(stores.count(), 1);
}

#[tokio::test]
async fn a_key_or_authority_on_p_521_is_refused_with_the_curves_that_work() {
    let installation = petstore();
    let folder = installation.folder();
    let ecdsa = ["-x509", "-newkey", "ec", "-nodes", "-subj", "/CN=localhost", "-days", "30", "-keyout"];
    for (curve, name) in [("secp521r1", "521"), ("prime256v1", "256"), ("secp384r1", "384")] {
        let curve = format!("ec_paramgen_curve:{curve}");
        let mut made = Command::new("openssl");
        made.arg("req").args(ecdsa).arg(folder.join(format!("{name}-key.pem")));
        let made = made.args(["-pkeyopt", &curve, "-out"]).arg(folder.join(format!("{name}.pem"))).output();
        assert!(made.unwrap().status.success());
    }
    installation.write_secret("key", "pet_live_0000000000000000000000000000001PRvVh");
    let https = ["--https-addr", "127.0.0.1:0", "--https-cert"];
    let admin = ["--admin-https-addr", "127.0.0.1:0", "--admin-https-cert"];
    let serve = ["serve", "--http-addr", "127.0.0.1:0"];
    let core = ["gateway", "--http-addr", "127.0.0.1:0", "--core-url", "https://127.0.0.1:1", "--core-ca"];
    let check = ["check", "https://127.0.0.1:1/v1", "--key-file", "key", "--ca"];
    for (args, named) in [
        ([&serve, https.as_slice(), &["521.pem", "--https-key", "521-key.pem"]].concat(), "--https-key"),
        (
            [&serve, admin.as_slice(), &["521.pem", "--admin-https-key", "521-key.pem"]].concat(),
            "--admin-https-key",
        ),
        ([serve.as_slice(), &["--tls-cert", "521.pem", "--tls-key", "521-key.pem"]].concat(), "--tls-key"),
        (
            vec!["core", "--tls-cert", "256.pem", "--tls-key", "256-key.pem", "--tls-client-ca", "521.pem"],
            "--tls-client-ca",
        ),
        ([core.as_slice(), &["521.pem"]].concat(), "--core-ca"),
        (
            [core.as_slice(), &["256.pem", "--core-cert", "521.pem", "--core-key", "521-key.pem"]].concat(),
            "--core-key",
        ),
        ([check.as_slice(), &["521.pem"]].concat(), "--ca"),
    ] {
        installation.run(&args).await.assert_refused(2, &[named, "ECDSA on P-256 or P-384"]);
    }
    let url = "postgres://petstore@127.0.0.1:1/shop?sslmode=verify-ca&sslrootcert=521.pem";
    let refused = installation.run(&["migrate", "up", "--database-url", url]).await;
    refused.assert_refused(2, &["--database-url: 521.pem", "ECDSA on P-256 or P-384"]);
    for curve in ["256", "384"] {
        let (certificate, key) = (format!("{curve}.pem"), format!("{curve}-key.pem"));
        let flags = ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &certificate];
        installation.start(&[["core"].as_slice(), &PORTS[2..], &flags].concat()).await.terminate().await;
    }
    let bundle = ["521.pem", "384.pem"].map(|name| installation.read(name)).concat();
    installation.write_secret("bundle.pem", &bundle);
    let flags = ["--tls-cert", "256.pem", "--tls-key", "256-key.pem", "--tls-client-ca", "bundle.pem"];
    installation.start(&[["core"].as_slice(), &PORTS[2..], &flags].concat()).await.terminate().await;
}
