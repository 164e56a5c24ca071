//! Pages about topics that concern every operation: limits, paging, idempotency.

use std::fmt::Write as _;

use petstore_plans::{ENTERPRISE, FIXED};

use super::{html::HtmlPage, samples};

/// Page about one topic. Its HTML may hold `{plans}` and, at the start of a line, `{sample NAME}`.
#[derive(Debug)]
struct Topic {
    path: &'static str,
    title: &'static str,
    description: &'static str,
    main: &'static str,
}

const TOPICS: [Topic; 3] = [
    Topic {
        path: "/docs/limits",
        title: "Limits, backoff and bans",
        description: "How many requests a plan allows, and how long to wait after a refusal",
        main: include_str!("topics/limits.html"),
    },
    Topic {
        path: "/docs/paging",
        title: "Paging",
        description: "How to read a list page by page",
        main: include_str!("topics/paging.html"),
    },
    Topic {
        path: "/docs/idempotency",
        title: "Idempotency",
        description: "How to repeat an addition without adding twice",
        main: include_str!("topics/idempotency.html"),
    },
];

/// Returns every page with its path.
pub(super) fn pages() -> impl Iterator<Item = (&'static str, String)> {
    TOPICS.iter().map(|topic| {
        let main = samples::filled_in(topic.main).replace("{plans}", &plans_table());
        (topic.path, HtmlPage { title: topic.title, description: topic.description, main: &main }.render())
    })
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
    let enterprise = capitalized(ENTERPRISE);
    format!(
        "<div class=\"scrolls\"><table class=\"facts-table plans\">\
         <thead><tr><th scope=\"col\">Plan</th><th scope=\"col\">Requests per minute</th>\
         <th scope=\"col\">Requests per day</th></tr></thead>\n<tbody>\n{rows}\
         <tr><th scope=\"row\">{enterprise}</th><td>as agreed</td><td>as \
         agreed</td></tr>\n</tbody></table></div>\n"
    )
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
