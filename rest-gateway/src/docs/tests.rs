//! Tests of the documentation over its routes.

use std::collections::BTreeSet;

use axum::{body::Body, response::Response};
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::openapi::{document, error_examples};
use petstore_proto::{Retry, v1::ErrorReason};
use tonic::Code;

use super::{
    DocsPage,
    error_pages::{by_status, explanation, grpc_name},
    other_resources, pages, routes,
    topics::{self, capitalized, grouped},
};

async fn send(method: Method, path: &str) -> Response {
    let request = Request::builder().method(method).uri(path);
    routes(&[]).oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn get(path: &str) -> Response {
    send(Method::GET, path).await
}

async fn text(response: Response) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn every_answer_has_the_security_headers() {
    let pages = pages(&[]);
    let mut asked: Vec<_> = pages.iter().map(|page| (Method::GET, page.path.clone())).collect();
    asked.extend(other_resources(&pages).map(|(path, _)| (Method::GET, path)));
    asked.retain(|(_, path)| path.starts_with("/docs"));
    asked.extend([
        (Method::GET, "/docs/nothing".into()),
        (Method::POST, "/docs".into()),
        (Method::OPTIONS, "/docs".into()),
    ]);
    for (method, path) in asked {
        let response = send(method.clone(), &path).await;
        let policy = response.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        for directive in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(
                policy.split("; ").any(|part| part == directive),
                "{path}: {directive} is not in {policy}"
            );
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{path}: {policy}");
        assert_eq!(response.headers()[header::REFERRER_POLICY], "no-referrer", "{path}");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-cache", "{path}");
        if method == Method::OPTIONS {
            continue; // it has no content
        }
        let media_type = response.headers()[header::CONTENT_TYPE].to_str().unwrap();
        assert!(media_type.ends_with("; charset=utf-8"), "{path}: {media_type}");
    }
}

/// Returns the path to which a link of the page at this path leads.
fn resolved(page: &str, link: &str) -> String {
    if link.starts_with('/') || link.contains("://") {
        return link.to_owned();
    }
    let mut names: Vec<_> = page.split('/').collect();
    names.pop();
    for name in link.split('/') {
        match name {
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

#[tokio::test]
async fn topics_are_markdown_too_with_programs_in_place_of_commands() {
    for path in ["/docs/limits", "/docs/paging", "/docs/idempotency", "/docs/deprecation"] {
        let answer = get(&format!("{path}.md")).await;
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/markdown; charset=utf-8", "{path}");
        let text = text(answer).await;
        assert!(text.starts_with("# "), "{text}");
        for forbidden in ["<!--", "](#", "](../", "```sh", "first-api-key", "#>"] {
            assert!(!text.contains(forbidden), "{path} has {forbidden}: {text}");
        }
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert_eq!(get(&resolved(path, link)).await.status(), StatusCode::OK, "{path} links to {link}");
        }
        let programs = text.matches("```python").count();
        assert_eq!(programs, usize::from(path != "/docs/deprecation"), "{text}");
    }
}

#[tokio::test]
async fn every_link_of_the_index_for_programs_and_of_the_catalog_is_served() {
    let (index, catalog) = (get("/llms.txt").await, get("/.well-known/api-catalog").await);
    assert_eq!(index.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    let media_type = catalog.headers()[header::CONTENT_TYPE].to_str().unwrap();
    assert!(media_type.starts_with("application/linkset+json; profile="), "{media_type}");
    let (index, catalog) = (text(index).await, text(catalog).await);
    assert!(!index.contains("{topics}"), "{index}");
    let links = index.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut links: Vec<_> = links.map(|link| resolved("/llms.txt", link)).collect();
    let linkset: serde_json::Value = serde_json::from_str(&catalog).unwrap();
    let interface = &linkset["linkset"][0];
    let of_catalog = |link: &serde_json::Value| resolved("/.well-known/api-catalog", link.as_str().unwrap());
    assert_eq!(of_catalog(&interface["anchor"]), "/v1");
    let of = |relation: &str| interface[relation].as_array().unwrap().iter();
    links.extend(of("service-desc").chain(of("service-doc")).map(|link| of_catalog(&link["href"])));
    for link in links.into_iter().filter(|link| link != "/openapi.json") {
        assert_eq!(get(&link).await.status(), StatusCode::OK, "{link}");
    }
}

#[tokio::test]
async fn a_further_page_is_in_the_navigation_of_every_page() {
    let more = DocsPage::new("/docs/more", "More", "More", || "<main></main>".to_owned());
    let router = routes(&[more]);
    for (path, above) in
        [("/docs", ""), ("/docs/limits", "../"), ("/docs/more", "../"), ("/docs/none", "../")]
    {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let page = text(router.clone().oneshot(request).await.unwrap()).await;
        let link = format!("<a href=\"{above}docs/more\">More</a>");
        assert_eq!(page.matches(&link).count(), 1, "{path}");
    }
}

#[tokio::test]
async fn every_anchor_resolves() {
    for DocsPage { path, .. } in pages(&[]) {
        let page = text(get(&path).await).await;
        for anchor in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(page.contains(&format!("id=\"{anchor}\"")), "{path} has nothing called {anchor}");
        }
    }
}

#[tokio::test]
async fn pages_name_no_file_or_command_of_the_operator() {
    for path in ["/docs", "/docs/limits", "/docs/paging", "/docs/idempotency", "/docs/deprecation"] {
        let page = text(get(path).await).await;
        for command in ["first-api-key", "petstore key", "data/", "--account"] {
            assert!(!page.contains(command), "{path} has {command}");
        }
    }
    assert!(text(get("/docs").await).await.contains("Ask the operator of this service for a key"));
}

#[tokio::test]
async fn the_table_of_plans_has_the_enforced_limits() {
    for path in ["/docs", "/docs/limits"] {
        let page = text(get(path).await).await;
        for plan in petstore_caller::plans::FIXED {
            let name = capitalized(plan.name);
            let row = format!(
                "<tr><th scope=\"row\">{name}</th><td>{}</td><td>{}</td></tr>",
                grouped(plan.quota.per_minute),
                grouped(plan.quota.per_day)
            );
            assert_eq!(page.matches(&row).count(), 1, "{path}: {row}");
        }
    }
}

#[test]
fn the_description_names_the_limits_of_the_table_of_plans() {
    let description = document()["info"]["description"].as_str().unwrap().to_owned();
    for plan in petstore_caller::plans::FIXED {
        let [per_minute, per_day] = [plan.quota.per_minute, plan.quota.per_day].map(grouped);
        let name = capitalized(plan.name);
        assert!(description.contains(&format!("{name} {per_minute} and {per_day}")), "{description}");
    }
}

#[tokio::test]
async fn the_page_about_backoff_and_its_programs_repeat_what_the_table_of_codes_says() {
    let of = |retry| {
        let codes = ErrorReason::all().map(ErrorReason::code).filter(|code| code.retry == retry);
        codes.map(|code| code.http.as_u16()).collect::<BTreeSet<_>>()
    };
    let list = |statuses: &BTreeSet<u16>| statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let (after, mut backoff) = (of(Retry::After), of(Retry::Backoff));
    assert!(after.is_disjoint(&backoff) && of(Retry::Never).is_disjoint(&(&after | &backoff)));
    backoff.extend([502, 503]); // of proxies, without Retry-After
    let page = text(get("/docs/limits").await).await;
    assert!(page.contains(&format!("<code>Retry-After</code></strong> ({}):", list(&after))), "{page}");
    assert!(page.contains(&format!("<strong>{}, or no response</strong>:", list(&backoff))), "{page}");
    let idempotency = text(get("/docs/idempotency").await).await;
    let programs =
        ["curl", "python", "javascript", "go"].map(|language| [(&page, language), (&idempotency, language)]);
    for (page, language) in programs.into_iter().flatten() {
        let (_, program) = page.split_once(&format!("<pre data-language=\"{language}\"")).unwrap();
        let (program, _) = program.split_once("</pre>").unwrap();
        let numbers = program.split(|it: char| !it.is_ascii_alphanumeric()).filter_map(|it| it.parse().ok());
        let statuses: BTreeSet<u16> = numbers.filter(|number| (400..600).contains(number)).collect();
        assert_eq!(statuses, backoff, "{language}: the others have Retry-After");
    }
}

#[tokio::test]
async fn the_whole_guide_is_served_and_its_links_lead_to_what_is_served() {
    let guide = include_str!("../../../docs/api.md");
    let headings = guide.lines().filter_map(|line| line.strip_prefix("## "));
    // On the first page, in its data types and in the list of errors.
    for heading in headings.filter(|heading| !["First call", "Pets", "Errors"].contains(heading)) {
        let path = topics::pages().map(|page| page.path);
        let mut pages = Vec::new();
        for path in path.filter(|path| path != "/docs/changelog") {
            pages.push((text(get(&path).await).await, text(get(&format!("{path}.md")).await).await));
        }
        let (html, markdown) = pages
            .iter()
            .find(|(html, _)| html.contains(&format!("<h1>{heading}</h1>")))
            .unwrap_or_else(|| panic!("no page has the section {heading}"));
        assert!(markdown.starts_with(&format!("# {heading}\n")), "{markdown}");
        for gone in ["../proto/", "../scripts/", ".md#"] {
            assert!(!html.contains(gone) && !markdown.contains(gone), "{heading} leads to {gone}");
        }
    }
    let grpc = text(get("/docs/grpc").await).await;
    assert!(grpc.contains("buf curl") && grpc.contains("<a href=\"https://buf.build"), "{grpc}");
    assert!(!text(get("/docs/paging").await).await.contains("$KEY"), "programs are in their place");
}

#[tokio::test]
async fn the_changelog_is_a_page_for_callers_without_links_to_files() {
    let page = text(get("/docs/changelog").await).await;
    assert!(page.contains("<h1>Changelog</h1>") && page.contains("<h2>[1.0.0]"), "{page}");
    assert!(page.contains("<h3>Clients</h3>") && !page.contains("<h3>Operators</h3>"), "{page}");
    assert!(!page.contains(".md\""), "{page}");
}

#[tokio::test]
async fn other_methods_are_answered_with_the_allowed_ones() {
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::TRACE] {
        let refused = send(method.clone(), "/docs/errors").await;
        assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(refused.headers()[header::ALLOW], "GET, HEAD, OPTIONS", "{method}");
    }
    let options = send(Method::OPTIONS, "/docs").await;
    assert_eq!(options.status(), StatusCode::NO_CONTENT);
    assert_eq!(options.headers()[header::ALLOW], "GET, HEAD, OPTIONS");
}

#[tokio::test]
async fn the_root_and_a_trailing_slash_redirect_to_the_documentation() {
    for (path, docs) in [("/", "docs"), ("/docs/", "../docs")] {
        for method in [Method::GET, Method::HEAD] {
            let led = send(method, path).await;
            assert_eq!(led.status(), StatusCode::FOUND, "{path}");
            assert_eq!(led.headers()[header::LOCATION], docs, "{path}");
        }
        let options = send(Method::OPTIONS, path).await;
        assert_eq!(options.headers()[header::ALLOW], "GET, HEAD, OPTIONS");
        assert_eq!(send(Method::POST, path).await.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}

#[tokio::test]
async fn an_unknown_page_or_code_is_a_404_page_with_links() {
    for (path, above) in [
        ("/docs/errors/", "../../"),
        ("/docs/errors/NO_SUCH_CODE", "../../"),
        ("/docs/rate_limited", "../"),
        ("/docs/a/b/c", "/"), // deeper than any page
    ] {
        let missing = get(path).await;
        assert_eq!(missing.status(), StatusCode::NOT_FOUND, "{path}");
        assert_eq!(missing.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
        let text = text(missing).await;
        assert!(text.contains(&format!("href=\"{above}docs/errors\"")), "{path}: {text}");
    }
}

#[tokio::test]
async fn every_error_code_has_a_page_of_its_own_and_a_row_in_the_list() {
    let list = text(get("/docs/errors").await).await;
    assert!(by_status().len() > 20);
    let examples = error_examples(document());
    for reason in by_status() {
        let code = reason.code().name;
        assert_eq!(list.matches(&format!("href=\"../docs/errors/{code}\"")).count(), 1, "{code}");
        let page = text(get(&format!("/docs/errors/{code}")).await).await;
        assert!(page.contains(&format!("<h1><code>{code}</code></h1>")), "{code}");
        assert!(page.contains(&format!("<dt>HTTP</dt><dd>{} ", reason.code().http.as_u16())), "{code}");
        let is_on_rest = examples.contains_key(code);
        assert_eq!(page.contains(&format!("&quot;code&quot;: &quot;{code}&quot;")), is_on_rest, "{code}");
        assert!(page.contains("<p>") && !page.contains('`'), "{code}: a code mark was left over");
    }
}

#[test]
fn a_fault_of_the_service_is_one_on_both_interfaces() {
    for reason in ErrorReason::all() {
        let Some(grpc) = reason.code().grpc else { continue };
        let is_fault = matches!(grpc, Code::Internal | Code::Unavailable | Code::DeadlineExceeded);
        assert_eq!(reason.code().http.is_server_error(), is_fault, "{reason:?}");
    }
}

/// Returns the advice on repeating a request as `docs/errors.md` abbreviates it.
const fn retry_word(retry: Retry) -> &'static str {
    match retry {
        Retry::Never => "no",
        Retry::Backoff => "backoff",
        Retry::After => "wait",
    }
}

/// Returns the table of the guide, made from the table of codes and its own sentences.
fn written_guide() -> String {
    let rows = by_status().into_iter().map(|reason| {
        let (code, [meaning, remedy, operator]) = (reason.code(), explanation(reason));
        assert!(!meaning.is_empty() && !remedy.is_empty(), "docs/errors.md has no {}", code.name);
        let operator = match operator {
            "" => String::new(),
            text => format!(" Operator: {text}"),
        };
        format!(
            "| `{}` | {} | {} | {} | {} | {}{operator} |\n",
            code.name,
            code.http.as_str(),
            grpc_name(reason).unwrap_or("–"),
            retry_word(code.retry),
            meaning,
            remedy,
        )
    });
    let head =
        "| Code | Status | gRPC | Retry | Meaning | What to do |\n|---|---|---|---|---|---|\n".to_owned();
    [head].into_iter().chain(rows).collect()
}

#[test]
fn the_written_guide_agrees_with_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/errors.md");
    let written = std::fs::read_to_string(path).unwrap();
    let (introduction, _) = written.split_once("| Code |").unwrap();
    let current = introduction.to_owned() + &written_guide();
    if std::env::var_os("WRITE_ERROR_GUIDE").is_some() {
        std::fs::write(path, current).unwrap();
    } else {
        let how = "WRITE_ERROR_GUIDE=1 cargo test --workspace --lib -- the_written_guide";
        assert!(written == current, "docs/errors.md is not what the table says: run `{how}`");
    }
}
