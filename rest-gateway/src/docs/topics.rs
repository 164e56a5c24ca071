//! Pages about topics that concern every operation, from sections of `docs/api.md`; and the changelog.

use std::{fmt::Write as _, mem};

use crate::error_page_path;
use petstore_caller::plans::{ENTERPRISE, FIXED};
use petstore_proto::v1::ErrorReason;
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html::push_html};

use super::{
    Page,
    html::{HtmlPage, escaped},
};

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

/// Section of the guide that is a page.
struct Topic {
    heading: &'static str,
    path: &'static str,
    description: &'static str,
}

const TOPICS: [Topic; 7] = [
    Topic {
        heading: "Rate limits",
        path: "/docs/limits",
        description: "How many requests a plan allows, and how long to wait after a 429",
    },
    Topic { heading: "Paging", path: "/docs/paging", description: "How to read a list page by page" },
    Topic {
        heading: "Idempotency",
        path: "/docs/idempotency",
        description: "How to repeat a request without creating a pet twice",
    },
    Topic {
        heading: "Deprecation",
        path: "/docs/deprecation",
        description: "How to live without a lookup by id, which is removed on 5 December 2030",
    },
    Topic {
        heading: "What the API cannot do",
        path: "/docs/what-the-api-cannot-do",
        description: "What is missing, such as changing a pet, deleting one, and search",
    },
    Topic {
        heading: "Generate a client",
        path: "/docs/clients",
        description: "Generators that are tested, for TypeScript, Python, Go, PHP and Java",
    },
    Topic {
        heading: "gRPC",
        path: "/docs/grpc",
        description: "The same pets over gRPC, in your own network",
    },
];

/// Returns links to all topics as items of a list, of which the one to the page at `path` is marked.
pub(super) fn links(path: &str) -> String {
    let link = |topic: &Topic| {
        let current = if topic.path == path { " aria-current=\"page\"" } else { "" };
        format!("<li><a href=\"{}\"{current}>{}</a></li>\n", topic.path, topic.heading)
    };
    TOPICS.iter().map(link).collect()
}

/// Returns every page.
pub(super) fn pages() -> impl Iterator<Item = Page> {
    let topics =
        TOPICS.iter().map(|topic| -> Page { (topic.path.to_owned(), Box::new(|| topic_page(topic))) });
    let changelog: Page = ("/docs/changelog".to_owned(), Box::new(changelog));
    [changelog].into_iter().chain(topics)
}

fn topic_page(Topic { heading, path, description }: &Topic) -> String {
    let content = TopicHtml::of(&section(heading, ""));
    let main =
        format!(include_str!("assets/topic.html"), topics = links(path), title = heading, content = content);
    HtmlPage { title: heading, description, main: &main }.render()
}

/// Returns every topic as Markdown, for programs: the path is that of its page and `.md`.
pub(super) fn markdown() -> impl Iterator<Item = (String, impl FnOnce() -> String + Send + 'static)> {
    TOPICS.iter().map(|topic| (format!("{}.md", topic.path), || topic_markdown(topic)))
}

/// Returns the section as its page shows it: with complete programs in place of shell commands.
fn topic_markdown(Topic { heading, description, .. }: &Topic) -> String {
    let mut text = format!("# {heading}\n\n> {description}\n");
    let (mut replaces, mut in_commands) = (false, false);
    for line in section(heading, ".md").lines() {
        match line {
            "```sh" if replaces => (replaces, in_commands) = (false, true),
            "```" if in_commands => in_commands = false,
            _ if in_commands => {}
            REPLACED => replaces = true,
            comment if comment.starts_with("<!--") => {
                let programs = sample_named(comment).map(|(_, programs)| programs);
                for ((language, title), program) in LANGUAGES.iter().zip(programs.into_iter().flatten()) {
                    // A write to a String cannot fail.
                    let _ = writeln!(text, "{title}:\n\n```{language}\n{program}```\n");
                }
            }
            line => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    text.replace("](/docs/", "](").replace("](/docs)", "](../docs)") // relative to this folder
}

/// Returns the index for programs that read the documentation (<https://llmstxt.org>).
pub(super) fn index_for_programs() -> String {
    let mut topics = String::new();
    for Topic { heading, path, description } in &TOPICS {
        let _ = writeln!(topics, "- [{heading}]({}.md): {description}", path.trim_start_matches('/'));
    }
    include_str!("assets/llms.txt").replace("{topics}\n", &topics)
}

/// Returns a section of the guide, without its heading. Links lead to what is served; those to topics end
/// with `suffix`.
fn section(heading: &str, suffix: &str) -> String {
    let mut sections = GUIDE.split("\n## ").skip(1);
    let own = sections.find_map(|section| section.strip_prefix(heading)?.strip_prefix('\n'));
    let mut text = String::new();
    for part in own.unwrap_or_default().split_inclusive("](") {
        let Some((target, rest)) = part.split_once(')').filter(|_| text.ends_with("](")) else {
            text.push_str(part);
            continue;
        };
        if let Some(address) = served_at(target, suffix) {
            text.push_str(&address);
            text.push(')');
            text.push_str(rest);
        } else {
            text.truncate(text.len() - 2); // the text stays, without a link
            if let Some(begin) = text.rfind('[') {
                text.remove(begin);
            }
            text.push_str(rest);
        }
    }
    text
}

/// Returns the address of what a link of the guide leads to. A file of the repository has none.
fn served_at(target: &str, suffix: &str) -> Option<String> {
    let is_target = |topic: &&Topic| Some(&*slug(topic.heading)) == target.strip_prefix('#');
    match target {
        "errors.md" => Some("/docs/errors".to_owned()),
        _ if target.starts_with('#') => {
            let topic = TOPICS.iter().find(is_target);
            Some(topic.map_or_else(|| "/docs".to_owned(), |topic| format!("{}{suffix}", topic.path)))
        }
        _ => target.starts_with("https:").then(|| target.to_owned()),
    }
}

/// Element of a section that is read in its own way.
#[derive(Default)]
enum Inside {
    #[default]
    Text,
    /// Shell commands, which are left out.
    Commands,
    Heading(String),
    Link,
}

/// Comment before commands that are left out, because the pages have complete programs in their place, at
/// comments such as `<!-- sample: paging -->`.
const REPLACED: &str = "<!-- session: api -->";

/// Converter of a section to HTML.
#[derive(Default)]
struct TopicHtml<'a> {
    events: Vec<Event<'a>>,
    inside: Inside,
    in_section: bool,
    /// `true` if the next block is left out.
    replaces: bool,
    /// `true` in a row of a table's body before its first cell has ended.
    heads_row: bool,
}

impl<'a> TopicHtml<'a> {
    fn of(markdown: &'a str) -> String {
        let mut converter = Self::default();
        for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
            converter.read(event);
        }
        converter.end_section();
        let mut html = String::new();
        push_html(&mut html, converter.events.into_iter());
        if html.starts_with("<p>") {
            html.insert_str(2, " class=\"lead\"");
        }
        html.replace("<table>", "<div class=\"scrolls\"><table class=\"facts-table\">")
            .replace("</table>", "</table></div>")
            .replace("<pre>", "<pre tabindex=\"0\">") // it scrolls
            .replace("<th>", "<th scope=\"col\">")
    }

    fn read(&mut self, event: Event<'a>) {
        let event = match (event, &mut self.inside) {
            (Event::Start(Tag::CodeBlock(_)), _) if mem::take(&mut self.replaces) => {
                self.inside = Inside::Commands;
                return;
            }
            (Event::End(TagEnd::CodeBlock), inside @ Inside::Commands) => {
                *inside = Inside::Text;
                return;
            }
            (_, Inside::Commands) => return,
            (Event::Start(Tag::Heading { level: HeadingLevel::H3, .. }), inside) => {
                *inside = Inside::Heading(String::new());
                return;
            }
            (Event::Text(text), Inside::Heading(heading)) => return heading.push_str(&text),
            (Event::End(TagEnd::Heading(HeadingLevel::H3)), Inside::Heading(heading)) => {
                let title = mem::take(heading);
                self.inside = Inside::Text;
                return self.begin_section(&title);
            }
            (Event::Html(html), _) => {
                self.replaces = html.trim() == REPLACED;
                let Some((name, programs)) = sample_named(&html) else { return };
                raw(sample_section(name, programs))
            }
            (Event::Start(Tag::Link { dest_url, .. }), inside) => {
                *inside = Inside::Link;
                raw(format!("<a href=\"{}\">", escaped(&dest_url)))
            }
            (Event::End(TagEnd::Link), inside) => {
                *inside = Inside::Text;
                raw("</a>".to_owned())
            }
            (Event::Code(code), Inside::Text) => match explained_at(&code) {
                Some(path) => raw(format!("<a href=\"{path}\"><code>{}</code></a>", escaped(&code))),
                None => Event::Code(code),
            },
            (Event::Start(Tag::TableRow), _) => {
                self.heads_row = true;
                Event::Start(Tag::TableRow)
            }
            (Event::Start(Tag::TableCell), _) if self.heads_row => raw("<th scope=\"row\">".to_owned()),
            (Event::End(TagEnd::TableCell), _) if self.heads_row => {
                self.heads_row = false;
                raw("</th>".to_owned())
            }
            (event, _) => event,
        };
        self.events.push(event);
    }

    fn begin_section(&mut self, title: &str) {
        self.end_section();
        let (id, title) = (slug(title), escaped(title));
        self.events.push(raw(format!(
            "<section aria-labelledby=\"{id}\">\n\
             <h2 id=\"{id}\"><a class=\"anchor\" href=\"#{id}\">{title}</a></h2>\n"
        )));
        self.in_section = true;
    }

    fn end_section(&mut self) {
        if self.in_section {
            self.events.push(raw("</section>\n".to_owned()));
        }
    }
}

fn raw(html: String) -> Event<'static> {
    Event::InlineHtml(CowStr::from(html))
}

fn slug(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

/// Returns the address of the text about an error code or an operation.
fn explained_at(code: &str) -> Option<String> {
    if code == "GET /v1/usage" {
        return Some("/docs#getUsage".to_owned());
    }
    ErrorReason::named(code).map(error_page_path)
}

/// Returns the programs that a comment names, with their name.
fn sample_named(comment: &str) -> Option<&'static (&'static str, [&'static str; LANGUAGES.len()])> {
    let name = comment.trim().strip_prefix("<!-- sample: ")?.strip_suffix(" -->")?;
    SAMPLES.iter().find(|(known, _)| *known == name)
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
