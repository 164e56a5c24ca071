//! Files that commands write: every command that writes one, and everything that may stand at its name.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use petstore_testkit::{Exit, Installation, Server};

use crate::{FIRST_KEY, key_without_limits, petstore, serve};

/// Commands that write text, and commands that write a store or a copy of one.
const TEXT: [&str; 3] = ["export", "check", "man"];
const STORES: [&str; 2] = ["backup", "restore"];

/// File that each command writes. Its name is that of a manual page, which `man` chooses itself.
const FILE: &str = "out/petstore.1";

/// Installation whose commands can write a file.
struct Writers {
    installation: Installation,
    base_url: String,
    _server: Server,
}

impl Writers {
    async fn new() -> Self {
        let installation = petstore();
        let server = installation.start(&serve(&[])).await;
        let key = key_without_limits(&installation).await;
        installation.write_secret("key", &key);
        let base_url = format!("http://{}/v1", server.address("REST"));
        let pet = br#"{"name":"Rex","categoryId":1}"#;
        assert_eq!(installation.run_with_input(&["import", "-"], pet).await.code, Some(0));
        assert_eq!(installation.run(&["backup", "copy.db"]).await.code, Some(0));
        fs::create_dir(installation.folder().join("out")).unwrap();
        Self { installation, base_url, _server: server }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.installation.folder().join(name)
    }

    /// Empties the folder of [`FILE`].
    fn clear(&self) {
        fs::remove_dir_all(self.path("out")).unwrap();
        fs::create_dir(self.path("out")).unwrap();
    }

    async fn write(&self, command: &str, file: &str, flags: &[&str]) -> Exit {
        let (url, folder) = (format!("sqlite://{file}"), file.trim_end_matches("/petstore.1"));
        let args: &[&str] = match command {
            "export" => &["export", file, "--format", "ndjson"],
            "check" => &["check", &self.base_url, "--key-file", "key", "--junit", file],
            "man" => &["man", folder],
            "backup" => &["backup", file],
            "restore" => &["restore", "copy.db", "--database-url", &url],
            _ => unreachable!(),
        };
        self.installation.run(&[args, flags].concat()).await
    }

    /// Runs a command that must write the file, and returns what it wrote.
    async fn written(&self, command: &str, flags: &[&str]) -> Vec<u8> {
        let exit = self.write(command, FILE, flags).await;
        assert!(exit.code == Some(0), "{command} {flags:?}: {exit:?}");
        let content = fs::read(self.path(FILE)).unwrap();
        assert!(is_output_of(command, &content), "{command} {flags:?}: {}", content.len());
        self.assert_nothing_is_left();
        content
    }

    async fn assert_refused(&self, command: &str, file: &str, flags: &[&str], reason: &str) {
        let exit = self.write(command, file, flags).await;
        let is_named = exit.stderr.contains(reason) && exit.stderr.contains(file);
        assert!(exit.code == Some(1) && is_named, "{command} {file} {flags:?}, not {reason:?}: {exit:?}");
        self.assert_nothing_is_left();
    }

    fn assert_nothing_is_left(&self) {
        for folder in ["out", "data", "."] {
            for entry in fs::read_dir(self.path(folder)).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                assert!(!name.starts_with(".petstore-"), "{folder}/{name} is left");
            }
        }
    }
}

fn is_output_of(command: &str, content: &[u8]) -> bool {
    let begin: &[u8] = match command {
        "export" => br#"{"id":"#,
        "check" => b"<?xml",
        "man" => b".ie",
        _ => b"SQLite format 3\0",
    };
    content.starts_with(begin)
}

fn all() -> impl Iterator<Item = &'static str> {
    TEXT.into_iter().chain(STORES)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

fn is_root(path: &Path) -> bool {
    fs::metadata(path).unwrap().uid() == 0
}

fn run(program: &str, options: &[&str], path: &Path, operands: &[&str]) {
    let status = Command::new(program).args(options).arg(path).args(operands).status();
    assert!(status.unwrap().success(), "{program}");
}

#[tokio::test]
async fn an_output_file_is_new_or_replaces_one_only_when_that_is_asked_for() {
    let writers = Writers::new().await;
    let (file, other) = (writers.path(FILE), writers.path("out/other"));
    for command in all() {
        writers.clear();
        fs::write(&other, "").unwrap();
        let of_umask = mode(&other);
        writers.written(command, &[]).await;
        assert_eq!(mode(&file), if TEXT.contains(&command) { of_umask } else { 0o600 }, "{command}");

        writers.clear(); // a regular file with a second name
        fs::write(&file, "precious").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        fs::hard_link(&file, &other).unwrap();
        writers.assert_refused(command, FILE, &[], "exists; --force replaces it").await;
        assert_eq!(fs::read_dir(writers.path("out")).unwrap().count(), 2, "{command}");
        assert_eq!(fs::read(&file).unwrap(), b"precious", "{command}");
        writers.written(command, &["--force"]).await;
        assert_eq!(mode(&file), if TEXT.contains(&command) { 0o640 } else { 0o600 }, "{command}");
        assert_eq!(fs::read(&other).unwrap(), b"precious", "{command}");

        writers.clear(); // a folder
        fs::create_dir(&file).unwrap();
        let reason = if TEXT.contains(&command) { "Is a directory" } else { "is not a regular file" };
        writers.assert_refused(command, FILE, &["--force"], reason).await;
        assert!(file.is_dir(), "{command}");
    }
}

#[tokio::test]
async fn a_symbolic_link_stays_and_its_target_is_written() {
    let writers = Writers::new().await;
    let (file, target) = (writers.path(FILE), writers.path("out/target"));
    for command in all() {
        writers.clear(); // to nothing yet, over a second link
        symlink("link", &file).unwrap();
        symlink(&target, writers.path("out/link")).unwrap();
        let content = writers.written(command, &[]).await;
        assert!(file.is_symlink() && writers.path("out/link").is_symlink(), "{command}");
        assert_eq!(fs::read(&target).unwrap(), content, "{command}");

        writers.clear(); // to a file
        symlink("target", &file).unwrap();
        fs::write(&target, "precious").unwrap();
        writers.assert_refused(command, FILE, &[], "exists; --force replaces it").await;
        assert_eq!(fs::read(&target).unwrap(), b"precious", "{command}");
        let content = writers.written(command, &["--force"]).await;
        assert!(file.is_symlink() && fs::read(&target).unwrap() == content, "{command}");

        writers.clear(); // to itself
        symlink("petstore.1", &file).unwrap();
        writers.assert_refused(command, FILE, &["--force"], "Too many levels of symbolic links").await;
    }
}

#[tokio::test]
async fn a_device_or_pipe_is_written_into_and_never_replaced() {
    let writers = Writers::new().await;
    let file = writers.path(FILE);
    for command in all() {
        let is_text = TEXT.contains(&command);
        writers.clear();
        run("mkfifo", &[], &file, &[]);
        if is_text {
            let pipe = file.clone();
            let reader = thread::spawn(move || fs::read(pipe).unwrap());
            let exit = writers.write(command, FILE, &[]).await;
            assert_eq!(exit.code, Some(0), "{command}: {exit:?}");
            assert!(is_output_of(command, &reader.join().unwrap()), "{command}");
        } else {
            writers.assert_refused(command, FILE, &["--force"], "is not a regular file").await;
        }
        assert!(fs::symlink_metadata(&file).unwrap().file_type().is_fifo(), "{command}");

        writers.clear();
        symlink("/dev/stdout", &file).unwrap();
        if is_text {
            let exit = writers.write(command, FILE, &[]).await;
            assert_eq!(exit.code, Some(0), "{command}: {exit:?}");
            let is_there = exit.stdout.lines().any(|line| is_output_of(command, line.as_bytes()));
            assert!(is_there, "{command}: {exit:?}");
        } else {
            writers.assert_refused(command, FILE, &["--force"], "is not a regular file").await;
        }
        assert!(file.is_symlink(), "{command}");

        if is_root(&writers.path("out")) {
            writers.clear();
            run("mknod", &[], &file, &["c", "1", "3"]);
            let exit = writers.write(command, FILE, &["--force"]).await;
            assert_eq!(exit.code, Some(i32::from(!is_text)), "{command}: {exit:?}");
            assert!(fs::symlink_metadata(&file).unwrap().file_type().is_char_device(), "{command}");
        }
    }
}

#[tokio::test]
async fn no_part_of_a_store_is_an_output_of_another_command() {
    let writers = Writers::new().await;
    let token = "data/first-operator-token";
    let parts = ["data/petstore.db", "data/petstore.db-wal", "data/petstore.db-shm", FIRST_KEY, token];
    let content = || parts.map(|part| fs::read(writers.path(part)).unwrap());
    let before = content();
    let key = fs::read_to_string(writers.path("key")).unwrap();
    fs::write(writers.path("key.json"), format!("{{\n  \"key\": \"{}\"\n}}", key.trim())).unwrap();
    fs::write(writers.path("key.pem"), "-----BEGIN PRIVATE KEY-----\nMC4C").unwrap();
    let others = ["out.db-wal", "out.db-journal", "out.db-shm", "key.json", "key.pem"];
    for command in ["export", "check", "backup"] {
        for part in parts.into_iter().chain(others) {
            writers.assert_refused(command, part, &["--force"], "may be part of a store").await;
        }
        writers.clear();
        for (at, part) in parts.into_iter().enumerate() {
            let link = format!("out/{at}");
            symlink(writers.path(part), writers.path(&link)).unwrap();
            writers.assert_refused(command, &link, &["--force"], "store").await;
        }
        fs::hard_link(writers.path(parts[0]), writers.path("out/hard")).unwrap();
        writers.assert_refused(command, "out/hard", &["--force"], "store").await;
        if command != "backup" {
            writers.assert_refused(command, "copy.db", &["--force"], "may be part of a store").await;
        }
    }
    assert!(content() == before, "a part of the store was changed");
}

#[tokio::test]
async fn whoever_plants_files_in_the_folder_gains_nothing() {
    let writers = Writers::new().await;
    let (file, planted) = (writers.path(FILE), writers.path("out/petstore.1.partial"));
    let precious = writers.path("precious");
    for command in all() {
        writers.clear(); // a link
        fs::write(&precious, "precious").unwrap();
        let before = fs::metadata(&precious).unwrap();
        symlink(&precious, &planted).unwrap();
        writers.written(command, &[]).await;
        let after = fs::metadata(&precious).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"precious", "{command}");
        assert_eq!((before.uid(), before.mode()), (after.uid(), after.mode()), "{command}");
        assert!(planted.is_symlink(), "{command}");

        writers.clear(); // a file that is kept open, at the name too
        fs::write(&planted, "").unwrap();
        fs::write(&file, "").unwrap();
        let mut open = [&planted, &file].map(|path| File::open(path).unwrap());
        writers.written(command, &["--force"]).await;
        for file in &mut open {
            let mut read = Vec::new();
            file.read_to_end(&mut read).unwrap();
            assert!(read.is_empty(), "{command}: {} bytes", read.len());
        }

        if !is_root(&precious) {
            continue;
        }
        // A folder of another user, who could exchange what a path leads to, and a link of that user.
        writers.clear();
        run("chown", &["65534"], &writers.path("out"), &[]);
        writers.written(command, &[]).await;
        let owner = if command == "restore" { 65534 } else { 0 };
        assert_eq!(fs::metadata(&file).unwrap().uid(), owner, "{command}");
        fs::remove_file(&file).unwrap();
        symlink(&precious, &file).unwrap();
        run("chown", &["-h", "65534"], &file, &[]);
        writers.assert_refused(command, FILE, &["--force"], "belongs to user 65534").await;
        assert_eq!(fs::read(&precious).unwrap(), b"precious", "{command}");
    }
}

#[tokio::test]
async fn a_command_whose_reader_is_gone_ends_without_a_word_and_one_that_cannot_print_says_why() {
    let writers = Writers::new().await;
    for args in [
        &["--help"][..],
        &["--version"],
        &["key", "create", "--help"],
        &["openapi"],
        &["export"],
        &["export", "-", "--format", "csv"],
        &["export", "/dev/stdout", "--format", "csv"],
        &["account", "list"],
        &["key", "list", "--account", "first", "--output", "json"],
        &["audit"],
        &["migrate", "status"],
        &["completions", "bash"],
        &["check", &writers.base_url, "--key-file", "key"],
        &["backup", "another.db", "--force"],
    ] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ends = [Stdio::from(writer), Stdio::from(full)].map(|stdout| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_petstore"));
            let command = command.args(args).current_dir(writers.path(".")).stdin(Stdio::null());
            let output = command.stdout(stdout).stderr(Stdio::piped()).output().unwrap();
            (output.status.code(), String::from_utf8(output.stderr).unwrap())
        });
        let [of_pipe, (code, said)] = ends;
        assert_eq!(of_pipe, (Some(141), String::new()), "{args:?}");
        assert!(said.starts_with("error: cannot ") && said.contains(": No space left"), "{args:?}: {said}");
        assert_eq!(code, Some(1), "{args:?}: {said}");
    }
}

#[tokio::test]
async fn stdout_is_not_a_file_of_commands_that_print_something_else() {
    let writers = Writers::new().await;
    for command in ["check", "backup", "restore"] {
        writers.assert_refused(command, "-", &["--force"], "it would be stdout").await;
        assert!(!writers.path("-").exists(), "{command}");
    }
}

#[test]
fn no_manual_page_appears_if_one_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    // 8 or 16 KiB: the page of `serve` is larger.
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$0\" man pages";
    let mut command = Command::new("sh");
    let command = command.args(["-c", script, env!("CARGO_BIN_EXE_petstore")]).current_dir(&folder);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("File too large"), "{said}");
    assert_eq!(fs::read_dir(folder.path().join("pages")).unwrap().count(), 0);
}
