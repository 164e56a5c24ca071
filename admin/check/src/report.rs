//! Result of a check, as text, JSON or `JUnit`.

use std::fmt::Write as _;

use petstore_caller::api_key::redact;
use serde_json::{Value, json};

use crate::answer::Finding;

/// Result of a check: each clause with its number and sentence, and whether it was kept.
#[derive(Debug)]
pub struct CheckReport {
    pub(crate) base_url: String,
    pub(crate) requests: usize,
    pub(crate) clauses: Vec<CheckedClause>,
}

#[derive(Debug)]
pub(crate) struct CheckedClause {
    pub(crate) number: &'static str,
    pub(crate) sentence: &'static str,
    pub(crate) finding: Option<Finding>,
}

impl CheckedClause {
    fn result(&self) -> &'static str {
        match self.finding {
            None => "kept",
            Some(Finding::Broken(_)) => "broken",
            Some(Finding::NotTried(_)) => "not tried",
        }
    }

    /// Returns what came, or why it was not tried. It may repeat what a stranger answered, but no key.
    fn reason(&self) -> String {
        match &self.finding {
            None => String::new(),
            Some(Finding::Broken(reason) | Finding::NotTried(reason)) => {
                let visible =
                    reason.chars().map(|character| if character.is_control() { ' ' } else { character });
                redact(&visible.collect::<String>()).into_owned()
            }
        }
    }
}

impl CheckReport {
    /// Returns the number of clauses that are broken.
    pub fn broken(&self) -> usize {
        self.count("broken")
    }

    fn count(&self, result: &str) -> usize {
        self.clauses.iter().filter(|clause| clause.result() == result).count()
    }

    fn summary(&self) -> String {
        let counts = ["kept", "broken", "not tried"].map(|result| format!("{} {result}", self.count(result)));
        format!("{}: {}, in {} requests", self.base_url, counts.join(", "), self.requests)
    }

    /// Returns a line for each clause, and one below it with what came instead.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for clause in &self.clauses {
            let _ = writeln!(text, "{:9}  {:6} {}", clause.result(), clause.number, clause.sentence);
            if clause.finding.is_some() {
                let _ = writeln!(text, "{:18}{}", "", clause.reason());
            }
        }
        text + &self.summary() + "\n"
    }

    /// Returns the JSON document.
    pub fn json(&self) -> Value {
        let clauses = self.clauses.iter().map(|clause| {
            json!({
                "clause": clause.number,
                "sentence": clause.sentence,
                "result": clause.result(),
                "reason": clause.reason(),
            })
        });
        json!({
            "baseUrl": self.base_url,
            "requests": self.requests,
            "kept": self.count("kept"),
            "broken": self.count("broken"),
            "notTried": self.count("not tried"),
            "clauses": clauses.collect::<Vec<_>>(),
        })
    }

    /// Returns the report in the XML of `JUnit`, with a test case for each clause.
    pub fn junit(&self) -> String {
        let (tests, failures, skipped) = (self.clauses.len(), self.count("broken"), self.count("not tried"));
        let mut xml = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{}\" tests=\"{tests}\" \
             failures=\"{failures}\" skipped=\"{skipped}\">\n",
            escaped(&self.base_url)
        );
        for clause in &self.clauses {
            let element = match clause.finding {
                None => "",
                Some(Finding::Broken(_)) => "failure",
                Some(Finding::NotTried(_)) => "skipped",
            };
            let name = escaped(&format!("{} {}", clause.number, clause.sentence));
            let _ = write!(xml, "  <testcase classname=\"contract\" name=\"{name}\"");
            let _ = match element {
                "" => writeln!(xml, "/>"),
                element => {
                    writeln!(xml, "><{element} message=\"{}\"/></testcase>", escaped(&clause.reason()))
                }
            };
        }
        xml + "</testsuite>\n"
    }
}

/// Returns the text as the value of an XML attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
