//! `petstore import`: the lines of a file, each once, also after interruptions.

use std::{fs, io::Write as _, time::Duration};

use petstore_testkit::{Engine, Exit, Installation, eventually};
use serde_json::{Value, json};

use crate::{PORTS, key_of_new_account, petstore, petstore_on};

/// Timeout longer than a part of an import takes on a busy machine.
const IMPORT_TIMEOUT: Duration = Duration::from_mins(1);

const NDJSON: &str = r#"{"name": "Rex", "categoryId": 7, "status": "available"}
{"name": "Tom 🐈", "categoryId": -9223372036854775808, "id": 99, "colour": "grey"}

{"categoryId": 0, "status": "sold", "name": "a \"quoted\", name"}
"#;

const CSV: &str = "status,name,colour,categoryId\r\navailable,Rex,brown,7\r\n\
                   ,Tom 🐈,grey,-9223372036854775808\r\n\r\nsold,\"a \"\"quoted\"\", name\",,0\r\n";

/// Returns the pets of both files, without identifiers.
fn pets() -> [Value; 3] {
    [
        json!({"name": "Rex", "categoryId": 7, "status": "available"}),
        json!({"name": "Tom 🐈", "categoryId": i64::MIN}),
        json!({"name": "a \"quoted\", name", "categoryId": 0, "status": "sold"}),
    ]
}

#[tokio::test]
async fn every_format_is_imported_in_order_on_both_engines() {
    for engine in Engine::ALL {
        let installation = with_store(engine).await;
        fs::write(installation.folder().join("pets.ndjson"), NDJSON).unwrap();
        fs::write(installation.folder().join("pets.csv.gz"), gzip(CSV)).unwrap();
        fs::write(installation.folder().join("pets"), gzip(NDJSON)).unwrap(); // the name does not matter
        for args in [&["pets.ndjson"][..], &["pets.csv.gz"], &["pets", "--format", "ndjson"]] {
            let exit = import(&installation, args).await;
            assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), ""), "{engine:?} {args:?}: {exit:?}");
            assert!(exit.stdout.starts_with("imported 3 pets in "), "{exit:?}");
        }
        let exit = installation.run_with_input(&["import", "-"], NDJSON.as_bytes()).await;
        assert_eq!(exit.code, Some(0), "{exit:?}");
        let all = exported(&installation).await;
        assert_eq!(all.len(), 12);
        for (index, mut pet) in all.into_iter().enumerate() {
            assert!(pet.as_object_mut().unwrap().remove("id").is_some());
            assert_eq!(pet, pets()[index % 3], "{index}");
        }
    }
}

#[tokio::test]
async fn a_file_is_imported_once_per_import_id() {
    let installation = with_store(Engine::Sqlite).await;
    fs::write(installation.folder().join("pets.ndjson"), NDJSON).unwrap();
    for (args, created) in [
        (&[][..], 3),
        (&[], 0),
        (&["--import-id", "once more"], 2), // 2: the exit code
        (&["--import-id", "of-pet_live_0"], 2),
        (&["--import-id", "once-more"], 3),
        (&["--import-id", "once-more"], 0),
    ] {
        let args = [["pets.ndjson", "--output", "json"].as_slice(), args].concat();
        let exit = import(&installation, &args).await;
        if exit.code == Some(0) {
            let summary: Value = serde_json::from_str(&exit.stdout).unwrap();
            assert_eq!(
                (&summary["created"], &summary["createdInAll"]),
                (&json!(created), &json!(3)),
                "{summary}"
            );
            assert_eq!((&summary["rejected"], &summary["lastLine"]), (&json!(0), &json!(4)), "{summary}");
        } else {
            exit.assert_refused(created, &["--import-id", "1 to 200 visible ASCII characters"]);
        }
    }
    assert_eq!(exported(&installation).await.len(), 6);
}

#[tokio::test]
async fn an_invalid_line_is_reported_as_on_rest_and_the_others_are_imported() {
    let installation = petstore();
    let server = installation.start(&PORTS).await;
    let client = server.client(&key_of_new_account(&installation).await);
    let bad = [
        r#"{"name": "", "categoryId": 1}"#,
        r#"{"name": 1}"#,
        r#"{"name": "Rex", "categoryId": 1.5}"#,
        r#"{"name": "Rex", "name": "Tom", "categoryId": 1}"#,
        r#"{"name": "Rex", "categoryId": 1, "status": "lost"}"#,
        "[]",
    ];
    let mut file = String::new();
    let mut expected = Vec::new();
    for (index, body) in bad.into_iter().enumerate() {
        let rest = client.send("POST", "/v1/pets", &[("content-type", "application/json")], body).await;
        let refusal = rest.assert_status(400).json();
        let (code, message) = (refusal["code"].as_str().unwrap(), refusal["message"].as_str().unwrap());
        expected.push(format!("line {}: {code}: {message}", 2 * index + 2));
        file +=
            &[&json!({"name": format!("good {index}"), "categoryId": 1}).to_string(), body, ""].join("\n");
    }
    let exit = installation.run_with_input(&["import", "-"], file.as_bytes()).await;
    assert_eq!(exit.code, Some(1), "{exit:?}");
    let mut lines: Vec<_> = exit.stderr.lines().collect();
    let summary = lines.pop().unwrap();
    assert_eq!(lines, expected);
    assert!(
        summary.starts_with("error: 6 invalid lines were skipped; correct a copy of only these"),
        "{exit:?}"
    );
    assert!(exit.stdout.starts_with("imported 6 pets in "), "{exit:?}");
    let names: Vec<_> = exported(&installation).await.iter().map(|pet| pet["name"].clone()).collect();
    assert_eq!(names, (0..6).map(|index| json!(format!("good {index}"))).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_unclosed_quote_is_named_with_the_lines_that_it_cost_and_their_correction_adds_only_them() {
    let installation = with_store(Engine::Sqlite).await;
    let row = |line: usize| if line == 100 { "\"line 100,7".to_owned() } else { format!("line {line},7") };
    let table = |lines: std::ops::RangeInclusive<usize>| {
        lines.fold("name,categoryId\n".to_owned(), |table, line| table + &row(line) + "\n")
    };
    fs::write(installation.folder().join("pets.csv"), table(2..=20_001)).unwrap();
    let exit = import(&installation, &["pets.csv", "--output", "json"]).await;
    let rejected = serde_json::from_str::<Value>(&exit.stdout).unwrap()["rejected"].as_u64().unwrap();
    let rejected = usize::try_from(rejected).unwrap();
    assert!(rejected > 1_000, "{exit:?}");
    assert_eq!(exported(&installation).await.len(), 20_000 - rejected);
    let (first, last) = (100, 99 + rejected);
    let fault = format!(
        "line 100: MALFORMED_CSV: the quote that opens a cell in line 100 is not closed; \
         lines {first} to {last} are skipped"
    );
    let said: Vec<_> = exit.stderr.lines().collect();
    assert_eq!((exit.code, said.len(), said[0]), (Some(1), 2, fault.as_str()), "{exit:?}");
    assert!(said[1].starts_with(&format!("error: {rejected} invalid lines were skipped; ")), "{exit:?}");

    let corrected = table(first..=last).replace('"', "");
    fs::write(installation.folder().join("rest.csv"), corrected).unwrap();
    let exit = import(&installation, &["rest.csv"]).await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let mut names: Vec<_> = exported(&installation).await.iter().map(|pet| pet["name"].to_string()).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!((all, names.len()), (20_000, 20_000));
}

#[tokio::test]
async fn a_file_that_is_completely_imported_says_so() {
    let installation = with_store(Engine::Sqlite).await;
    fs::write(installation.folder().join("pets.ndjson"), lines(3)).unwrap();
    assert_eq!(import(&installation, &["pets.ndjson"]).await.code, Some(0));
    let exit = import(&installation, &["pets.ndjson"]).await;
    let expected =
        "already imported up to line 3; nothing to do. To import it again, give another --import-id\n";
    assert_eq!((exit.code, exit.stdout.as_str(), exit.stderr.as_str()), (Some(0), expected, ""), "{exit:?}");
}

#[tokio::test]
async fn a_strict_import_stops_at_the_first_invalid_line_and_continues_once_it_is_corrected() {
    // Lines that only the file shows to be wrong, that only the core refuses, and both.
    for (third, fifth) in
        [("{", ok(5)), (r#"{"name":"","categoryId":1}"#, "{".to_owned()), ("{", "{".to_owned())]
    {
        let installation = with_store(Engine::Sqlite).await;
        let file = installation.folder().join("pets.ndjson");
        let write = |third: &str, fifth: &str| {
            fs::write(&file, [&ok(1), &ok(2), third, &ok(4), fifth].join("\n")).unwrap();
        };
        write(third, &fifth);
        let exit = import(&installation, &["pets.ndjson", "--strict"]).await;
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(1), ""), "{exit:?}");
        let lines: Vec<_> = exit.stderr.lines().collect();
        assert!(lines[0].starts_with("line 3: "), "{exit:?}");
        assert!(lines[1].starts_with("error: line 3 is invalid and ends the strict import"), "{exit:?}");
        assert_eq!(exported(&installation).await.len(), 2, "what came before it");

        write(&ok(3), &ok(5));
        let again = lines[1].split_once("--import-id ").unwrap().1.split(' ').next().unwrap();
        let exit = import(&installation, &["pets.ndjson", "--strict", "--import-id", again]).await;
        assert_eq!(exit.code, Some(0), "{exit:?}");
        let names: Vec<_> = exported(&installation).await.iter().map(|pet| pet["name"].clone()).collect();
        assert_eq!(names, (1..=5).map(|line| json!(format!("line {line}"))).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn an_interrupted_import_continues_at_its_position() {
    for engine in Engine::ALL {
        for (signal, code) in [("KILL", None), ("INT", Some(1))] {
            let installation = with_store(engine).await;
            let args = ["import", "-", "--import-id", "ended"];
            // The lines that are sent at once, and some more; the rest never arrives.
            let moment = eventually(IMPORT_TIMEOUT, async || match exported(&installation).await.len() {
                8_000 => Ok(()),
                count => Err(format!("{count} pets")),
            });
            let ended = installation.run_until(&args, lines(9_000).as_bytes(), moment, signal).await;
            assert_eq!((ended.code, ended.stdout.as_str()), (code, ""), "{ended:?}");
            if signal == "INT" {
                // It may not know yet which lines the store has.
                let expected: Vec<_> = [
                    "no line is known to be imported. To try again",
                    "the lines up to 8000 are imported. To continue there",
                ]
                .map(interrupted_after)
                .into();
                assert!(expected.contains(&ended.stderr), "{ended:?}");
            }
            let exit = installation.run_with_input(&args, lines(12_000).as_bytes()).await;
            assert_eq!(
                (exit.code, exit.stderr.as_str()),
                (Some(0), "continuing after line 8000\n"),
                "{exit:?}"
            );
            assert!(exit.stdout.starts_with("imported 4,000 pets in "), "{exit:?}");
            assert_lines(&installation, 12_000).await;
        }
    }
}

#[tokio::test]
async fn an_import_that_is_killed_at_any_moment_imports_no_line_twice() {
    for engine in Engine::ALL {
        let installation = with_store(engine).await;
        fs::write(installation.folder().join("pets.ndjson.gz"), gzip(&lines(10_000))).unwrap();
        let args = ["import", "pets.ndjson.gz"];
        for millis in (60..=300).step_by(60) {
            let moment = tokio::time::sleep(Duration::from_millis(millis));
            installation.run_until(&args, b"", moment, "KILL").await;
        }
        let exit = installation.run(&args).await;
        assert_eq!(exit.code, Some(0), "{exit:?}");
        assert_lines(&installation, 10_000).await;
    }
}

#[tokio::test]
async fn an_import_over_grpc_outlives_the_core() {
    let installation = petstore();
    let address = format!("unix://{}/core.sock", installation.folder().display());
    let core = ["core", "--grpc-addr", &address, "--admin-addr", "127.0.0.1:0"];
    let without_a_store = petstore();
    fs::write(without_a_store.folder().join("pets.ndjson"), lines(20_000)).unwrap();
    let running = installation.start(&core).await;
    let args = ["import", "pets.ndjson", "--core-url", &address];
    let crash_and_come_back = async {
        eventually(IMPORT_TIMEOUT, async || match exported(&installation).await.len() {
            0 => Err("no pets".to_owned()),
            _ => Ok(()),
        })
        .await;
        running.crash().await;
        installation.start(&core).await
    };
    let (exit, _running) = tokio::join!(without_a_store.run(&args), crash_and_come_back);
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert_lines(&installation, 20_000).await;
}

#[tokio::test]
async fn an_import_presents_its_service_token() {
    let installation = petstore();
    installation.write_secret("token", "0123456789abcdef0123456789abcdef");
    let core = [
        "core",
        "--grpc-addr",
        "127.0.0.1:0",
        "--admin-addr",
        "127.0.0.1:0",
        "--service-token-file",
        "token",
    ];
    let running = installation.start(&core).await;
    let url = format!("http://{}", running.address("gRPC"));
    let args = ["import", "-", "--core-url", &url];
    let exit = installation.run_with_input(&args, NDJSON.as_bytes()).await;
    assert_eq!((exit.code, exit.stderr.lines().count()), (Some(1), 1), "{exit:?}");
    assert!(
        exit.stderr.contains("service token") && exit.stderr.contains("--service-token-file"),
        "{exit:?}"
    );
    let args = [args.as_slice(), &["--service-token-file", "token"]].concat();
    let exit = installation.run_with_input(&args, NDJSON.as_bytes()).await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert_eq!(exported(&installation).await.len(), 3);
}

#[tokio::test]
async fn an_import_that_a_damaged_file_ends_says_how_to_continue_and_no_line_is_imported_twice() {
    let whole = gzip(&lines(20_000));
    let mut changed = whole.clone();
    changed[whole.len() - 8] ^= 1; // in the checksum
    let (cut, longer) = (whole[..whole.len() * 2 / 3].to_vec(), [whole.as_slice(), b"more"].concat());
    for (fault, damaged) in [("cut", cut), ("a wrong checksum", changed), ("more after its end", longer)] {
        let installation = with_store(Engine::Sqlite).await;
        fs::write(installation.folder().join("pets.ndjson.gz"), damaged).unwrap();
        let exit = import(&installation, &["pets.ndjson.gz"]).await;
        exit.assert_refused(1, &["cannot read pets.ndjson.gz", "To continue there"]);
        let imported = exported(&installation).await.len();
        assert!(imported >= 8_000, "{fault}: {exit:?}");
        assert!(exit.stderr.contains(&format!("; the lines up to {imported} are imported")), "{exit:?}");

        fs::write(installation.folder().join("pets.ndjson.gz"), &whole).unwrap();
        let id = exit.stderr.split_once("--import-id ").unwrap().1.trim_end();
        let exit = import(&installation, &["pets.ndjson.gz", "--import-id", id]).await;
        assert_eq!(exit.code, Some(0), "{fault}: {exit:?}");
        assert_lines(&installation, 20_000).await;
    }
}

#[tokio::test]
async fn zero_bytes_after_gzip_are_padding() {
    let installation = with_store(Engine::Sqlite).await;
    let file = [gzip(&(ok(1) + "\n")), vec![0; 300_000], gzip(&(ok(2) + "\n")), vec![0; 512]].concat();
    let exit = installation.run_with_input(&["import", "-"], &file).await;
    assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), ""), "{exit:?}");
    assert_lines(&installation, 2).await;
}

#[tokio::test]
async fn a_failed_import_is_one_line_on_stderr() {
    let installation = with_store(Engine::Sqlite).await;
    fs::write(installation.folder().join("pets.csv"), "Rex,7\n").unwrap();
    fs::write(installation.folder().join("cut.ndjson.gz"), &gzip(NDJSON)[..40]).unwrap();
    let nowhere = ["-", "--core-url", "http://127.0.0.1:1", "--database-url", "sqlite://data/petstore.db"];
    for (args, code, text) in [
        (&["missing.ndjson"][..], 1, "cannot read missing.ndjson"),
        (&["pets.csv"], 1, "pets.csv must name each column once in its first line"),
        (&["cut.ndjson.gz"], 1, "cannot read cut.ndjson.gz"),
        (&["pets"], 2, "--format"),
        (&nowhere, 2, "cannot be used together"),
        (&["-", "--database-url", "sqlite://nowhere.db"], 1, "nowhere.db"),
    ] {
        let exit = import(&installation, args).await;
        exit.assert_refused(code, &[text]);
    }
}

fn interrupted_after(known: &str) -> String {
    format!("error: ended by SIGINT; {known}, import the whole file with --import-id ended\n")
}

/// Returns an installation with an empty store on this engine.
async fn with_store(engine: Engine) -> Installation {
    let installation = petstore_on(engine).await;
    let exit = installation.run(&["migrate", "up"]).await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    installation
}

async fn import(installation: &Installation, args: &[&str]) -> Exit {
    installation.run(&[&["import"], args].concat()).await
}

/// Returns every pet in the store, in the order of their identifiers.
async fn exported(installation: &Installation) -> Vec<Value> {
    let exit = installation.run(&["export"]).await;
    assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), ""), "{exit:?}");
    exit.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks that the store has the pets of this number of lines, in their order, each once.
async fn assert_lines(installation: &Installation, lines: usize) {
    let names: Vec<_> = exported(installation).await.iter().map(|pet| pet["name"].clone()).collect();
    assert_eq!(names.len(), lines);
    assert!(names.into_iter().eq((1..=lines).map(|line| json!(format!("line {line}")))));
}

fn lines(count: usize) -> String {
    (1..=count).map(|line| ok(line) + "\n").collect()
}

fn ok(line: usize) -> String {
    format!(r#"{{"name":"line {line}","categoryId":1}}"#)
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_json_array_is_refused_as_ndjson() {
    let installation = petstore();
    installation.run(&["migrate", "up"]).await;
    for array in [
        "[{\"name\": \"Rex\", \"categoryId\": 7}]\n",
        "\u{feff}\n [\n{\"name\": \"Rex\", \"categoryId\": 7}\n]\n",
    ] {
        std::fs::write(installation.folder().join("pets.json"), array).unwrap();
        let exit = installation.run(&["import", "pets.json", "--format", "ndjson"]).await;
        assert_eq!(exit.code, Some(1), "{exit:?}");
        assert!(
            exit.stderr.contains("pets.json holds a JSON array") && exit.stderr.contains("NDJSON"),
            "{exit:?}"
        );
        assert!(!exit.stderr.contains("MALFORMED_JSON"), "{exit:?}");
    }
}
