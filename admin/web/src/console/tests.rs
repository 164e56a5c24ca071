//! Tests of the console over its routes, in front of an admin API that knows one token.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, Method, StatusCode, header};
use petstore_caller::api_key::OperatorToken;
use petstore_proto::admin::v1::RefusalCause;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::console;

const TOKEN: &str = "pet_op_0123456789abcdefghijABCDEFGHIJ012345";

/// Tokens of the sessions that are open.
type OpenSessions = Arc<Mutex<HashSet<String>>>;

/// Opens and ends sessions. Answers other requests with what they asked, or with 401 if it does not know the
/// token.
async fn admin_api(sessions: OpenSessions, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let shown =
        head.headers[header::AUTHORIZATION].to_str().unwrap().strip_prefix("Bearer ").unwrap().to_owned();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let mut sessions = sessions.lock().unwrap();
    let known = if head.uri == "/admin/v1/sessions" { shown == TOKEN } else { sessions.contains(&shown) };
    match (known, head.method.as_str(), head.uri.path()) {
        (false, ..) => {
            let refusal = json!({ "code": "INVALID_OPERATOR_TOKEN", "message": "no", "status": 401 });
            (StatusCode::UNAUTHORIZED, refusal.to_string()).into_response()
        }
        (true, "POST", "/admin/v1/sessions") => {
            let token = OperatorToken::generate_session().expose().to_owned();
            sessions.insert(token.clone());
            let opened = json!({ "operator": { "name": "ann" }, "token": token, "ttl": "28800s" });
            (StatusCode::CREATED, opened.to_string()).into_response()
        }
        (true, "DELETE", "/admin/v1/sessions/current") => {
            sessions.remove(&shown);
            "{}".into_response()
        }
        (true, "GET", "/admin/v1/operators/current") => "{}".into_response(),
        (true, method, _) => {
            let observed = json!({
                "method": method,
                "target": head.uri.to_string(),
                "cookie": head.headers.contains_key(header::COOKIE),
                "body": String::from_utf8(body.to_vec()).unwrap(),
            });
            observed.to_string().into_response()
        }
    }
}

/// Browser with at most one cookie.
struct Browser {
    console: Router,
    sessions: OpenSessions,
    cookie: Option<String>,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn set_cookie(&self) -> Option<&str> {
        self.headers.get(header::SET_COOKIE).map(|value| value.to_str().unwrap())
    }
}

impl Browser {
    fn new() -> Self {
        let sessions = OpenSessions::default();
        let shared = Arc::clone(&sessions);
        let api = Router::new().fallback(async move |request| admin_api(Arc::clone(&shared), request).await);
        Self { console: console(api), sessions, cookie: None }
    }

    async fn sends(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(path)
            .header(header::HOST, "127.0.0.1:9090");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.console.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into(),
        }
    }

    /// Sends a request as the console's own pages do.
    async fn asks(&self, method: &str, path: &str, body: &str) -> Answer {
        self.sends(method, path, &[("petstore-console", "1"), ("sec-fetch-site", "same-origin")], body).await
    }

    async fn signs_in(&mut self) -> Answer {
        let answer = self.asks("POST", "/console/session", &json!({ "token": TOKEN }).to_string()).await;
        if let Some(cookie) = answer.set_cookie() {
            self.cookie = cookie.split(';').next().map(str::to_owned);
        }
        answer
    }
}

#[tokio::test]
async fn signing_in_sets_a_cookie_that_no_script_and_no_other_site_can_use() {
    let mut browser = Browser::new();
    let answer = browser.signs_in().await;
    assert_eq!((answer.status, answer.json()), (200, json!({ "name": "ann" })));
    let cookie = answer.set_cookie().unwrap();
    let (id, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/console; Max-Age=28800; HttpOnly; SameSite=Strict");
    let token = id.strip_prefix("petstore-console9090=").unwrap();
    assert!(browser.sessions.lock().unwrap().contains(token), "{token}");
    assert!(!cookie.contains(TOKEN) && !answer.body.contains(TOKEN) && !answer.body.contains(token));
    assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
}

#[tokio::test]
async fn over_https_the_cookie_is_one_that_no_other_host_can_plant() {
    let mut browser = Browser::new();
    let fields = [("petstore-console", "1"), ("origin", "https://127.0.0.1:9090")];
    let answer =
        browser.sends("POST", "/console/session", &fields, &json!({ "token": TOKEN }).to_string()).await;
    let cookies: Vec<_> =
        answer.headers.get_all(header::SET_COOKIE).iter().map(|it| it.to_str().unwrap()).collect();
    let [of_host, plain] = cookies[..] else { panic!("{cookies:?}") };
    let (of_host, attributes) = of_host.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Max-Age=28800; HttpOnly; SameSite=Strict; Secure");
    assert!(of_host.starts_with("__Host-petstore-console9090=pet_ses_"), "{of_host}");
    // Gateways of 1.0.0 beside this one know only this name.
    assert!(plain.starts_with("petstore-console9090=pet_ses_") && plain.contains("; Path=/console; "));
    assert!(plain.ends_with("; SameSite=Strict; Secure"), "{plain}");

    browser.signs_in().await;
    let planted = browser.cookie.clone().unwrap();
    for cookies in [of_host.to_owned(), format!("{planted}; {of_host}"), format!("{of_host}; {planted}")] {
        browser.cookie = Some(cookies);
        assert_eq!(browser.asks("GET", "/console/api/x", "").await.status, 200, "its session alone counts");
    }
    let out = browser.asks("DELETE", "/console/session", "").await;
    assert_eq!(out.status, 204);
    assert!(browser.sessions.lock().unwrap().is_empty(), "all of them end");
    let cleared = out.headers.get_all(header::SET_COOKIE).iter().map(|it| it.to_str().unwrap());
    let names: Vec<_> = cleared.map(|it| it.split('=').next().unwrap()).collect();
    assert_eq!(names, ["__Host-petstore-console9090", "petstore-console9090"]);
}

#[tokio::test]
async fn two_different_sessions_are_refused_until_the_next_sign_in() {
    let mut browser = Browser::new();
    browser.signs_in().await;
    let own = browser.cookie.take().unwrap();
    browser.signs_in().await; // as another operator would, in another browser
    let planted = browser.cookie.clone().unwrap();
    for cookies in [format!("{own}; {planted}"), format!("{planted}; {own}")] {
        browser.cookie = Some(cookies.clone());
        let refused = browser.asks("PATCH", "/console/api/x", "{}").await;
        assert_eq!((refused.status, &refused.json()["code"]), (401, &json!("SEVERAL_SESSIONS")), "{cookies}");
        let cleared = refused.headers.get_all(header::SET_COOKIE).iter().map(|it| it.to_str().unwrap());
        let paths: Vec<_> = cleared.map(|it| it.split("; ").nth(1).unwrap().to_owned()).collect();
        // The planted one may have any of these paths.
        let above = ["/console", "/", "/console/", "/console/api", "/console/api/", "/console/api/x"];
        assert_eq!(paths, above.map(|path| format!("Path={path}")));
    }
    // The planted cookie may be one that the console cannot remove.
    browser.signs_in().await;
    browser.cookie = Some(format!("{}; {planted}", browser.cookie.unwrap()));
    assert_eq!(browser.asks("GET", "/console/api/x", "").await.status, 200, "its session has ended");
    let many: Vec<_> = (0..20)
        .map(|_| format!("petstore-console9090={}", OperatorToken::generate_session().expose()))
        .collect();
    browser.cookie = Some(format!("{}; {}", browser.cookie.unwrap(), many.join("; ")));
    let refused = browser.asks("GET", "/console/api/x", "").await;
    assert_eq!(refused.json()["code"], "SEVERAL_SESSIONS", "more than are looked at");
}

#[tokio::test]
async fn an_invalid_token_opens_no_session() {
    let browser = Browser::new();
    for (body, status) in [
        (json!({ "token": "pet_op_wrong" }).to_string(), 401),
        (json!({ "token": "pet_live_0123456789" }).to_string(), 400),
        (format!(r#"{{"token":"{TOKEN}","token":"{TOKEN}"}}"#), 400),
        (json!({ "token": "pet_op_a b" }).to_string(), 400),
        (json!({ "token": "pet_op_a\r\nX: y" }).to_string(), 400),
        (json!({}).to_string(), 400),
        ("nonsense".to_owned(), 400),
        ("x".repeat(2000), 413),
    ] {
        let answer = browser.asks("POST", "/console/session", &body).await;
        assert_eq!((answer.status, answer.set_cookie()), (status, None), "{body}");
    }
}

#[tokio::test]
async fn a_session_calls_the_admin_api_with_the_token_and_without_the_cookie() {
    let mut browser = Browser::new();
    browser.signs_in().await;
    let answer =
        browser.asks("PATCH", "/console/api/accounts/a%2Fb?updateMask=plan", "{\"plan\":\"pro\"}").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        json!({
            "method": "PATCH",
            "target": "/admin/v1/accounts/a%2Fb?updateMask=plan",
            "cookie": false,
            "body": "{\"plan\":\"pro\"}",
        })
    );
    assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
}

#[tokio::test]
async fn a_request_from_another_page_is_refused_even_with_the_cookie() {
    let mut browser = Browser::new();
    browser.signs_in().await;
    for fields in [
        vec![],
        vec![("sec-fetch-site", "same-origin")],
        vec![("petstore-console", "1"), ("sec-fetch-site", "cross-site")],
        vec![("petstore-console", "1"), ("sec-fetch-site", "same-site")],
        vec![("petstore-console", "1"), ("sec-fetch-site", "none")],
        vec![("petstore-console", "1"), ("origin", "https://evil.example")],
        vec![("petstore-console", "1"), ("origin", "http://127.0.0.1:9091")],
        vec![("petstore-console", "1"), ("origin", "null")],
        vec![
            ("petstore-console", "1"),
            ("origin", "http://127.0.0.1:9090"),
            ("origin", "https://evil.example"),
        ],
        vec![("petstore-console", "1"), ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
        vec![
            ("petstore-console", "1"),
            ("sec-fetch-site", "same-origin"),
            ("origin", "https://evil.example"),
        ],
    ] {
        for (method, path) in [
            ("POST", "/console/session"),
            ("DELETE", "/console/session"),
            ("POST", "/console/api/accounts/a/suspend"),
            ("GET", "/console/api/accounts"),
        ] {
            let answer = browser.sends(method, path, &fields, "{}").await;
            assert_eq!((answer.status, answer.json()["code"].as_str()), (403, Some("CROSS_SITE_REQUEST")));
            assert_eq!(answer.set_cookie(), None);
        }
    }
    let preflight =
        [("origin", "https://evil.example"), ("access-control-request-headers", "petstore-console")];
    let answer = browser.sends("OPTIONS", "/console/api/accounts", &preflight, "").await;
    assert_eq!((answer.status, answer.headers.get("access-control-allow-origin")), (403, None));
    assert_eq!(browser.asks("GET", "/console/api/accounts", "").await.status, 200, "it is still signed in");
}

#[tokio::test]
async fn a_session_planted_before_signing_in_is_ignored() {
    let mut browser = Browser::new();
    browser.signs_in().await;
    let planted = browser.cookie.clone().unwrap(); // an attacker's own session, and so one that is valid
    browser.signs_in().await;
    assert_ne!(browser.cookie.as_ref(), Some(&planted));
    let first = browser.cookie.clone();
    browser.signs_in().await;
    let second = browser.cookie.clone();
    assert_ne!(first, second);
    for (cookie, status) in [(Some(planted), 401), (first, 401), (second, 200)] {
        browser.cookie = cookie;
        assert_eq!(browser.asks("GET", "/console/api/x", "").await.status, status);
    }
}

#[tokio::test]
async fn without_a_session_the_core_is_not_called() {
    let mut browser = Browser::new();
    browser.signs_in().await;
    let right = browser.cookie.clone().unwrap();
    let another_port = right.replace("9090", "9091");
    for cookie in [
        "",
        "petstore-console9090=",
        "petstore-console9090=0",
        &format!("petstore-console9090={TOKEN}"),
        &format!("petstore-console9090={}", OperatorToken::generate_session().expose()),
        "x=y",
        &another_port,
    ] {
        browser.cookie = Some(cookie.to_owned());
        let answer = browser.asks("GET", "/console/api/accounts", "").await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (401, Some("INVALID_OPERATOR_TOKEN")),
            "{cookie}"
        );
    }
    browser.cookie = Some(format!("theme=dark; {right}"));
    assert_eq!(browser.asks("GET", "/console/api/accounts", "").await.status, 200);
}

#[tokio::test]
async fn an_unknown_session_is_removed_from_the_browser() {
    let mut browser = Browser::new();
    browser.signs_in().await;
    browser.sessions.lock().unwrap().clear();
    let answer = browser.asks("GET", "/console/api/x", "").await;
    assert_eq!(answer.status, 401);
    assert!(answer.set_cookie().unwrap().starts_with("petstore-console9090=; Path=/console; Max-Age=0; "));
}

#[tokio::test]
async fn signing_out_ends_the_session_itself() {
    let mut browser = Browser::new();
    browser.signs_in().await;
    let out = browser.asks("DELETE", "/console/session", "").await;
    assert_eq!(out.status, 204);
    assert!(out.set_cookie().unwrap().contains("Max-Age=0"));
    assert!(browser.sessions.lock().unwrap().is_empty());
    assert_eq!(browser.asks("GET", "/console/api/x", "").await.status, 401);
    assert_eq!(browser.asks("DELETE", "/console/session", "").await.status, 204, "once more changes nothing");
}

#[tokio::test]
async fn the_session_that_is_open_is_used_and_signing_out_ends_all() {
    let mut browser = Browser::new();
    browser.signs_in().await;
    let good = browser.cookie.clone().unwrap();
    let dead = format!("petstore-console9090={}", OperatorToken::generate_session().expose());
    for cookies in [
        format!("{good}; {good}"),
        format!("{good}; {dead}"),
        format!("{dead}; {good}"),
        format!("petstore-console9090=nonsense; {good}; {dead}"),
    ] {
        browser.cookie = Some(cookies.clone());
        let answer = browser.asks("PATCH", "/console/api/x", "{}").await;
        assert_eq!((answer.status, &answer.json()["body"]), (200, &json!("{}")), "{cookies}");
    }
    let out = browser.asks("DELETE", "/console/session", "").await;
    let cleared: Vec<_> =
        out.headers.get_all(header::SET_COOKIE).iter().map(|it| it.to_str().unwrap()).collect();
    assert_eq!(out.status, 204);
    for (cleared, path) in cleared.iter().zip(["/console", "/", "/console/", "/console/session"]) {
        assert!(
            cleared.starts_with(&format!("petstore-console9090=; Path={path}; Max-Age=0; ")),
            "{cleared}"
        );
    }
    assert_eq!(cleared.len(), 4);
    assert!(browser.sessions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn every_answer_has_one_content_type() {
    let mut browser = Browser::new();
    for answer in [
        browser.signs_in().await,
        browser.asks("POST", "/console/session", "nonsense").await,
        browser.sends("GET", "/console/api/x", &[], "").await,
    ] {
        let types: Vec<_> = answer.headers.get_all(header::CONTENT_TYPE).iter().collect();
        assert_eq!(types, ["application/json"], "{}", answer.body);
    }
}

#[tokio::test]
async fn signing_out_fails_visibly_if_the_session_could_not_be_ended() {
    for status in [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS, StatusCode::FORBIDDEN] {
        let away = Router::new().fallback(async move || (status, "{}"));
        let cookie = format!("petstore-console9090={}", OperatorToken::generate_session().expose());
        let browser = Browser { console: console(away), cookie: Some(cookie), ..Browser::new() };
        let out = browser.asks("DELETE", "/console/session", "").await;
        assert_eq!(out.status, status.as_u16());
        assert!(out.set_cookie().unwrap().contains("Max-Age=0"), "the browser forgets it all the same");
    }
}

#[tokio::test]
async fn the_health_of_the_gateway_is_for_pages_of_the_console() {
    let browser = Browser::new();
    let health = browser.asks("GET", "/console/health", "").await;
    assert_eq!((health.status, health.json()), (200, json!({})));
    assert_eq!(health.headers[header::CACHE_CONTROL], "no-store");
    assert_eq!(browser.sends("GET", "/console/health", &[], "").await.status, 403, "from no page of it");
}

#[test]
fn the_console_has_words_for_every_cause_of_a_refusal() {
    let page = include_str!("assets/overview.mjs");
    let causes = (1..).map_while(|number| RefusalCause::try_from(number).ok());
    let words = causes.map(|cause| cause.as_str_name().trim_start_matches("REFUSAL_CAUSE_").to_lowercase());
    let missing: Vec<_> = words.filter(|word| !page.contains(&format!("\n  {word}: \""))).collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[tokio::test]
async fn every_page_exists_and_loads_only_embedded_assets() {
    let browser = Browser::new();
    let mut to_fetch: Vec<String> =
        ["/console", "/console/accounts", "/console/accounts/a.b", "/console/keys/k", "/console/audit"]
            .map(str::to_owned)
            .into();
    let mut seen = Vec::new();
    while let Some(path) = to_fetch.pop() {
        if seen.contains(&path) {
            continue;
        }
        let answer = browser.sends("GET", &path, &[], "").await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"));
        for forbidden in [" style=\"", " onclick=", "innerHTML", "https://"] {
            assert!(!answer.body.contains(forbidden), "{path} has {forbidden}");
        }
        let quoted = answer.body.split('"').filter(|part| part.starts_with("/console/assets/"));
        let imported = answer.body.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next());
        to_fetch
            .extend(quoted.map(str::to_owned).chain(imported.map(|name| format!("/console/assets/{name}"))));
        seen.push(path);
    }
    assert!(seen.len() > 20, "{seen:?}");
}

#[tokio::test]
async fn every_console_path_leads_to_a_page() {
    let browser = Browser::new();
    for path in ["/", "/console/"] {
        let answer = browser.sends("GET", path, &[], "").await;
        assert_eq!((answer.status, &answer.headers[header::LOCATION]), (302, &"/console".parse().unwrap()));
    }
    let page = browser.sends("GET", "/console", &[], "").await.body;
    for path in ["/console/nosuch", "/console/accounts/a/b", "/console/assets/nosuch.mjs"] {
        let answer = browser.sends("GET", path, &[], "").await;
        assert_eq!((answer.status, &answer.body), (404, &page), "{path}");
        assert!(answer.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src"));
    }
}
