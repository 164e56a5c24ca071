//! A base address with a path before `/v1`, which a proxy removes.

use std::collections::BTreeSet;

use petstore_testkit::{Answer, Client, Plan, TestShop};
use serde_json::json;

const PREFIX: &str = "/api/store";
const PROXIED: [&str; 2] = ["--trusted-proxy", "127.0.0.1"];

fn below(client: &Client) -> Client {
    client.with_header("x-forwarded-prefix", PREFIX)
}

/// Returns all paths in `Location` and `Link`.
fn references(answer: &Answer) -> Vec<String> {
    let links = answer.values("link").join(", ");
    let targets = links.split('<').skip(1).map(|link| link.split('>').next().unwrap().to_owned());
    answer.find("location").map(str::to_owned).into_iter().chain(targets).collect()
}

#[tokio::test]
async fn every_reference_of_a_response_leads_to_the_same_service() {
    let shop = TestShop::open_with(&PROXIED).await;
    let direct = shop.client_on(Plan::Business).await;
    let client = below(&direct);
    let pet = json!({"name": "Rex", "categoryId": 1});
    direct.post("/v1/pets", &pet).await.assert_status(201);
    for (method, path, status) in [
        ("POST", "/v1/pets", 201),
        ("GET", "/v1/pets?limit=1", 200),
        ("GET", "/v1/pets/1", 200),
        ("GET", "/v1/pets/404", 404),
        ("GET", "/v1/nothing", 404),
        ("PUT", "/v1/pets", 405),
        ("GET", "/v1/pets?limit=0", 400),
        ("GET", "/docs", 200),
        ("GET", "/", 302),
        ("GET", "/.well-known/api-catalog", 200),
        ("GET", "/nothing", 404),
    ] {
        let body = if method == "POST" { pet.to_string() } else { String::new() };
        let plain = direct.send(method, path, &[], body.clone()).await;
        let prefixed = client.send(method, path, &[], body).await;
        prefixed.assert_status(status);
        let references = references(&prefixed);
        assert!(!references.is_empty(), "{method} {path}: {prefixed:?}");
        for reference in &references {
            let inner = reference.strip_prefix(PREFIX).unwrap_or_else(|| panic!("{reference} of {path}"));
            let found = direct.get(inner).await;
            assert!(found.status() == 200, "{reference} of {method} {path}: {found:?}");
        }
        let count = self::references(&plain).len();
        assert_eq!(count, references.len(), "{method} {path}: as many as without a path");
        assert!(self::references(&plain).iter().all(|it| !it.starts_with(PREFIX)), "{plain:?}");
    }
    let problem = client.send("GET", "/v1/pets/404", &[("accept", "application/problem+json")], "").await;
    assert_eq!(problem.json()["type"], "/api/store/docs/errors/PET_NOT_FOUND", "{problem:?}");
    let document = client.get("/openapi.json").await;
    assert_eq!(document.json()["servers"][0]["url"], "/api/store/v1");
    assert_eq!(document.json()["externalDocs"]["url"], "/api/store/docs");
    let plain = direct.get("/openapi.json").await;
    assert_eq!(plain.json()["servers"][0]["url"], "/v1");
    assert_ne!(plain.header("etag"), document.header("etag"));
}

#[tokio::test]
async fn a_path_is_believed_only_of_a_trusted_proxy() {
    let shop = TestShop::open().await;
    let client = below(&shop.client_on(Plan::Free).await);
    let created = client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await;
    assert_eq!(created.header("location"), "/v1/pets/1", "{created:?}");
    assert_eq!(client.get("/openapi.json").await.json()["servers"][0]["url"], "/v1");
}

/// Pages need no word of the proxy: their links are relative.
#[tokio::test]
async fn every_link_of_the_pages_leads_to_the_same_service_below_any_path() {
    let shop = TestShop::open().await;
    let client = shop.anonymous();
    let mut pages =
        vec!["/".to_owned(), "/docs/".to_owned(), "/docs/nothing".to_owned(), "/docs/errors/X".to_owned()];
    pages.extend(["/llms.txt", "/.well-known/api-catalog", "/docs/limits.md"].map(str::to_owned));
    let mut seen: BTreeSet<_> = pages.iter().cloned().collect();
    while let Some(path) = pages.pop() {
        let page = client.get(&path).await;
        let text = page.text();
        let is_markdown = matches!(path.rsplit('.').next(), Some("md" | "txt"));
        let marks =
            [("href=\"", '"'), ("src=\"", '"'), ("\"href\": \"", '"'), ("\"anchor\": \"", '"'), ("](", ')')];
        let links =
            marks.into_iter().filter(|(_, end)| *end == '"' || is_markdown).flat_map(|(begin, end)| {
                text.split(begin).skip(1).map(move |rest| rest.split(end).next().unwrap().to_owned())
            });
        let location = page.find("location").map(str::to_owned);
        for link in links.chain(location).filter(|link| !link.starts_with('#') && !link.contains("://")) {
            assert!(!link.starts_with('/'), "{link} of {path}");
            let target = resolved(&path, link.split('#').next().unwrap());
            if seen.insert(target.clone()) {
                let found = client.get(&target).await;
                let is_there = matches!(found.status(), 200 | 302) || target == "/v1";
                assert!(is_there, "{link} of {path} is {target}: {found:?}");
                pages.push(target);
            }
        }
    }
    assert!(
        seen.len() > 50 && seen.contains("/docs/assets/docs.css") && seen.contains("/openapi.json"),
        "{seen:?}"
    );
}

/// Returns the path that a relative reference leads to (RFC 3986 §5.2).
fn resolved(base: &str, reference: &str) -> String {
    let mut folders: Vec<&str> = base.split('/').collect();
    folders.pop();
    for segment in reference.split('/') {
        if segment == ".." {
            folders.pop();
        } else {
            folders.push(segment);
        }
    }
    folders.join("/")
}
