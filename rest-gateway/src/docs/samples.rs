//! Complete sample programs for the pages. `scripts/browser` runs each against the service.

use std::fmt::Write as _;

use super::html::escaped;

/// One program in every language.
#[derive(Debug)]
struct Sample {
    name: &'static str,
    programs: [&'static str; LANGUAGES.len()],
}

/// Languages by their names in the style sheet and on the pages. Samples of requests, which the browser makes
/// (`assets/samples.mjs`), use the same languages.
const LANGUAGES: [(&str, &str); 4] =
    [("curl", "curl"), ("python", "Python"), ("javascript", "JavaScript"), ("go", "Go")];

const SAMPLES: [Sample; 3] = [
    Sample {
        name: "paging",
        programs: [
            include_str!("samples/paging.sh"),
            include_str!("samples/paging.py"),
            include_str!("samples/paging.mjs"),
            include_str!("samples/paging.go"),
        ],
    },
    Sample {
        name: "idempotency",
        programs: [
            include_str!("samples/idempotency.sh"),
            include_str!("samples/idempotency.py"),
            include_str!("samples/idempotency.mjs"),
            include_str!("samples/idempotency.go"),
        ],
    },
    Sample {
        name: "backoff",
        programs: [
            include_str!("samples/backoff.sh"),
            include_str!("samples/backoff.py"),
            include_str!("samples/backoff.mjs"),
            include_str!("samples/backoff.go"),
        ],
    },
];

/// Returns the HTML with each `{sample NAME}` replaced by that sample.
pub(super) fn filled_in(html: &str) -> String {
    SAMPLES.iter().fold(html.to_owned(), |html, sample| {
        html.replace(&format!("{{sample {}}}", sample.name), &sample.render())
    })
}

impl Sample {
    /// Returns the programs as HTML. The style sheet shows the chosen one, so no script is needed.
    fn render(&self) -> String {
        let name = self.name;
        let mut choices = String::new();
        let mut programs = String::new();
        for ((language, title), program) in LANGUAGES.iter().zip(self.programs) {
            let checked = if choices.is_empty() { " checked" } else { "" };
            let program = escaped(program.trim_end());
            // Writes to Strings cannot fail.
            let _ = write!(
                choices,
                "<label><input type=\"radio\" name=\"{name}\" value=\"{language}\"{checked}>{title}</label>"
            );
            let _ = writeln!(
                programs,
                "<pre data-language=\"{language}\" tabindex=\"0\" role=\"region\" aria-label=\"{title} \
                 program\"><code>{program}</code></pre>"
            );
        }
        format!(
            "<div class=\"sample\"><fieldset class=\"languages\"><legend class=\"unseen\">Language</legend>\
             {choices}</fieldset>\n{programs}</div>\n\
             <p class=\"note\">The programs read <code>PETSTORE_URL</code>, the base address that ends with \
             <code>/v1</code>, and <code>PETSTORE_API_KEY</code> from the environment.</p>\n"
        )
    }
}
