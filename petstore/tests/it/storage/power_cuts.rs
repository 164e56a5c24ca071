//! Power cuts: SQLite's writes are recorded, and the store is rebuilt as a disk may hold it after a cut.
//!
//! strace records every write to the store's files, every sync, and every 201. A cut comes just before a sync
//! takes effect, or just after it. Of each write that was not synced by then the disk may have nothing, all,
//! or the first sectors.
//!
//! `PETSTORE_TEST_LONG=1` (`scripts/test --long`) cuts at every sync of a longer record, and
//! `PETSTORE_TEST_SEED` repeats the choices of a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::FileExt as _,
    path::Path,
    time::Duration,
};

use petstore_testkit::{Installation, Random, eventually};
use serde_json::{Value, json};

use crate::{is_long, key_without_limits, pets::created, petstore, serve};

/// Number of bytes that a disk writes whole.
const SECTOR: usize = 512;
/// `HTTP/1.1 201` as strace writes it.
const CREATED: &str = r"\x48\x54\x54\x50\x2f\x31\x2e\x31\x20\x32\x30\x31";

/// Recorded event.
enum Event {
    Write { file: String, at: u64, bytes: Vec<u8> },
    Truncate { file: String, length: u64 },
    Sync { file: String },
    Created,
}

#[tokio::test]
async fn no_power_cut_loses_an_acknowledged_pet_and_without_syncs_one_does() {
    let is_long = is_long();
    let (pets, cuts, controls) = if is_long { (250, usize::MAX, 20) } else { (20, 6, 3) };
    let (home, traced) = (petstore(), Installation::of("strace"));
    assert_eq!(home.run(&["migrate", "up"]).await.code, Some(0));
    let key = key_without_limits(&home).await; // each command closes the store in order
    let data = home.folder().join("data");
    let base = tempfile::tempdir().unwrap();
    copy(&data, base.path());

    let calls = "trace=pwrite64,ftruncate,fsync,fdatasync,write,writev,sendto,sendmsg";
    let strace = ["-D", "-f", "-qq", "-y", "-xx", "-s", "1000000", "-e", "signal=none", "-e", calls];
    let url = format!("sqlite://{}", data.join("petstore.db").display());
    let service = ["-o", "calls", env!("CARGO_BIN_EXE_petstore")];
    let args = [strace.as_slice(), &service, &serve(&["--database-url", &url])].concat();
    let server = traced.start(&args).await;
    let client = server.client(&key);
    for number in 1..=pets {
        created(&client.post("/v1/pets", &json!({"name": name(number), "categoryId": 1})).await);
    }
    server.crash().await;
    // strace outlives the process that it records.
    let events = eventually(Duration::from_secs(20), async || {
        let events = events(&traced.read("calls"));
        let recorded = events.iter().filter(|event| matches!(event, Event::Created)).count();
        if recorded == pets { Ok(events) } else { Err(format!("{recorded} answers are recorded")) }
    })
    .await;
    let syncs: Vec<_> = (0..events.len()).filter(|at| matches!(events[*at], Event::Sync { .. })).collect();
    assert!(syncs.len() >= pets, "{} syncs for {pets} pets", syncs.len());
    let checkpoints =
        events.iter().filter(|event| matches!(event, Event::Sync { file } if file == "petstore.db"));
    let checkpoints = checkpoints.count();
    assert!(!is_long || checkpoints > 0, "the log was never moved into the database");

    let mut random = Random::of_this_run();
    let seed = random.seed();
    println!("seed {seed}: {} events, {} syncs, {checkpoints} checkpoints", events.len(), syncs.len());
    let mut made = 0;
    while made < cuts.min(2 * syncs.len()) {
        let sync = syncs[if is_long { made / 2 } else { random.below(syncs.len()) }];
        let lost = lost_by_cut(&events[..sync + made % 2], base.path(), true, &mut random).await;
        assert_eq!(lost, Ok(vec![]), "seed {seed}, cut {made} at event {sync}");
        made += 1;
    }
    let mut caught = 0;
    for _ in 0..controls {
        let lost = lost_by_cut(&events, base.path(), false, &mut random).await;
        caught += usize::from(lost != Ok(vec![]));
    }
    println!("{made} cuts, 0 pets lost; {caught} of {controls} cuts without syncs were found");
    assert!(caught > 0, "seed {seed}: no cut without syncs is found");
}

fn name(number: usize) -> String {
    format!("Pet {number}")
}

/// Rebuilds the store as the disk may hold it after these events, and returns the acknowledged pets that it
/// lacks. An error is the refusal of a store that is damaged. Without `heeds_syncs` no write is certain.
async fn lost_by_cut(
    events: &[Event],
    base: &Path,
    heeds_syncs: bool,
    random: &mut Random,
) -> Result<Vec<String>, String> {
    let home = petstore();
    let data = home.folder().join("data");
    copy(base, &data);
    for (at, event) in events.iter().enumerate() {
        let is_synced = |file: &str| {
            let syncs = |event: &Event| matches!(event, Event::Sync { file: synced } if synced == file);
            heeds_syncs && events[at..].iter().any(syncs)
        };
        match event {
            Event::Write { file, at, bytes } => {
                let sectors = bytes.len().div_ceil(SECTOR);
                let kept = match random.below(3) {
                    _ if is_synced(file) => bytes.len(),
                    0 => 0,
                    1 => bytes.len().min(SECTOR * random.below(sectors + 1)),
                    _ => bytes.len(),
                };
                write(&data.join(file), *at, &bytes[..kept]);
            }
            Event::Truncate { file, length } => {
                let file =
                    fs::OpenOptions::new().create(true).truncate(false).write(true).open(data.join(file));
                file.unwrap().set_len(*length).unwrap();
            }
            Event::Sync { .. } | Event::Created => {}
        }
    }
    let exported = home.run(&["export"]).await;
    if exported.code != Some(0) {
        return Err(exported.stderr);
    }
    let kept: BTreeSet<String> = exported
        .stdout
        .lines()
        .map(|pet| serde_json::from_str::<Value>(pet).unwrap()["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kept.len(), exported.stdout.lines().count(), "a pet is there twice");
    let acknowledged = events.iter().filter(|event| matches!(event, Event::Created)).count();
    Ok((1..=acknowledged).map(name).filter(|name| !kept.contains(name)).collect())
}

fn write(path: &Path, at: u64, bytes: &[u8]) {
    if !bytes.is_empty() {
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(path);
        file.unwrap().write_all_at(bytes, at).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Parses what strace wrote. A write counts from its call, a sync from its return.
fn events(calls: &str) -> Vec<Event> {
    let (mut events, mut syncing) = (Vec::new(), BTreeMap::new());
    for line in calls.lines() {
        let (process, call) = line.split_once(' ').unwrap();
        let call = call.trim_start();
        if call.starts_with("<... fsync resumed") || call.starts_with("<... fdatasync resumed") {
            events.extend(syncing.remove(process).map(|file| Event::Sync { file }));
            continue;
        }
        let Some((name, arguments)) = call.split_once('(') else { continue };
        let file =
            arguments.split(['<', '>']).nth(1).map(|path| String::from_utf8_lossy(&bytes(path)).into_owned());
        let file = file.and_then(|path| path.rsplit_once('/').map(|(_, file)| file.to_owned()));
        let file = file.filter(|file| file.starts_with("petstore.db") && !file.ends_with("-shm"));
        let numbers = || {
            let end = arguments
                .split(" = ")
                .next()
                .unwrap_or_default()
                .split(" <unfinished")
                .next()
                .unwrap_or_default();
            end.trim_end_matches(')').rsplit(", ").next().and_then(|number| number.parse().ok()).unwrap()
        };
        match (name, file) {
            ("pwrite64", Some(file)) => {
                let written = arguments.split('"').nth(1).unwrap();
                events.push(Event::Write { file, at: numbers(), bytes: bytes(written) });
            }
            ("ftruncate", Some(file)) => events.push(Event::Truncate { file, length: numbers() }),
            ("fsync" | "fdatasync", Some(file)) if call.contains("<unfinished") => {
                syncing.insert(process.to_owned(), file);
            }
            ("fsync" | "fdatasync", Some(file)) => events.push(Event::Sync { file }),
            (_, None) if call.contains(CREATED) => events.push(Event::Created),
            _ => {}
        }
    }
    events
}

/// Parses bytes as strace writes them: `\x37\x7f`.
fn bytes(text: &str) -> Vec<u8> {
    text.split(r"\x").skip(1).map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}
