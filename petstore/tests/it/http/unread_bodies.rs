//! Requests that are answered before their body is read.

use std::{fs, time::Duration};

use petstore_testkit::raw;
use tokio::{io::AsyncWriteExt, process::Command, time::sleep};

use super::{HttpsService, whole_answer};
use crate::{petstore, serve};

#[tokio::test]
async fn curl_sees_why_its_body_was_not_read() {
    let shop = HttpsService::open(&[]).await;
    let body = shop.installation.folder().join("body");
    fs::write(&body, "x".repeat(70_000)).unwrap();
    let (data, port) = (format!("@{}", body.display()), shop.server.address("HTTPS").port());
    let key = format!("Authorization: Bearer {}", shop.key());
    for (path, fields, expected) in [
        ("/v1/pets", vec![key.as_str(), "Content-Type: application/json"], "413 2"),
        ("/v1/pets", vec![&key, "Content-Type: text/plain"], "415 2"),
        ("/v1/pets", vec!["Content-Type: application/json"], "401 2"),
        ("/v1/nothing", vec![&key], "404 2"),
        ("/v1/usage", vec![&key], "405 2"),
    ] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--http2", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "--insecure"]);
        curl.args(["--data-binary", &data]);
        for field in fields {
            curl.args(["-H", field]);
        }
        let said = curl.arg(format!("https://127.0.0.1:{port}{path}")).output().await.expect("curl runs");
        assert_eq!(String::from_utf8_lossy(&said.stdout), expected, "{said:?}");
        assert!(said.status.success(), "{said:?}");
    }
}

/// Requests that are answered without reading their body.
const UNREAD: [(&str, &[&str]); 2] = [
    (
        "REST",
        &["POST /v1/pets", "PUT /v1/pets/1", "POST /v1/nothing", "OPTIONS /v1/pets", "GET /openapi.json"],
    ),
    ("admin", &["POST /nothing", "PUT /livez", "GET /readyz", "POST /admin/v1/accounts", "POST /metrics"]),
];

/// Tests a form of request that many clients send.
#[tokio::test]
async fn a_body_that_arrives_after_its_refused_head_costs_no_other_request() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    server.ready().await;
    for (port, requests) in UNREAD {
        let mut stream = raw::connect(server.address(port)).await;
        stream.set_nodelay(true).unwrap();
        for pause in [0, 1, 5, 20].map(Duration::from_millis) {
            for request in requests.iter().chain(requests) {
                let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                sleep(pause).await;
                stream.write_all(b"{\"a\": 1} ").await.unwrap();
                let answer = whole_answer(&mut stream).await;
                if answer.contains("connection: close") {
                    stream = raw::connect(server.address(port)).await; // it took long, and the answer said so
                }
            }
        }
    }
}
