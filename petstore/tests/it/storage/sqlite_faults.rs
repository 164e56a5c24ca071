//! Faults of a SQLite store: a full disk, a limit on files, a folder that is read-only, a file that is
//! replaced, removed or damaged while the service runs.

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    time::Duration,
};

use petstore_testkit::{
    Answer, Client, Installation, Server, eventually,
    grpc::{self, Code, new_pet, pb},
};
use serde_json::json;

use crate::{
    FIRST_KEY, PORTS, first_client, is_long, key_without_limits, pets::created, petstore, serve,
    split::part_is,
};

const PETSTORE: &str = env!("CARGO_BIN_EXE_petstore");

/// Shell command on a disk of 3 MiB that only this process sees, with a file of 1 MiB on it.
const ON_A_SMALL_DISK: &str = "mkdir data && mount -t tmpfs -o size=3m tmpfs data && \
                               head -c 1048576 /dev/zero > data/filler && exec \"$@\"";

/// Shell command that limits files to 1 MiB.
const WITH_A_LIMIT_ON_FILES: &str = "ulimit -S -f 2048 && exec \"$@\"";

#[tokio::test]
async fn writes_fail_on_a_full_disk_and_recover_by_themselves() {
    if !Command::new("unshare").args(["--map-root-user", "--mount", "true"]).status().unwrap().success() {
        // The machines of CI do not allow it. The next test limits the file instead.
        assert!(!is_long(), "no disk can be mounted: `unshare --map-root-user --mount` is refused");
        return;
    }
    let installation = Installation::of("unshare");
    let flags = ["--map-root-user", "--mount", "sh", "-c", ON_A_SMALL_DISK, "sh", PETSTORE, "serve"];
    let server = installation.start(&[flags.as_slice(), &PORTS].concat()).await;
    let home = PathBuf::from(format!("/proc/{}/root{}", server.pid(), installation.folder().display()));
    let client = server.client(fs::read_to_string(home.join(FIRST_KEY)).unwrap().trim());
    fills_up_and_recovers(&server, &client, "disk_full", || {
        fs::remove_file(home.join("data/filler")).unwrap();
    })
    .await;
}

/// Shell command with a folder for temporary files of 64 KiB that only this process sees.
const WITH_A_SMALL_TMPDIR: &str = "mkdir tmp && mount -t tmpfs -o size=64k tmpfs tmp && \
                                   TMPDIR=tmp exec \"$@\"";

#[tokio::test]
async fn a_backup_names_the_folder_that_is_full() {
    let installation = petstore();
    installation.json(&["migrate", "up"]).await;
    let open = installation.folder().join("open"); // where another user could exchange files
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    let mut backup = Command::new("unshare");
    let flags = ["--map-root-user", "--mount", "sh", "-c", WITH_A_SMALL_TMPDIR, "sh", PETSTORE];
    let backup = backup.args(flags).args(["backup", "open/copy.db"]).current_dir(installation.folder());
    let output = backup.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    if said.starts_with("unshare: ") {
        assert!(!is_long(), "no disk can be mounted: {said}"); // the machines of CI do not allow it
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("tmp/.tmp") && said.contains("disk is full"), "{said}");
    assert!(!said.contains("petstore.db"), "{said}");
}

#[tokio::test]
async fn writes_fail_at_the_file_size_limit_and_recover_by_themselves() {
    let installation = Installation::of("sh");
    let flags = ["-c", WITH_A_LIMIT_ON_FILES, "sh", PETSTORE, "serve"];
    let server = installation.start(&[flags.as_slice(), &PORTS].concat()).await;
    let client = server.client(installation.read(FIRST_KEY).trim());
    let pid = server.pid().to_string();
    fills_up_and_recovers(&server, &client, "writes_fail", || {
        let raised = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status();
        assert!(raised.unwrap().success(), "prlimit fails");
    })
    .await;
}

/// Adds pets until no more can be written, for that cause, makes room, and continues.
async fn fills_up_and_recovers(server: &Server, client: &Client, cause: &str, make_room: impl FnOnce()) {
    let mut pets = grpc::pet_store(server.address("gRPC")).await;
    let mut added = Vec::new();
    let refusal = loop {
        assert!(added.len() < 5_000, "nothing is ever full");
        let pet = new_pet("x".repeat(255), Some(1), 0);
        let is_named = added.len() % 2 == 0; // another path through the store
        let request_id = if is_named { format!("pet-{}", added.len()) } else { String::new() };
        match pets.create_pet(pb::CreatePetRequest { pet: Some(pet), request_id }).await {
            Ok(created) => added.push(created.into_inner().pet.unwrap().id),
            Err(refusal) => break refusal,
        }
    };
    assert!(!added.is_empty());
    grpc::assert_refused(Err::<(), _>(refusal), Code::Unavailable, "UNAVAILABLE");

    let rex = json!({"name": "Rex".repeat(80), "categoryId": 1});
    let refused = client.post("/v1/pets", &rex).await;
    refused.assert_error(503, "UNAVAILABLE");
    assert!(refused.retry_after() >= 1, "{refused:?}");
    for path in ["/v1/pets", &format!("/v1/pets/{}", added[added.len() - 1])] {
        client.get(path).await.assert_status(200);
    }
    let body = part_is(server, "database", "degraded", cause).await;
    assert_eq!(body["status"], "degraded", "{body}");
    part_is(server, "core", "degraded", "database_not_writable").await;
    let health = grpc::health(server.address("gRPC"), "").await.unwrap();
    assert_eq!(health, grpc::ServingStatus::Serving, "reads work");
    make_room();
    part_is(server, "database", "ok", "").await; // without a write of a client
    part_is(server, "core", "ok", "").await;
    let answer = eventually(Duration::from_secs(20), async || match client.post("/v1/pets", &rex).await {
        answer if answer.status() == 201 => Ok(answer),
        answer => {
            tokio::time::sleep(Duration::from_secs(1)).await; // so that the minute's requests last
            Err(format!("{answer:?}"))
        }
    })
    .await;
    added.push(created(&answer));
    assert_eq!(all_ids(server).await, added, "whatever was acknowledged is there, and nothing else");
}

#[tokio::test]
async fn a_store_file_replaced_or_removed_while_in_use_takes_no_requests() {
    let (other, other_file) = (petstore(), "data/petstore.db");
    let server = other.start(&serve(&[])).await;
    let others_pet = created(&add(&first_client(&other, &server)).await);
    assert_eq!(server.terminate().await.code, Some(0));

    for is_replaced in [true, false] {
        let installation = petstore();
        let file = installation.folder().join("data/petstore.db");
        let server = installation.start(&serve(&[])).await;
        let client = server.client(&key_without_limits(&installation).await);
        let mut acknowledged = vec![created(&add(&client).await)];
        fs::hard_link(&file, installation.folder().join("kept.db")).unwrap();
        if is_replaced {
            fs::copy(other.folder().join(other_file), installation.folder().join("copy.db")).unwrap();
            fs::rename(installation.folder().join("copy.db"), &file).unwrap();
        } else {
            fs::remove_file(&file).unwrap();
        }
        let refused = eventually(Duration::from_secs(10), async || match add(&client).await {
            answer if answer.status() == 201 => {
                acknowledged.push(created(&answer));
                Err(format!("{answer:?}"))
            }
            answer => Ok(answer),
        })
        .await;
        refused.assert_error(503, "UNAVAILABLE");
        for path in ["/v1/pets", "/v1/pets/1"] {
            client.get(path).await.assert_error(503, "UNAVAILABLE");
        }
        part_is(&server, "database", "down", "file_replaced").await;
        server.admin().get("/readyz").await.assert_status(503);
        let exit = server.terminate().await;
        assert_eq!(exit.code, Some(0), "{exit:?}");
        let lines: Vec<_> = exit.stderr.lines().filter(|line| line.contains("put the right file")).collect();
        assert_eq!(lines.len(), 1, "{exit:?}");
        assert!(lines[0].contains("data/petstore.db was replaced or removed"), "{lines:?}");

        let kept = installation.start(&serve(&["--database-url", "sqlite://kept.db"])).await;
        assert_eq!(all_ids(&kept).await, acknowledged, "replaced: {is_replaced}");
        drop(kept);
        if is_replaced {
            let server = installation.start(&serve(&[])).await;
            assert_eq!(all_ids(&server).await, [others_pet], "nothing of the store before is in it");
        }
    }
}

#[tokio::test]
async fn a_damaged_store_degrades_the_service_and_the_log_says_what_to_do() {
    let installation = petstore();
    let file = installation.folder().join("data/petstore.db");
    let server = installation.start(&serve(&[])).await;
    let mut pets = grpc::pet_store(server.address("gRPC")).await;
    let pet =
        pb::CreatePetRequest { pet: Some(new_pet("x".repeat(255), Some(1), 0)), request_id: String::new() };
    for _ in 0..4 {
        let requests = vec![pet.clone(); 500];
        pets.batch_create_pets(pb::BatchCreatePetsRequest { requests }).await.unwrap();
    }
    assert_eq!(server.terminate().await.code, Some(0));

    let server = installation.start(&serve(&[])).await;
    server.ready().await;
    let length = fs::metadata(&file).unwrap().len();
    let mut opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
    opened.seek(SeekFrom::Start(length / 2)).unwrap(); // more than half of the pages hold pets
    opened.write_all(&vec![0xa5; usize::try_from(length - length / 2).unwrap()]).unwrap();
    let client = first_client(&installation, &server);
    client.get("/v1/pets/2000").await.assert_error(500, "INTERNAL");
    part_is(&server, "database", "degraded", "damaged").await;
    let admin = format!("http://{}", server.address("admin"));
    let health = installation.run(&["health", "--admin-url", &admin]).await;
    assert_eq!(health.code, Some(0), "{health:?}");
    assert!(health.stdout.contains("\ndatabase: The database reports damaged content: "), "{health:?}");
    let stderr = server.terminate().await.stderr;
    let lines: Vec<_> = stderr.lines().filter(|line| line.contains("restore a backup")).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(lines[0].contains("data/petstore.db is damaged"), "{lines:?}");
}

async fn add(client: &Client) -> Answer {
    client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await
}

async fn all_ids(server: &Server) -> Vec<i64> {
    let mut pets = grpc::pet_store(server.address("gRPC")).await;
    let (mut ids, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = pb::ListPetsRequest { page_size: 100, page_token, status: 0 };
        let page = pets.list_pets(request).await.unwrap().into_inner();
        ids.extend(page.pets.iter().map(|pet| pet.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return ids;
        }
    }
}

#[tokio::test]
async fn a_read_only_folder_or_file_is_refused_at_the_start_and_left_unchanged() {
    let home = petstore();
    assert_eq!(home.run(&["migrate", "up"]).await.code, Some(0));
    let (folder, file) = (home.folder().join("data"), home.folder().join("data/petstore.db"));
    let content = fs::read(&file).unwrap();
    for (what, folder_mode, file_mode) in [("the folder", 0o555, 0o644), ("the file", 0o755, 0o444)] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(folder_mode)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(file_mode)).unwrap();
        let url = format!("sqlite://{}", file.display());
        let (program, args) = bound_by_permissions();
        let refused =
            Installation::of(program).run(&[args, &["serve", "--database-url", &url], &PORTS].concat()).await;
        refused.assert_refused(1, &["--database-url: cannot open", "petstore.db"]);
        assert_eq!(fs::read(&file).unwrap(), content, "{what}");
    }
}

/// Returns the command that runs the binary so that permissions hold for it: root has to give up the right to
/// bypass them.
fn bound_by_permissions() -> (&'static str, &'static [&'static str]) {
    if fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).unwrap() == 0 {
        ("setpriv", &["--bounding-set=-dac_override", "--", PETSTORE])
    } else {
        (PETSTORE, &[])
    }
}
