//! REST over HTTPS, with HTTP/1.1 and HTTP/2.

use std::{fs, time::Duration};

use petstore_testkit::{Authority, Client, Protocol, Tls, eventually, raw};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::sleep,
};

use super::HttpsService;
use crate::{is_long, metric, pets::created, petstore, serve};

/// Time within which a new certificate must be in use.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn both_versions_of_http_keep_the_same_promises() {
    let shop = HttpsService::open(&[]).await;
    for protocol in Protocol::ALL {
        let client = shop.client(protocol);
        let id = created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": i64::MAX})).await);
        let got = client.get(&format!("/v1/pets/{id}")).await;
        assert_eq!(got.assert_status(200).json()["categoryId"], i64::MAX, "{got:?}");
        assert_eq!(got.header("deprecation"), "@1764892800");
        let listed = client.get("/v1/pets?limit=1").await;
        assert_eq!(listed.assert_status(200).rate().limit, 60, "{listed:?}");
        assert_eq!(listed.header("cache-control"), "no-store");
        assert!(!listed.header("x-request-id").is_empty(), "{listed:?}");

        client.get("/v1/pets?limit=0").await.assert_error(400, "INVALID_PARAMETER");
        client.post_text("/v1/pets", "{").await.assert_error(400, "MALFORMED_JSON");
        client.post_text("/v1/pets", &"x".repeat(70_000)).await.assert_error(413, "BODY_TOO_LARGE");
        client.get("/v1/nothing").await.assert_error(404, "ROUTE_NOT_FOUND");
        client.send("PUT", "/v1/pets", &[], "").await.assert_error(405, "METHOD_NOT_ALLOWED");
        let head = client.send("HEAD", "/v1/pets", &[], "").await;
        assert_eq!((head.assert_status(200).body(), head.rate().limit), (&b""[..], 60), "{head:?}");
        shop.anonymous(protocol).get("/v1/pets").await.assert_error(401, "MISSING_API_KEY");
    }
    let metrics = shop.server.admin().get("/metrics").await;
    let created = "http_server_request_duration_seconds_count{http_request_method=\"POST\",\
                   http_response_status_code=\"201\",http_route=\"/v1/pets\",operation=\"createPet\",\
                   url_scheme=\"https\"} 2\n";
    assert!(metrics.text().contains(created), "{}", metrics.text());
}

#[tokio::test]
async fn both_versions_of_http_refuse_the_same_heads() {
    let shop = HttpsService::open(&[]).await;
    for protocol in Protocol::ALL {
        let client = shop.client(protocol);
        let long = |len: usize| format!("/v1/pets?x={}", "y".repeat(len - 11));
        client.get(&long(8_192)).await.assert_status(200);
        client.get(&long(8_193)).await.assert_error(414, "URI_TOO_LONG");
        let many = (0..100)
            .fold(client.clone(), |client, number| client.with_header("x-field", &number.to_string()));
        many.get("/v1/pets").await.assert_error(431, "HEADERS_TOO_LARGE");
        let large = client.with_header("x-field", &"v".repeat(33 * 1_024));
        large.get("/v1/pets").await.assert_error(431, "HEADERS_TOO_LARGE");
        // In HTTP/1.1 this is a second Host; in HTTP/2 one that contradicts the authority.
        let refused = client.with_header("host", "other.example").get("/v1/pets").await;
        refused.assert_error(400, "INVALID_REQUEST");
    }
    let agreeing =
        shop.client(Protocol::Http2).with_header("host", &shop.server.address("HTTPS").to_string());
    agreeing.get("/v1/pets").await.assert_status(200);
    let too_large = shop.client(Protocol::Http2).with_header("x-field", &"v".repeat(70 * 1_024));
    let too_many =
        (0..129).fold(shop.client(Protocol::Http1), |client, _| client.with_header("x-field", "v"));
    for refused in [too_large, too_many] {
        let refused = refused.get("/v1/pets").await;
        assert_eq!(refused.assert_status(431).text(), "", "refused before there is a request");
    }
}

#[tokio::test]
async fn requests_share_one_connection_of_http_2() {
    let shop = HttpsService::open(&[]).await;
    let answers = shop.client(Protocol::Http2).sends(61, "/v1/pets").await;
    let refused = answers.iter().filter(|answer| answer.status() == 429).count();
    assert_eq!(refused, 1, "the sixty-first request of a minute");
}

#[tokio::test]
async fn the_plain_and_the_https_port_refuse_each_others_protocol() {
    let shop = HttpsService::open(&[]).await;
    let plain = b"GET /v1/pets HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = raw::exchange(shop.server.address("HTTPS"), plain).await;
    assert!(!answer.starts_with(b"HTTP/"), "{}", String::from_utf8_lossy(&answer));
    let tls = Tls::trusting(&shop.authority, Protocol::Http1);
    tls.connect(shop.server.address("REST")).await.expect_err("a handshake with the plain port");
}

#[tokio::test]
async fn the_plain_port_can_be_switched_off() {
    let shop = HttpsService::open(&["--http-addr", "off"]).await;
    assert!(!shop.server.stdout().contains("REST"), "{}", shop.server.stdout());
    shop.client(Protocol::Http2).get("/v1/pets").await.assert_status(200);
    let exit = shop.server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");

    let exit = petstore().run(&["serve", "--http-addr", "off"]).await;
    assert_eq!(exit.code, Some(2), "{exit:?}");
    assert!(exit.stderr.contains("--http-addr") && exit.stderr.contains("--https-addr"), "{exit:?}");
}

#[tokio::test]
async fn a_new_certificate_is_used_and_an_invalid_one_is_not() {
    let shop = HttpsService::open(&[]).await;
    let (other, address) = (Authority::new(), shop.server.address("HTTPS"));
    let new = other.issue("127.0.0.1");
    let tls = Tls::trusting(&other, Protocol::Http2);
    tls.connect(address).await.expect_err("it is not in use yet");
    let kept = shop.client(Protocol::Http1);

    fs::write(&shop.certificate.file, "not a certificate").unwrap();
    let line = "cannot reload the HTTPS certificate";
    eventually(RELOAD_TIMEOUT, async || {
        let log = shop.server.stderr();
        if log.contains(line) { Ok(()) } else { Err(log) }
    })
    .await;
    kept.get("/v1/pets").await.assert_status(200);
    assert!(shop.expiry().await > 0, "the end of the one in use");

    fs::copy(&new.key_file, &shop.certificate.key_file).unwrap();
    fs::copy(&new.file, &shop.certificate.file).unwrap();
    eventually(RELOAD_TIMEOUT, async || {
        tls.connect(address).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    assert!(shop.server.stderr().matches(line).count() <= 2, "{}", shop.server.stderr());
}

#[tokio::test]
async fn a_certificate_that_is_replaced_while_the_service_starts_is_used() {
    let (authority, other, installation) = (Authority::new(), Authority::new(), petstore());
    let (certificate, new) = (authority.issue("127.0.0.1"), other.issue("127.0.0.1"));
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap(); // a Redis that does not answer
    let redis = format!("redis://{}", silent.local_addr().unwrap());
    let flags = ["--https-addr", "127.0.0.1:0", "--https-cert", &certificate.file, "--https-key"];
    let flags = [flags.as_slice(), &[&certificate.key_file, "--redis-url", &redis]].concat();
    let replaced = async {
        let asked = silent.accept().await.unwrap(); // the files have been read, and nothing is served yet
        fs::copy(&new.key_file, &certificate.key_file).unwrap();
        fs::copy(&new.file, &certificate.file).unwrap();
        asked
    };
    let (args, tls) = (serve(&flags), Tls::trusting(&other, Protocol::Http2));
    let (server, _asked) = tokio::join!(installation.start(&args), replaced);
    eventually(RELOAD_TIMEOUT, async || {
        tls.connect(server.address("HTTPS")).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test]
async fn a_client_that_does_not_begin_the_handshake_is_closed() {
    let shop = HttpsService::open(&[]).await;
    let mut silent = raw::connect(shop.server.address("HTTPS")).await;
    shop.client(Protocol::Http2).get("/v1/pets").await.assert_status(200);
    let mut read = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(15), silent.read_to_end(&mut read)).await;
    assert!(end.is_ok(), "still open");
}

#[tokio::test]
async fn silent_connections_do_not_delay_the_stop() {
    let shop = HttpsService::open(&["--drain-deadline", "3s"]).await;
    let address = shop.server.address("HTTPS");
    let mut open = Vec::new();
    for protocol in Protocol::ALL {
        open.push(Tls::trusting(&shop.authority, protocol).connect(address).await.unwrap());
    }
    let _before_the_handshake = raw::connect(address).await;
    shop.client(Protocol::Http2).get("/v1/pets").await.assert_status(200);
    let exit = shop.server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    // Well before the default drain deadline (20 s) or the idle timeout of connections (75 s).
    assert!(exit.took < Duration::from_secs(15), "{exit:?}");
}

#[tokio::test]
async fn an_idle_client_of_http_2_that_reads_nothing_does_not_delay_the_stop() {
    let shop = HttpsService::open(&[]).await;
    let tls = Tls::trusting(&shop.authority, Protocol::Http2);
    let mut unread = tls.connect(shop.server.address("HTTPS")).await.unwrap();
    unread.write_all(&http2_greeting()).await.unwrap();
    shop.client(Protocol::Http2).get("/v1/pets").await.assert_status(200);
    let exit = shop.server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(exit.took < Duration::from_secs(15), "{exit:?}"); // the drain deadline is 20 s
}

/// Tests a client that does not answer pings, such as one that reads only while it waits for an answer.
#[tokio::test]
async fn an_idle_client_of_http_2_that_reads_nothing_stays_connected() {
    let shop = HttpsService::open(&[]).await;
    let tls = Tls::trusting(&shop.authority, Protocol::Http2);
    let mut unread = tls.connect(shop.server.address("HTTPS")).await.unwrap();
    unread.write_all(&http2_greeting()).await.unwrap();
    // Its one request: HEADERS on stream 1, with `GET`, `https`, and literally `:path` and `:authority`.
    unread.write_all(b"\0\0\x0f\x01\x05\0\0\0\x01\x82\x87\x04\x08/v1/pets\x01\x01h").await.unwrap();
    // A PING without an answer would end it after 20 seconds.
    sleep(Duration::from_secs(if is_long() { 60 } else { 25 })).await;
    assert_eq!(metric(&shop.server, "petstore_connections_open").await, 1);
}

/// Returns the preface of a client, with empty settings.
fn http2_greeting() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat()
}

#[tokio::test]
async fn invalid_https_settings_are_named() {
    let (authority, installation) = (Authority::new(), petstore());
    let one = authority.issue("a");
    for (flags, named) in [
        (["--https-addr", "127.0.0.1:0"].as_slice(), "--https-cert"),
        (&["--https-addr", "127.0.0.1:0", "--https-cert", &one.file], "--https-key"),
        (&["--https-cert", &one.file, "--https-key", &one.key_file], "--https-addr"),
    ] {
        let exit = installation.run(&serve(flags)).await;
        exit.assert_refused(2, &[named]);
        assert!(!installation.folder().join("data").exists(), "{flags:?}: a store was made for nothing");
    }
}

#[tokio::test]
async fn an_invalid_certificate_or_key_file_is_named() {
    let (authority, installation) = (Authority::new(), petstore());
    let (one, other) = (authority.issue("a"), authority.issue("b"));
    fs::write(installation.folder().join("junk"), "junk").unwrap();
    for (certificate, key, is_in_key_file, fault) in [
        (one.file.as_str(), other.key_file.as_str(), true, "holds the key of another certificate"),
        (&one.file, "junk", true, "holds no private key"),
        (&one.file, "nothing", true, "no such file"),
        ("junk", &one.key_file, false, "holds no certificate"),
        ("nothing", &one.key_file, false, "no such file"),
        (&one.key_file, &one.file, false, "holds no certificate"),
    ] {
        let ports = |names: &str| {
            names.split(' ').map(|name| format!("--{name}-addr=127.0.0.1:0")).collect::<Vec<_>>()
        };
        let core = ["--core-url=https://127.0.0.1:1".to_owned(), format!("--core-ca={}", authority.file())];
        for (verb, settings, flags) in [
            ("serve", ports("https http grpc admin"), ["--https-cert", "--https-key"]),
            ("core", ports("grpc admin"), ["--tls-cert", "--tls-key"]),
            ("gateway", [ports("http admin"), core.to_vec()].concat(), ["--core-cert", "--core-key"]),
        ] {
            let settings = settings.iter().map(String::as_str);
            let args: Vec<&str> =
                [verb].into_iter().chain(settings).chain([flags[0], certificate, flags[1], key]).collect();
            let exit = installation.run(&args).await;
            let blamed = format!("error: {}: ", flags[usize::from(is_in_key_file)]);
            assert_eq!(exit.code, Some(2), "{args:?}: {exit:?}");
            assert!(exit.stderr.starts_with(&blamed) && exit.stderr.contains(fault), "{args:?}: {exit:?}");
        }
    }
}

/// Paths of the REST ports and of the admin ports, each of another route or failure.
const PATHS: [(&str, &str); 24] = [
    ("REST", "/"),
    ("REST", "/docs"),
    ("REST", "/docs/"),
    ("REST", "/docs/paging"),
    ("REST", "/docs/paging.md"),
    ("REST", "/docs/nothing"),
    ("REST", "/openapi.json"),
    ("REST", "/llms.txt"),
    ("REST", "/.well-known/api-catalog"),
    ("REST", "/v1/pets"),
    ("REST", "/v1/pets/7"),
    ("REST", "/v1/nothing"),
    ("REST", "/nothing"),
    ("admin", "/"),
    ("admin", "/livez"),
    ("admin", "/readyz"),
    ("admin", "/log-level"),
    ("admin", "/console"),
    ("admin", "/console/nothing"),
    ("admin", "/console/api/accounts"),
    ("admin", "/admin/v1/accounts"),
    ("admin", "/admin/v1/nothing"),
    ("admin", "/admin/v1/openapi.json"),
    ("admin", "/nothing"),
];

#[tokio::test]
async fn every_response_of_every_port_forbids_sniffing_and_over_https_names_the_time_of_hsts() {
    let authority_of_admin = Authority::new();
    let admin_certificate = authority_of_admin.issue("127.0.0.1");
    let admin = ["--admin-https-addr", "127.0.0.1:0", "--admin-https-cert", &admin_certificate.file];
    let flags =
        [&admin[..], &["--admin-https-key", &admin_certificate.key_file, "--hsts", "31535999500ms"]].concat();
    let shop = HttpsService::open(&flags).await;
    for (port, path) in PATHS {
        let (authority, secure) =
            if port == "REST" { (&shop.authority, "HTTPS") } else { (&authority_of_admin, "admin-https") };
        let [plain, secure] = [port, secure].map(|port| Client::new(shop.server.address(port)));
        let [http1, http2] = Protocol::ALL.map(|protocol| secure.clone().over_tls(authority, protocol));
        for (client, hsts) in
            [(plain, None), (http1, Some("max-age=31536000")), (http2, Some("max-age=31536000"))]
        {
            let client = if port == "REST" { client.with_key(&shop.key()) } else { client };
            let get = client.get(path).await;
            for method in ["GET", "HEAD", "OPTIONS", "POST", "DELETE"] {
                let answer = client.send(method, path, &[], "").await;
                let what = format!("{method} {path} of {port}: {answer:?}");
                assert_eq!(answer.values("x-content-type-options"), ["nosniff"], "{what}");
                assert_eq!(answer.find("strict-transport-security"), hsts, "{what}");
                if method == "HEAD" {
                    for field in ["content-type", "content-length"] {
                        assert_eq!(answer.find(field), get.find(field), "{field} of {what}");
                    }
                }
            }
        }
    }
}
