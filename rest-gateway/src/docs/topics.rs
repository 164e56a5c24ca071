//! Pages about topics that concern every operation: limits, paging, idempotency; and the changelog.

use std::fmt::Write as _;

use petstore_plans::{ENTERPRISE, FIXED};
use pulldown_cmark::{Event, Parser, Tag, TagEnd, html::push_html};

use super::html::{HtmlPage, escaped};

/// Embeds the HTML of a topic, behind its path.
macro_rules! topic {
    ($name:literal) => {
        (concat!("/docs/", $name), include_str!(concat!("topics/", $name, ".html")))
    };
}

/// Embeds a complete sample program in every one of [`LANGUAGES`], behind its name. `scripts/browser` runs
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

/// Returns every page with its path. A page's HTML may hold `{plans}` and, at the start of a line, `{sample
/// NAME}`.
pub(super) fn pages() -> impl Iterator<Item = (&'static str, String)> {
    let topics = [
        (
            topic!("limits"),
            "Limits, backoff and bans",
            "How many requests a plan allows, and how long to wait after a refusal",
        ),
        (topic!("paging"), "Paging", "How to read a list page by page"),
        (topic!("idempotency"), "Idempotency", "How to repeat an addition without adding twice"),
    ];
    let samples = [sample!("paging"), sample!("idempotency"), sample!("backoff")];
    let topics = topics.into_iter().map(move |((path, html), title, description)| {
        let main = samples.iter().fold(html.replace("{plans}", &plans_table()), |html, (name, programs)| {
            html.replace(&format!("{{sample {name}}}"), &sample_section(name, programs))
        });
        (path, HtmlPage { title, description, main: &main }.render())
    });
    [("/docs/changelog", changelog())].into_iter().chain(topics)
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

/// Returns the page that shows the changelog. Links are omitted, since they lead to files that are not served
/// here.
fn changelog() -> String {
    let is_link = |event: &Event| matches!(event, Event::Start(Tag::Link { .. }) | Event::End(TagEnd::Link));
    let mut html = String::new();
    push_html(&mut html, Parser::new(include_str!("../../../CHANGELOG.md")).filter(|event| !is_link(event)));
    let main = format!(
        "    <main id=\"content\" class=\"page changelog\" tabindex=\"-1\">\n      \
         <p class=\"trail\"><a href=\"/docs\">Guide</a></p>\n{html}    </main>"
    );
    HtmlPage { title: "Changelog", description: "What changed in each version", main: &main }.render()
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
