//! Metrics at `/metrics` on the admin port.

use std::{env, fmt::Write as _, fs, time::Duration};

use petstore_testkit::{Client, Engine, Plan, TestShop, eventually, raw};
use serde_json::json;

use crate::{calls_answered, pets::created};

#[tokio::test]
async fn a_request_is_counted_by_operation_plan_and_code() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Pro).await;
    let id = created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    client.get("/v1/pets").await.assert_status(200);
    client.send("HEAD", "/v1/pets?limit=1", &[], "").await.assert_status(200);
    client.get(&format!("/v1/pets/{id}")).await.assert_status(200);
    client.get("/v1/pets/404404").await.assert_status(404);
    client.get("/v1/nothing").await.assert_status(404);
    shop.anonymous().post("/v1/pets", &json!({})).await.assert_status(401);
    shop.anonymous().send("OPTIONS", "/v1/pets", &[], "").await.assert_status(204);
    shop.anonymous().get("/openapi.json").await.assert_status(200);

    let metrics = Metrics::of(&shop.admin()).await;
    for (operation, plan, code, count) in [
        ("createPet", "pro", "OK", 1),
        ("listPets", "pro", "OK", 2),
        ("getPet", "pro", "OK", 1),
        ("getPet", "pro", "PET_NOT_FOUND", 1),
        ("unmatched", "pro", "ROUTE_NOT_FOUND", 1),
        ("createPet", "none", "MISSING_API_KEY", 1),
        ("options", "none", "OK", 1),
        ("openapi", "none", "OK", 1),
    ] {
        let series = format!(
            r#"petstore_requests_total{{code="{code}",operation="{operation}",plan="{plan}"}} {count}"#
        );
        metrics.assert_line(&series);
    }
    metrics.assert_line(
        "http_server_request_duration_seconds_count{http_request_method=\"GET\",\
         http_response_status_code=\"404\",http_route=\"/v1/pets/{petId}\",operation=\"getPet\",\
         url_scheme=\"http\"} 1",
    );
    Metrics::until(&shop.admin(), |metrics| metrics.value("http_server_active_requests") < 1.0).await;
}

#[tokio::test]
async fn accounts_near_and_over_their_limit_are_counted() {
    let shop = TestShop::open().await;
    let client = shop.client_with(10, 1_000).await;
    client.sends(12, "/v1/pets").await;
    shop.anonymous().get("/v1/pets").await.assert_status(401);

    let metrics = Metrics::of(&shop.admin()).await;
    for (subject, outcome, count) in
        [("account", "admitted", 10), ("account", "rate_limited", 2), ("address", "admitted", 1)]
    {
        metrics.assert_line(&format!(
            "petstore_limiter_decisions_total{{outcome=\"{outcome}\",scope=\"shared\",\
             subject=\"{subject}\"}} {count}"
        ));
    }
    metrics.assert_line(r#"petstore_limiter_near_limit_total{window="minute"} 3"#); // the 8th, 9th and 10th
    metrics.assert_none("petstore_limiter_near_limit_total{window=\"day\"}");
    metrics.assert_line(
        r#"petstore_requests_total{code="RATE_LIMITED",operation="listPets",plan="enterprise"} 2"#,
    );
}

#[tokio::test]
async fn strikes_and_the_bans_that_they_bring_are_counted() {
    let shop = TestShop::open().await;
    let client = shop.client_with(1, 1_000).await;
    let assert_counts = async |strikes, bans| {
        let metrics = Metrics::of(&shop.admin()).await;
        metrics.assert_line(&format!("petstore_limiter_strikes_total {strikes}"));
        metrics.assert_line(&format!("petstore_limiter_bans_total {bans}"));
    };
    client.sends(3, "/v1/pets").await; // one is admitted, one refused, one was in flight
    assert_counts(0, 0).await;
    shop.advance(Duration::from_secs(1));
    client.sends(100, "/v1/pets").await;
    assert_counts(100, 0).await;
    client.sends(5, "/v1/pets").await; // the first of them is banned
    assert_counts(101, 1).await;
}

#[tokio::test]
async fn a_key_is_looked_up_once_and_then_remembered() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    client.sends(5, "/v1/pets").await;
    let metrics = Metrics::of(&shop.admin()).await;
    metrics.assert_line(r#"petstore_key_cache_requests_total{result="miss"} 1"#);
    metrics.assert_line(r#"petstore_key_cache_requests_total{result="hit"} 4"#);
    metrics.assert_line(r#"petstore_key_lookups_total{result="found"} 1"#);
}

#[tokio::test]
async fn calls_statements_and_connections_are_counted() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    client.get("/v1/pets/404404").await.assert_status(404);

    let metrics = Metrics::of(&shop.admin()).await;
    metrics.assert_line(
        "rpc_server_call_duration_seconds_count{rpc_method=\"GetPet\",\
         rpc_response_status_code=\"NOT_FOUND\",rpc_system_name=\"grpc\"} 1",
    );
    assert_eq!(calls_answered(&shop.admin(), "CreatePet").await, 1);
    metrics.assert_line(r#"petstore_rpc_failures_total{code="PET_NOT_FOUND",rpc_method="GetPet"} 1"#);
    let (system, pool) = match Engine::of_this_run() {
        Engine::Sqlite => ("sqlite", "writer"),
        Engine::Postgres => ("postgresql", "creates"),
    };
    let statements = |operation| {
        format!(
            "db_client_operation_duration_seconds_count{{db_operation_name=\"{operation}\",\
             db_system_name=\"{system}\"}}"
        )
    };
    // Reports of usage are statements too, and are sent periodically.
    for (operation, least) in [("INSERT", 1.0), ("SELECT", 2.0)] {
        assert!(metrics.value(&statements(operation)) >= least, "{operation}: {}", metrics.0);
    }
    metrics.assert_none("petstore_db_failures_total");
    let idle = format!(
        "petstore_db_connections{{db_client_connection_pool_name=\"{pool}\",\
         db_client_connection_state=\"idle\"}}"
    );
    Metrics::until(&shop.admin(), |metrics| metrics.value(&idle) >= 1.0).await;
    metrics.assert_line("petstore_connections_accepted_total 2");
    metrics.assert_line("petstore_connections_refused_total 0");
}

#[tokio::test]
async fn a_cursor_beside_an_invalid_limit_is_judged_without_a_call() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for _ in 0..2 {
        created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    }
    let cursor = client.get("/v1/pets?limit=1").await.header("x-next-cursor").to_owned();
    let limit = "limit must be a whole number from 1 to 100";
    for (query, faults) in [
        (format!("limit=0&cursor={cursor}"), limit.to_owned()),
        (format!("limit=101&cursor={cursor}"), limit.to_owned()),
        (
            format!("limit=0&status=sold&cursor={cursor}"),
            format!("{limit}; cursor belongs to a list with another filter"),
        ),
    ] {
        let refused = client.get(&format!("/v1/pets?{query}")).await;
        refused.assert_error(400, "INVALID_PARAMETER");
        assert_eq!(refused.message(), faults, "{query}");
    }
    let metrics = Metrics::of(&shop.admin()).await;
    assert_eq!(calls_answered(&shop.admin(), "ListPets").await, 1);
    metrics.assert_none(r#"petstore_rpc_failures_total{code="INVALID_PARAMETER",rpc_method="ListPets"}"#);
}

#[tokio::test]
async fn the_process_reports_its_memory_files_and_version() {
    let shop = TestShop::open().await;
    let metrics = Metrics::of(&shop.admin()).await;
    metrics.assert_line(&format!("petstore_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"] {
        assert!(metrics.value(name) > 0.0, "{name} in {}", metrics.0);
    }
}

#[tokio::test]
async fn readiness_and_the_disk_of_the_store_are_metrics() {
    let shop = TestShop::open().await;
    let up = ["core", "database", "limiter"].map(|part| format!("petstore_part_up{{part=\"{part}\"}} 1"));
    // A busy machine may be too late for the database to count as up.
    Metrics::until(&shop.admin(), |metrics| {
        metrics.has_line("petstore_ready 1") && up.iter().all(|line| metrics.has_line(line))
    })
    .await;
    let metrics = Metrics::of(&shop.admin()).await;
    if Engine::of_this_run() == Engine::Sqlite {
        let [available, size] =
            ["available", "size"].map(|name| metrics.value(&format!("petstore_store_disk_{name}_bytes")));
        assert!(0.0 < available && available <= size, "{available} of {size}");
    }
    let gateway = [
        "gateway",
        "--core-url",
        "http://127.0.0.1:1",
        "--http-addr",
        "127.0.0.1:0",
        "--admin-addr",
        "127.0.0.1:0",
    ];
    let installation = crate::petstore();
    let gateway = installation.start(&gateway).await;
    let metrics = Metrics::of(&gateway.admin()).await;
    metrics.assert_line("petstore_ready 0");
    metrics.assert_line("petstore_part_up{part=\"core\"} 0");
}

#[tokio::test]
async fn text_from_clients_never_becomes_a_metric_label() {
    let shop = TestShop::open().await;
    let valid = shop.client_on(Plan::Business).await;
    for batch in 0..10 {
        let mut requests = String::new();
        for number in 0..100 {
            let n = batch * 100 + number;
            let last = if number == 99 { "Connection: close\r\n" } else { "" };
            let key = if n % 2 == 0 { valid.key() } else { "pet_live_stranger0000000000000000000000000000" };
            let method = if n % 3 == 0 { "GET".to_owned() } else { format!("STRANGE{n}") };
            write!(
                requests,
                "{method} /v1/stranger-{n}/pets?stranger={n} HTTP/1.1\r\nHost: h\r\n\
                 X-Request-Id: stranger-{n:08}\r\nUser-Agent: stranger/{n}\r\n\
                 Authorization: Bearer {key}\r\n{last}\r\n"
            )
            .unwrap();
        }
        let answers = raw::exchange(valid.address(), requests.as_bytes()).await;
        let answered = String::from_utf8_lossy(&answers).matches("HTTP/1.1 ").count();
        assert_eq!(answered, 100);
    }
    let metrics = Metrics::of(&shop.admin()).await;
    let series = metrics.0.lines().filter(|line| !line.starts_with('#')).count();
    assert!((20..1_000).contains(&series), "{series} series");
    assert!(!metrics.0.to_lowercase().contains("strange"), "{}", metrics.0);
    metrics.assert_line(
        r#"petstore_requests_total{code="ROUTE_NOT_FOUND",operation="unmatched",plan="business"} 500"#,
    );
}

/// Checks the table. With `UPDATE_PAGES=1` in its environment this test writes it instead.
#[tokio::test]
async fn every_metric_is_on_the_page_about_monitoring() {
    let shop = TestShop::open().await;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/prometheus/README.md");
    let guide = fs::read_to_string(page).unwrap();
    let (before, rest) = guide.split_once("<!-- metrics:begin -->\n").unwrap();
    let (written, after) = rest.split_once("<!-- metrics:end -->").unwrap();
    let current = shop.metrics_table();
    if env::var_os("UPDATE_PAGES").is_some() {
        let page_with = format!("{before}<!-- metrics:begin -->\n{current}<!-- metrics:end -->{after}");
        fs::write(page, page_with).unwrap();
    } else {
        assert!(written == current, "the table of metrics is not the current one; UPDATE_PAGES=1 writes it");
    }

    shop.anonymous().get("/v1/pets").await.assert_status(401);
    let metrics = Metrics::of(&shop.admin()).await;
    for shown in metrics.0.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = shown.split_once(' ').unwrap();
        assert!(current.contains(&format!("| `{name}` | {kind} |")), "{shown}");
    }
}

/// Text of a scrape.
struct Metrics(String);

impl Metrics {
    async fn of(admin: &Client) -> Self {
        let answer = admin.get("/metrics").await;
        assert_eq!(answer.assert_status(200).header("content-type"), "text/plain; version=0.0.4");
        Self(answer.text().to_owned())
    }

    /// Waits until `is_so` holds, for values that change shortly after an answer.
    async fn until(admin: &Client, is_so: impl Fn(&Self) -> bool) {
        eventually(Duration::from_secs(20), async || {
            let metrics = Self::of(admin).await;
            if is_so(&metrics) { Ok(()) } else { Err(metrics.0) }
        })
        .await;
    }

    fn has_line(&self, line: &str) -> bool {
        self.0.lines().any(|present| present == line)
    }

    #[track_caller]
    fn assert_line(&self, line: &str) {
        assert!(self.has_line(line), "{line} is not in {}", self.0);
    }

    #[track_caller]
    fn assert_none(&self, start: &str) {
        assert!(!self.0.contains(start), "{start} is in {}", self.0);
    }

    #[track_caller]
    fn value(&self, series: &str) -> f64 {
        let line = self.0.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series} is not in {}", self.0)).parse().unwrap()
    }
}
