//! Instructions of pure functions on the path of every request, counted by callgrind.

use std::{collections::BTreeMap, hint::black_box, process::Command, sync::Arc};

use futures_util::FutureExt;
use petstore_caller::api_key::ApiKey;
use petstore_clock::{Clock, UnixMillis};
use petstore_gateway::pets;
use petstore_proto::PageToken;
use petstore_proto::v1::{Pet, PetStatus};
use petstore_rate_limit::{InProcessLimiter, LimitKey, Quota, RateLimiter};
use petstore_telemetry::logs::{self, LogFormat};
use tempfile::TempDir;

use crate::recorded::Costs;

/// Number of calls of every function. The first also runs one-time initialisation, and a log line can meet
/// the thread that writes lines at any point of its work.
const CALLS: usize = 8;

/// Test that callgrind runs, in this program.
const WORKLOAD: &str = "instructions::every_function";

const BODY: &[u8] =
    br#"{"name":"Rex","categoryId":7,"status":"available","tags":[{"id":1,"name":"a \u00e9"}]}"#;

/// Returns the instructions of each function's cheapest call.
pub(crate) async fn counted() -> Costs {
    let folder = TempDir::new().expect("a temporary folder");
    let out = folder.path().join("callgrind");
    let run = tokio::task::spawn_blocking(move || {
        Command::new("valgrind")
            .args(["--tool=callgrind", "--collect-atstart=no"])
            // Two spellings of one pattern, because each option takes one pattern.
            .args(["--toggle-collect=*measured_*", "--dump-after=*::measured_*"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(std::env::current_exe().expect("this program"))
            .args(["--exact", WORKLOAD, "--ignored", "--test-threads=1"])
            .output()
    });
    let run = run.await.unwrap().expect("valgrind runs: install the Debian package valgrind");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));

    let mut least: BTreeMap<String, f64> = BTreeMap::new();
    for part in 1.. {
        let Ok(text) = std::fs::read_to_string(folder.path().join(format!("callgrind.{part}"))) else {
            break;
        };
        let after = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let function = after("desc: Trigger: --dump-after=").map(|path| path.split("measured_").nth(1));
        let Some(Some(function)) = function else { continue };
        let name = function.split("::").next().expect("a name").replace('_', " ");
        let total: u32 = after("totals: ").expect("a total").trim().parse().expect("a number");
        let total = f64::from(total);
        least.entry(name).and_modify(|found| *found = found.min(total)).or_insert(total);
    }
    let mut costs = Costs::default();
    for (name, instructions) in least {
        costs.insert(name, BTreeMap::from([("instructions".to_owned(), instructions)]));
    }
    costs
}

#[test]
#[ignore = "callgrind runs it, for the test that counts"]
fn every_function() {
    let rex = |id| {
        let mut pet = Pet { id, name: "Rex".into(), category_id: 7, ..Pet::default() };
        pet.set_status(PetStatus::Available);
        pet
    };
    let pets: Vec<Pet> = (1..=20).map(rex).collect();
    let (clock, _hand) = Clock::manual(UnixMillis(1_800_000_000_000));
    let limiter = InProcessLimiter::new(clock);
    let limit_key = LimitKey::ApiKey { account_id: 1, key_id: Arc::from("key-1") };
    logs::init("info", LogFormat::Json).expect("a filter");
    for _ in 0..CALLS {
        measured_log_line("order-66", "0199a1b2-c3d4-7e5f-8a9b-e3d03be386cc");
        measured_rate_limit_decision(&limiter, &limit_key);
        measured_strict_json_reader(BODY);
        measured_key_and_digest("pet_test_00000000000000000000000000000030gV5m");
        measured_page_token("0102000000000000002a5745c11e");
        measured_json_of_20_pets(&pets);
    }
}

#[inline(never)]
fn measured_log_line(request_id: &str, key_id: &str) {
    log(request_id, key_id);
}

/// Is a function of its own: `info!` makes functions within this one, whose names would stop the count.
fn log(request_id: &str, key_id: &str) {
    let (status, duration_ms, account_id) = (200_u16, 1.25, Some(1_i64));
    tracing::info!(request_id, operation = "getPet", status, duration_ms, account_id, key_id, "answered");
}

#[inline(never)]
fn measured_rate_limit_decision(limiter: &InProcessLimiter, limit_key: &LimitKey) {
    let quota = Quota { per_minute: 60, per_day: 10_000 };
    black_box(limiter.take(limit_key, quota, UnixMillis(0)).now_or_never())
        .expect("it waits for nothing")
        .expect("a decision");
}

#[inline(never)]
fn measured_strict_json_reader(body: &[u8]) {
    black_box(pets::from_json(body)).expect("a pet");
}

#[inline(never)]
fn measured_key_and_digest(written: &str) {
    black_box(ApiKey::parse(written).expect("a key").digest());
}

#[inline(never)]
fn measured_page_token(written: &str) {
    black_box(PageToken::parse(written, 0).expect("a token").to_string());
}

#[inline(never)]
fn measured_json_of_20_pets(pets: &[Pet]) {
    for pet in pets {
        black_box(pets::to_json(pet));
    }
}
