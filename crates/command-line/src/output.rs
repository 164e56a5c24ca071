//! Output of a command: results on stdout, everything else on stderr.

use std::{
    fmt::Write as _,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    iter,
};

use petstore_caller::api_key::redact;
use petstore_telemetry::logs;
pub use petstore_telemetry::logs::with_causes;
use serde_json::Value;

/// Error of a result that could not be printed.
#[derive(Debug, thiserror::Error)]
#[error("cannot print the result")]
pub struct PrintError(
    /// Error of stdout.
    #[source]
    pub io::Error,
);

impl PrintError {
    /// Returns `true` if the reader of stdout is gone.
    pub fn is_broken_pipe(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// Form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputForm {
    /// For people
    Text,
    /// For programs: one JSON document
    Json,
}

/// Settings of a command's output.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutputSettings {
    /// Form of the result on stdout
    #[arg(
        long,
        global = true,
        env = "PETSTORE_OUTPUT",
        default_value = "text",
        value_enum,
        value_name = "FORM"
    )]
    output: OutputForm,
}

impl OutputSettings {
    /// Returns `true` if results are for people.
    pub fn is_text(self) -> bool {
        self.output == OutputForm::Text
    }

    /// Prints a result in the requested form: as JSON, or as the text that `text` makes of it.
    ///
    /// # Errors
    ///
    /// If stdout cannot be written.
    pub fn print(self, result: &Value, text: impl FnOnce(&Value) -> String) -> Result<(), PrintError> {
        match self.output {
            OutputForm::Text => print(&text(result)),
            OutputForm::Json => print(&format!("{result:#}\n")),
        }
    }
}

/// Prints a result. Unlike `println!`, it fails instead of panicking when the reader of stdout is gone. A
/// stdout that was closed from the start is `/dev/null` (Rust's runtime sees to that).
///
/// # Errors
///
/// If stdout cannot be written.
pub fn print(result: &str) -> Result<(), PrintError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(result.as_bytes()).and_then(|()| stdout.flush()).map_err(PrintError)
}

/// Writes a line that is not a result to stderr. It may repeat what was typed, but no key.
pub fn note(note: &str) {
    // The line may be lost: nothing depends on it.
    let _ = writeln!(io::stderr(), "{}", redact(note));
}

/// Flag of commands that cannot be undone.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Confirmation {
    /// Do not ask for confirmation. Without a terminal, a command never asks
    #[arg(long)] // no variable: it must be given each time
    yes: bool,
}

/// Refusal of the operator to confirm.
#[derive(Debug, thiserror::Error)]
#[error("cancelled; nothing was changed")]
pub struct Declined;

impl Confirmation {
    /// Returns `true` if stdin and stderr are terminals and `--yes` was not given.
    pub fn can_ask(self) -> bool {
        !self.yes && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks for confirmation on a terminal. Scripts are not asked.
    ///
    /// # Errors
    ///
    /// If the answer is not yes.
    pub fn ask(self, question: &str) -> Result<(), Declined> {
        let (stdin, mut stderr) = (io::stdin(), io::stderr());
        if !self.can_ask() {
            return Ok(());
        }
        let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
        let mut answer = String::new();
        match stdin.lock().read_line(&mut answer) {
            Ok(_) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
            Ok(_) | Err(_) => Err(Declined),
        }
    }
}

/// Column of a table whose rows are JSON objects.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    head: &'static str,
    members: &'static str,
    /// Cell of a row without these members.
    otherwise: &'static str,
    /// `true` if the column is left out when no row has these members.
    is_optional: bool,
}

/// Returns a column of the members with these paths, such as `limits.perDay`. Several texts are put side by
/// side, and several numbers are added.
pub const fn column(head: &'static str, members: &'static str) -> Column {
    Column { head, members, otherwise: "", is_optional: false }
}

impl Column {
    /// Returns the column with another cell for rows without its members.
    pub const fn or(self, otherwise: &'static str) -> Self {
        Self { otherwise, ..self }
    }

    /// Returns the column, to be left out when no row has its members.
    pub const fn if_any(self) -> Self {
        Self { is_optional: true, ..self }
    }

    fn cell(&self, row: &Value) -> String {
        let values: Vec<_> = self.members.split(' ').map(|path| member(row, path)).collect();
        if values.len() > 1 && values.iter().all(|value| value.is_i64()) {
            return values.iter().filter_map(|value| value.as_i64()).sum::<i64>().to_string();
        }
        let texts: Vec<_> = values.iter().map(|value| text(value)).filter(|text| !text.is_empty()).collect();
        if texts.is_empty() { self.otherwise.to_owned() } else { texts.join(" ") }
    }
}

/// Returns the table of an array of objects, or of one object. Its columns are as wide as their widest cell,
/// two spaces apart. On a terminal with colour its head is bold.
pub fn table(columns: &[Column], rows: &Value) -> String {
    let rows = rows.as_array().map_or(std::slice::from_ref(rows), Vec::as_slice);
    let is_shown =
        |column: &&Column| !column.is_optional || rows.iter().any(|row| !column.cell(row).is_empty());
    let (is_bold, mut lines) = (logs::has_colour(&io::stdout()), vec![String::new(); rows.len() + 1]);
    for column in columns.iter().filter(is_shown) {
        let cells: Vec<_> =
            iter::once(column.head.to_owned()).chain(rows.iter().map(|row| column.cell(row))).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or_default();
        for (line, cell) in lines.iter_mut().zip(cells) {
            let _ = write!(line, "{cell:width$}  "); // cannot fail: the target is a String
        }
    }
    let mut lines = lines.iter().map(|line| line.trim_end());
    let head = lines.next().unwrap_or_default();
    let head = if is_bold { format!("\u{1b}[1m{head}\u{1b}[0m") } else { head.to_owned() };
    lines.fold(head + "\n", |table, line| table + line + "\n")
}

/// Returns a line in which each `{path}` stands for that member of the answer.
pub fn sentence(template: &str, answer: &Value) -> String {
    let mut parts = template.split('{');
    let mut line = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (path, rest) = part.split_once('}').unwrap_or((part, ""));
        line += &text(member(answer, path));
        line += rest;
    }
    line + "\n"
}

/// Returns the member with this path, or null.
fn member<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |value, name| &value[name])
}

/// Returns a value for people: a list with commas.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Returns the candidate that is most similar to the name, if one is similar enough.
pub fn most_similar(name: &str, candidates: impl IntoIterator<Item = String>) -> Option<String> {
    /// Minimum similarity of two names, from 0 to 1.
    const SIMILARITY: f64 = 0.8;
    let similarity = |candidate: String| (strsim::jaro(&candidate, name), candidate);
    let nearest = candidates.into_iter().map(similarity).max_by(|(a, _), (b, _)| a.total_cmp(b));
    nearest.filter(|(similarity, _)| *similarity > SIMILARITY).map(|(_, candidate)| candidate)
}

/// Returns the error in the form of this program's messages, without its number: `address already in use`.
pub fn reason(error: &io::Error) -> String {
    let text = without_number(&error.to_string());
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// Returns the text without the ` (os error 2)` that Rust adds to the message of the operating system.
pub fn without_number(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_a_column_for_each_member_of_any_row() {
        let columns = [
            column("NAME", "name"),
            column("SUM", "counts.a counts.b"),
            column("WHAT", "x y").or("-"),
            column("END", "end").if_any(),
        ];
        let rows = json!([{ "name": "n", "counts": { "a": 1, "b": 2 } }, { "x": "p", "y": "q" }]);
        let plain = table(&columns, &rows).replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert_eq!(plain, "NAME  SUM  WHAT\nn     3    -\n           p q\n");
        let one = table(&columns, &json!({ "end": "2026-11-22T09:00:00.123Z" }));
        assert!(one.ends_with("END\n           -     2026-11-22T09:00:00.123Z\n"), "{one:?}");
    }

    #[test]
    fn a_sentence_shows_members_of_the_answer() {
        let answer = json!({ "key": { "id": 7 }, "name": "a.b" });
        assert_eq!(sentence("key {key.id} of {name}, {none}", &answer), "key 7 of a.b, \n");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let columns = [column("ID", "id"), column("NAME", "name"), column("END", "end")];
        let rows = json!([{ "id": 1, "name": "Frühling", "end": "x" }, { "id": 20, "name": "a" }]);
        let plain = table(&columns, &rows).replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert_eq!(plain, "ID  NAME      END\n1   Frühling  x\n20  a\n");
    }

    #[test]
    fn the_number_of_an_error_is_not_shown() {
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(without_number("a: B (os error 2): C (os error 111)"), "a: B: C");
        assert_eq!(without_number("a (os error"), "a (os error");
    }
}
