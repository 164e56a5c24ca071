//! Pages about topics that concern every operation, from sections of `docs/api.md`; and the changelog.

use std::fmt::Write as _;

use http::StatusCode;

use petstore_caller::plans::{ENTERPRISE, FIXED};
use petstore_proto::v1::ErrorReason;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html::push_html};

use super::{DocsPage, html::escaped};
use crate::{error_page_path, representation::Representation};

/// Embeds a complete sample program in every one of [`LANGUAGES`], behind its name. `testing/browser` runs
/// each against the service.
macro_rules! sample {
    ($name:literal) => {
        (
            $name,
            [
                include_str!(concat!("samples/", $name, ".sh")),
                include_str!(concat!("samples/", $name, ".py")),
                include_str!(concat!("samples/", $name, ".mjs")),
                include_str!(concat!("samples/", $name, ".go")),
            ],
        )
    };
}

/// Languages by their names in the style sheet and on the pages. Samples of requests, which the browser makes
/// (`assets/samples.mjs`), use the same languages.
const LANGUAGES: [(&str, &str); 4] =
    [("curl", "curl"), ("python", "Python"), ("javascript", "JavaScript"), ("go", "Go")];

/// Complete programs by name.
static SAMPLES: [(&str, [&str; LANGUAGES.len()]); 3] =
    [sample!("paging"), sample!("idempotency"), sample!("backoff")];

/// Guide for clients, whose sections are topics.
static GUIDE: &str = include_str!("../../../docs/api.md");

/// Sections of the guide that are pages: heading, path and description.
type Topic = (&'static str, &'static str, &'static str);

const TOPICS: [Topic; 7] = [
    ("Rate limits", "/docs/limits", "How many requests a plan allows, and how long to wait after a 429"),
    ("Paging", "/docs/paging", "How to read a list page by page"),
    ("Idempotency", "/docs/idempotency", "How to repeat a request without creating a pet twice"),
    (
        "Deprecation",
        "/docs/deprecation",
        "How to live without a lookup by id, which is removed on 5 December 2030",
    ),
    (
        "What the API cannot do",
        "/docs/what-the-api-cannot-do",
        "What is missing, such as changing a pet, deleting one, and search",
    ),
    (
        "Generate a client",
        "/docs/clients",
        "Generators that are tested, for TypeScript, Python, Go, PHP and Java",
    ),
    ("gRPC", "/docs/grpc", "The same pets over gRPC, in your own network"),
];

/// Returns links to all topics as items of a list, of which the one to the page at `path` is marked.
pub(super) fn links(path: &str) -> String {
    let link = |(heading, topic, _): &Topic| {
        let current = if *topic == path { " aria-current=\"page\"" } else { "" };
        format!("<li><a href=\"{topic}\"{current}>{heading}</a></li>\n")
    };
    TOPICS.iter().map(link).collect()
}

/// Returns every page.
pub(super) fn pages() -> impl Iterator<Item = DocsPage> {
    let topics = TOPICS.iter().map(|(title, path, description)| {
        DocsPage::new(*path, title, description, move || {
            let content = topic_html(title);
            format!(include_str!("assets/topic.html"), topics = links(path), title = title, content = content)
        })
    });
    let changelog = DocsPage::new("/docs/changelog", "Changelog", "What changed in each version", changelog);
    [changelog].into_iter().chain(topics)
}

/// Returns every topic as Markdown, for programs: the path is that of its page and `.md`.
pub(super) fn markdown() -> impl Iterator<Item = (String, Representation)> {
    TOPICS.iter().map(|(heading, path, description)| {
        let text = move || {
            let section = without_commands(&section(heading, ".md"), |_, programs| {
                let mut text = include_str!("assets/sample.md").to_owned() + "\n";
                for ((language, title), program) in LANGUAGES.iter().zip(programs) {
                    let _ = write!(text, "{title}:\n\n```{language}\n{program}```\n\n");
                }
                text
            });
            let text = format!("# {heading}\n\n> {description}\n{section}");
            text.replace("](/docs/", "](").replace("](/docs)", "](../docs)") // relative to this folder
        };
        let media_type = "text/markdown; charset=utf-8";
        (format!("{path}.md"), Representation::new(StatusCode::OK, media_type, text))
    })
}

/// Returns a section with the complete programs that its comments name, such as `<!-- sample: paging -->`, in
/// place of its shell commands. `sample` writes the programs of a name.
fn without_commands(section: &str, sample: impl Fn(&str, &[&str; LANGUAGES.len()]) -> String) -> String {
    let mut text = String::new();
    let (mut replaces, mut in_commands) = (false, false);
    for line in section.lines() {
        match line {
            "```sh" if replaces => (replaces, in_commands) = (false, true),
            "```" if in_commands => in_commands = false,
            _ if in_commands => {}
            "<!-- session: api -->" => replaces = true,
            comment if comment.starts_with("<!--") => {
                let name = comment.strip_prefix("<!-- sample: ").and_then(|name| name.strip_suffix(" -->"));
                let programs = SAMPLES.iter().find(|(known, _)| Some(*known) == name);
                text.extend(programs.map(|(name, programs)| sample(name, programs)));
            }
            line => text.extend([line, "\n"]),
        }
    }
    text
}

/// Returns the index for programs that read the documentation (<https://llmstxt.org>).
pub(super) fn index_for_programs() -> String {
    let mut topics = String::new();
    for (heading, path, description) in &TOPICS {
        let _ = writeln!(topics, "- [{heading}]({}.md): {description}", path.trim_start_matches('/'));
    }
    include_str!("assets/llms.txt").replace("{topics}\n", &topics)
}

/// Returns a section of the guide, without its heading. Links lead to what is served; those to topics end
/// with `suffix`.
fn section(heading: &str, suffix: &str) -> String {
    let mut sections = GUIDE.split("\n## ").skip(1);
    let own = sections.find_map(|section| section.strip_prefix(heading)?.strip_prefix('\n'));
    let (mut text, mut rest) = (String::new(), own.unwrap_or_default());
    while let Some((before, (target, after))) =
        rest.split_once("](").and_then(|(before, link)| Some((before, link.split_once(')')?)))
    {
        match (served_at(target, suffix), before.rsplit_once('[')) {
            (None, Some((before, label))) => text.extend([before, label]), // the text stays, without a link
            (address, _) => text.extend([before, "](", &address.unwrap_or_default(), ")"]),
        }
        rest = after;
    }
    text + rest
}

/// Returns the address of what a link of the guide leads to. A file of the repository has none.
fn served_at(target: &str, suffix: &str) -> Option<String> {
    let is_target = |(heading, ..): &&Topic| Some(&*slug(heading)) == target.strip_prefix('#');
    match target {
        "errors.md" => Some("/docs/errors".to_owned()),
        _ if target.starts_with('#') => {
            let topic = TOPICS.iter().find(is_target);
            Some(topic.map_or_else(|| "/docs".to_owned(), |(_, path, _)| format!("{path}{suffix}")))
        }
        _ => target.starts_with("https:").then(|| target.to_owned()),
    }
}

/// Returns a topic's section as HTML: its parts as sections, codes and operations as links to what explains
/// them, rows of tables with heads.
fn topic_html(heading: &str) -> String {
    let comment = |name: &str| format!("<!-- {name} -->\n");
    let markdown = without_commands(&section(heading, ""), |name, _| comment(name));
    let mut html = String::new();
    push_html(&mut html, Parser::new_ext(&markdown, Options::ENABLE_TABLES));
    let mut parts = html.split("<h3>");
    let mut sections = parts.next().unwrap_or_default().to_owned();
    if sections.starts_with("<p>") {
        sections.insert_str(2, " class=\"lead\"");
    }
    for (title, content) in parts.filter_map(|part| part.split_once("</h3>\n")) {
        let id = slug(title);
        let _ = writeln!(
            sections, // a write to a String cannot fail
            "<section aria-labelledby=\"{id}\">\n\
             <h2 id=\"{id}\"><a class=\"anchor\" href=\"#{id}\">{title}</a></h2>\n{content}</section>"
        );
    }
    let mut parts = sections.split("<tr><td>");
    let mut html = parts.next().unwrap_or_default().to_owned();
    for row in parts {
        html += "<tr><th scope=\"row\">";
        html += &row.replacen("</td>", "</th>", 1);
    }
    html = with_links(&html)
        .replace("<table>", "<div class=\"scrolls\"><table class=\"facts-table\">")
        .replace("</table>", "</table></div>")
        .replace("<pre>", "<pre tabindex=\"0\">") // it scrolls
        .replace("<th>", "<th scope=\"col\">");
    SAMPLES
        .iter()
        .fold(html, |html, (name, programs)| html.replace(&comment(name), &sample_section(name, programs)))
}

/// Returns the HTML with links from error codes, operations and paths of pages to the text about them.
pub(super) fn with_links(html: &str) -> String {
    let mut parts = html.split("<code>");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_in_link = linked.rfind("<a ") > linked.rfind("</a>");
        let code = part.split_once("</code>").filter(|_| !is_in_link);
        if let Some((code, rest)) = code
            && let Some(path) = explained_at(code)
        {
            let _ = write!(linked, "<a href=\"{path}\"><code>{code}</code></a>{rest}");
        } else {
            linked += "<code>";
            linked += part;
        }
    }
    linked
}

fn slug(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

/// Returns the address of the text about an error code or an operation, or of the page with this path.
fn explained_at(code: &str) -> Option<String> {
    let page = code.starts_with("/docs/").then_some(code);
    let page = page.or((code == "GET /v1/usage").then_some("/docs#getUsage"));
    page.map(str::to_owned).or_else(|| ErrorReason::named(code).map(error_page_path))
}

/// Returns the programs as HTML. The style sheet shows the chosen one, so no script is needed.
fn sample_section(name: &str, programs: &[&str; LANGUAGES.len()]) -> String {
    let mut choices = String::new();
    let mut shown = String::new();
    for ((language, title), program) in LANGUAGES.iter().zip(programs) {
        let checked = if choices.is_empty() { " checked" } else { "" };
        let program = escaped(program.trim_end());
        // Writes to Strings cannot fail.
        let _ = write!(
            choices,
            "<label><input type=\"radio\" name=\"{name}\" value=\"{language}\"{checked}>{title}</label>"
        );
        let _ = writeln!(
            shown,
            "<pre data-language=\"{language}\" tabindex=\"0\" role=\"region\" aria-label=\"{title} \
             program\"><code>{program}</code></pre>"
        );
    }
    format!(include_str!("assets/sample.html"), choices = choices, shown = shown)
}

/// Returns what the changelog says to callers. Links are omitted, since they lead to files that are not
/// served here.
fn changelog() -> String {
    let mut is_for_operators = false;
    let lines = include_str!("../../../CHANGELOG.md").lines().filter(|line| {
        if line.starts_with('#') {
            is_for_operators = ["### Operators", "### Storage", "### Operation"].contains(line);
        }
        !is_for_operators
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let is_link = |event: &Event| matches!(event, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link));
    let mut html = String::new();
    push_html(&mut html, Parser::new(&text).filter(|event| !is_link(event)));
    format!(
        "    <main id=\"content\" class=\"page changelog\" tabindex=\"-1\">\n      \
         <p class=\"trail\"><a href=\"/docs\">Guide</a></p>\n{html}    </main>"
    )
}

/// Returns the plans and their limits, as HTML.
pub(super) fn plans_table() -> String {
    let mut rows = String::new();
    for plan in FIXED {
        let (minute, day) = (grouped(plan.quota.per_minute), grouped(plan.quota.per_day));
        let _ = writeln!(
            // a write to a String cannot fail
            rows,
            "<tr><th scope=\"row\">{}</th><td>{minute}</td><td>{day}</td></tr>",
            capitalized(plan.name)
        );
    }
    format!(include_str!("assets/plans.html"), rows = rows, enterprise = capitalized(ENTERPRISE))
}

/// Returns the number with commas between thousands.
pub(super) fn grouped(number: u64) -> String {
    if number < 1_000 {
        number.to_string()
    } else {
        format!("{},{:03}", grouped(number / 1_000), number % 1_000)
    }
}

pub(super) fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
