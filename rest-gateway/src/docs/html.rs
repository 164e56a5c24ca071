//! Text as HTML, operations of an OpenAPI document as HTML for readers and programs without JavaScript, and
//! HTML as text for the search index.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::DocsPage;

/// Returns the text, escaped for an element or a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the text as HTML, in which `` `…` `` is code.
pub(super) fn prose(text: &str) -> String {
    escaped(text)
        .split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}

/// Returns the title, path, kind and text of each page and of each operation on it, as JSON.
pub(super) fn search_index(pages: &[DocsPage]) -> String {
    let mut entries = Vec::new();
    for DocsPage { path, title, main, .. } in pages {
        let html = main();
        let mut parts = between(&html, "<main", "</main>").split("<section class=\"operation\" id=\"");
        let text = parts.next().map(text_of);
        entries.push(json!({ "title": title, "path": path, "kind": "page", "text": text }));
        for (id, operation) in parts.filter_map(|part| part.split_once('"')) {
            let (title, path) = (text_of(between(operation, "<h2", "</h2>")), format!("{path}#{id}"));
            let text = operation.split("<ul").next().map(|it| format!("{id} {}", text_of(it)));
            entries.push(json!({ "title": title, "path": path, "kind": "operation", "text": text }));
        }
    }
    json!(entries).to_string()
}

/// Returns the text between the first tag with this beginning and `end`.
fn between<'a>(html: &'a str, begin: &str, end: &str) -> &'a str {
    let inside = html.split_once(begin).and_then(|(_, rest)| rest.split_once('>'));
    inside.and_then(|(_, rest)| rest.split_once(end)).map_or("", |(inside, _)| inside)
}

/// Returns the text of HTML: without tags, with single spaces.
fn text_of(html: &str) -> String {
    let with_spaces: String =
        html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    let text =
        with_spaces.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the operations of an OpenAPI document as HTML, with a section for each. Paths are shown below
/// `base`.
pub fn operations(document: &Value, base: &str) -> String {
    let mut sections = String::new();
    for (path, methods) in fields(&document["paths"]) {
        for (method, operation) in fields(methods) {
            let shown = format!("{base}{path}");
            // A write to a String cannot fail.
            let _ = writeln!(sections, "{}", section(document, &shown, method, operation));
        }
    }
    sections
}

fn section(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let mut entries = String::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let parameter = resolved(document, parameter);
        let (name, place) = (text(parameter, "name"), text(parameter, "in"));
        entries.push_str(&entry(name, place, text(parameter, "description")));
    }
    let body = resolved(document, &operation["requestBody"]["content"]["application/json"]["schema"]);
    for (name, schema) in fields(&body["properties"]) {
        entries.push_str(&entry(name, "body", text(schema, "description")));
    }
    for (status, response) in fields(&operation["responses"]) {
        let response = resolved(document, response);
        if let Some(codes) = response["x-error-codes"].as_array() {
            let codes: Vec<_> = codes.iter().filter_map(Value::as_str).collect();
            entries.push_str(&entry(status, &codes.join(", "), text(response, "description")));
        }
    }
    let (summary, description) = (text(operation, "summary"), text(operation, "description"));
    let description = if description.trim_end_matches('.') == summary { "" } else { description };
    let entries =
        if entries.is_empty() { entries } else { format!("<ul class=\"entries\">\n{entries}</ul>\n") };
    format!(
        include_str!("assets/reference.html"),
        id = escaped(text(operation, "operationId")),
        summary = escaped(summary),
        method = escaped(method),
        title = escaped(&method.to_uppercase()),
        path = escaped(path),
        description = prose(description),
        entries = entries,
    )
}

fn entry(name: &str, place: &str, description: &str) -> String {
    format!(
        "<li><div class=\"signature\"><code>{}</code><span>{}</span></div><p>{}</p></li>\n",
        escaped(name),
        escaped(place),
        prose(description),
    )
}

/// Returns the component that a value refers to, or the value itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let target = value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    target.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
