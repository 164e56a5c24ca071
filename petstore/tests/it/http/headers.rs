//! Header fields of every response under /v1, for any status or method.

use petstore_testkit::{Answer, Client, Plan, TestShop, raw};

use crate::{petstore, serve};

const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"];

const PATHS: [&str; 13] = [
    "/v1",
    "/v1/",
    "/v1?x=1",
    "/v1/pets",
    "/v1/pets?limit=0",
    "/v1/pets/",
    "/v1/pets/1",
    "/v1/pets/x",
    "/v1/pets/1/owners",
    "/v1/store/orders",
    "/v1/usage",
    "/v1/nothing",
    "/v1/%ff%00",
];

#[tokio::test]
async fn every_response_under_v1_carries_the_common_fields_once() {
    let shop = TestShop::open().await;
    let revoked = shop.client_on(Plan::Free).await;
    shop.revoke(&revoked).await;
    let exhausted = shop.client_with(1, 1).await;
    exhausted.get("/v1/pets").await.assert_status(200);
    let callers: [(&str, Client, u64); 5] = [
        ("no key", shop.anonymous(), 600),
        ("an invalid key", shop.anonymous().with_key("x"), 600),
        ("a revoked key", revoked, 600),
        ("a valid key", shop.client_on(Plan::Business).await, 1_000),
        ("a key over its limit", exhausted, 1),
    ];
    for (who, client, limit) in callers {
        for method in METHODS {
            for path in PATHS {
                let answer = client.send(method, path, &[], "").await;
                let limit = if method == "OPTIONS" { 600 } else { limit };
                assert_eq!(answer.rate().limit, limit, "{method} {path} with {who}: {answer:?}");
                assert_common(&answer, &format!("{method} {path} with {who}"));
                assert!(answer.status() < 500, "{method} {path} with {who}: {answer:?}");
                if method == "HEAD" {
                    assert_eq!(answer.body(), b"", "{path} with {who}: {answer:?}");
                } else if answer.status() >= 400 {
                    let code = answer.json()["code"].as_str().unwrap_or_default().to_owned();
                    answer.assert_error(answer.status(), &code);
                }
            }
        }
    }
}

#[track_caller]
fn assert_common(answer: &Answer, what: &str) {
    let id = answer.header("x-request-id");
    assert!(is_uuid_v7(id), "{what}: {answer:?}");
    assert_eq!(answer.header("cache-control"), "no-store", "{what}: {answer:?}");
    let (windows, shown) = (both_windows(answer), answer.rate());
    assert!(
        windows.iter().any(|window| [window.limit, window.remaining] == [shown.limit, shown.remaining]),
        "{what}: {answer:?}"
    );
    assert_eq!(answer.find("server"), None, "{what}: {answer:?}");
    if answer.status() == 429 {
        assert!(answer.retry_after() >= 1, "{what}: {answer:?}");
    }
    if answer.status() == 401 {
        assert!(
            answer.header("www-authenticate").starts_with("Bearer realm=\"petstore\""),
            "{what}: {answer:?}"
        );
    }
}

/// Window in `RateLimit` and `RateLimit-Policy`.
#[derive(Debug)]
struct Window {
    limit: u64,
    remaining: u64,
}

/// Returns both windows, read only by the draft and by structured fields (RFC 9651).
#[track_caller]
fn both_windows(answer: &Answer) -> [Window; 2] {
    let [policies, states] = ["ratelimit-policy", "ratelimit"].map(|field| {
        let list = sfv::Parser::new(answer.header(field)).parse::<sfv::List>();
        list.unwrap_or_else(|error| panic!("{field} ({error}): {answer:?}"))
    });
    assert_eq!((policies.len(), states.len()), (2, 2), "{answer:?}");
    [("minute", 60), ("day", 86_400)].map(|(name, length)| {
        let [limit, window] = parameters(&policies, name, ["q", "w"]);
        let [remaining, resets_in] = parameters(&states, name, ["r", "t"]);
        assert_eq!(window, length, "{answer:?}");
        assert!(remaining <= limit && resets_in <= window.max(86_400), "{answer:?}");
        Window { limit, remaining }
    })
}

/// Returns all parameters of the list's item of that name, each an integer that is not negative.
#[track_caller]
fn parameters<const N: usize>(list: &sfv::List, name: &str, keys: [&str; N]) -> [u64; N] {
    let named = |item: &&sfv::Item| item.bare_item.as_string().is_some_and(|text| text.as_str() == name);
    let mut items = list.iter().filter_map(|entry| match entry {
        sfv::ListEntry::Item(item) => Some(item),
        sfv::ListEntry::InnerList(_) => None,
    });
    let Some(item) = items.find(named) else { panic!("no {name} in {list:?}") };
    assert_eq!(item.params.len(), N, "{list:?}");
    keys.map(|key| {
        let value = item.params.get(key).and_then(sfv::BareItem::as_integer).map(i64::from);
        value
            .and_then(|value| u64::try_from(value).ok())
            .unwrap_or_else(|| panic!("{name};{key} in {list:?}"))
    })
}

#[tokio::test]
async fn every_error_links_to_the_page_about_its_code() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Business).await;
    let over_limit = shop.client_with(1, 1).await;
    over_limit.get("/v1/pets").await.assert_status(200);
    for (client, method, path) in [
        (&shop.anonymous(), "GET", "/v1/pets"),
        (&shop.anonymous().with_key("x"), "GET", "/v1"),
        (&over_limit, "GET", "/v1/pets"),
        (&client, "GET", "/v1/nothing"),
        (&client, "HEAD", "/v1/pets/99"),
        (&client, "GET", "/v1/pets/99"),
        (&client, "PUT", "/v1/pets"),
        (&client, "POST", "/v1/pets"),
        (&client, "GET", "/v1/pets?limit=0"),
        (&client, "GET", "/v1/pets?cursor=x"),
    ] {
        let answer = client.send(method, path, &[], "").await;
        let links = answer.values("link");
        let help: Vec<_> = links.iter().filter(|link| link.ends_with("; rel=\"help\"")).collect();
        assert_eq!(help.len(), 1, "{method} {path}: {answer:?}");
        let page = help[0].trim_start_matches('<').split('>').next().unwrap_or_default();
        if method != "HEAD" {
            assert_eq!(
                page,
                format!("/docs/errors/{}", answer.json()["code"].as_str().unwrap()),
                "{answer:?}"
            );
        }
        shop.anonymous().get(page).await.assert_status(200);
        let is_deprecated = links.iter().any(|link| link.ends_with("; rel=\"successor-version\""));
        assert_eq!(is_deprecated, path.starts_with("/v1/pets/"), "{method} {path}: {answer:?}");
    }
    let found = client.get("/v1/pets").await;
    assert_eq!(found.assert_status(200).values("link"), [""; 0], "{found:?}");
}

#[tokio::test]
async fn programs_find_the_description_of_the_interface_without_a_key() {
    let shop = TestShop::open().await;
    let client = shop.anonymous();
    let described = "</openapi.json>; rel=\"service-desc\"; type=\"application/json\", \
                     </docs>; rel=\"service-doc\"; type=\"text/html\", \
                     </.well-known/api-catalog>; rel=\"api-catalog\"";
    for (method, path, status) in [
        ("GET", "/", 302),
        ("HEAD", "/", 302),
        ("GET", "/docs", 200),
        ("HEAD", "/docs", 200),
        ("GET", "/.well-known/api-catalog", 200),
        ("HEAD", "/.well-known/api-catalog", 200),
    ] {
        let answer = client.send(method, path, &[], "").await;
        assert_eq!((answer.status(), answer.values("link")), (status, vec![described]), "{method} {path}");
    }
    for path in ["/.well-known/api-catalog", "/llms.txt", "/docs/paging.md"] {
        let found = client.get(path).await;
        assert_eq!(found.assert_status(200).header("cache-control"), "no-cache", "{path}: {found:?}");
        assert_eq!(found.find("x-ratelimit-limit"), None, "{path}: {found:?}");
        let unchanged = [("if-none-match", found.header("etag"))];
        client.send("GET", path, &unchanged, "").await.assert_status(304);
        let head = client.send("HEAD", path, &[], "").await;
        let length = found.body().len().to_string();
        assert_eq!((head.status(), head.header("content-length")), (200, &*length), "{path}: {head:?}");
        let refused = client.send("POST", path, &[], "").await;
        assert_eq!((refused.status(), refused.header("allow")), (405, "GET, HEAD, OPTIONS"), "{path}");
    }
}

fn is_uuid_v7(id: &str) -> bool {
    let groups: Vec<&str> = id.split('-').collect();
    let hexadecimal = id.chars().all(|letter| matches!(letter, '0'..='9' | 'a'..='f' | '-'));
    hexadecimal
        && groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups[2].starts_with('7')
        && groups[3].starts_with(['8', '9', 'a', 'b'])
}

#[tokio::test]
async fn every_answer_has_one_content_type() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    server.ready().await;
    let token = installation.read("data/first-operator-token");
    let (key, of_console) = (installation.read("data/first-api-key"), "Petstore-Console: 1\r\n");
    let bearer = |secret: &str| format!("Authorization: Bearer {}\r\n", secret.trim());
    let sign_in = format!("{{\"token\": \"{}\"}}", token.trim());
    let json = "Content-Type: application/json\r\n";
    for (port, request, fields, body) in [
        ("REST", "GET /", "", ""),
        ("REST", "GET /docs", "", ""),
        ("REST", "GET /docs/nothing", "", ""),
        ("REST", "GET /openapi.json", "", ""),
        ("REST", "GET /v1/pets", "", ""),
        ("REST", "GET /v1/pets", &bearer(&key), ""),
        (
            "REST",
            "POST /v1/pets",
            &format!("{}{json}", bearer(&key)),
            "{\"name\": \"Rex\", \"categoryId\": 1}",
        ),
        ("REST", "POST /v1/pets", &bearer(&key), "{"),
        ("admin", "GET /livez", "", ""),
        ("admin", "GET /readyz", "", ""),
        ("admin", "GET /metrics", "", ""),
        ("admin", "GET /log-level", "", ""),
        ("admin", "PUT /log-level", "", "no level="),
        ("admin", "GET /nothing", "", ""),
        ("admin", "GET /admin/v1/accounts", "", ""),
        ("admin", "GET /admin/v1/accounts", &bearer(&token), ""),
        ("admin", "GET /admin/v1/openapi.json", "", ""),
        ("admin", "POST /admin/v1/accounts", &format!("{}{json}", bearer(&token)), "{}"),
        ("admin", "GET /console", "", ""),
        ("admin", "POST /console/session", "", ""),
        ("admin", "POST /console/session", &format!("{of_console}{json}"), "{}"),
        ("admin", "POST /console/session", &format!("{of_console}{json}"), &sign_in),
        ("admin", "GET /console/api/accounts", of_console, ""),
    ] {
        let len = body.len();
        let request = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\
             Content-Length: {len}\r\n\r\n{body}"
        );
        let answer = raw::answer(&raw::exchange(server.address(port), request.as_bytes()).await);
        let expected = usize::from(!answer.body().is_empty());
        assert_eq!(answer.values("content-type").len(), expected, "{request}: {answer:?}");
    }
}
