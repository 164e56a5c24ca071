//! What the commands print: results on stdout, everything else on stderr.

use std::{
    fmt::Write as _,
    io::{self, BufRead as _, IsTerminal as _, Write as _},
};

use petstore_api_key::redact;
use petstore_telemetry::logs::{self, LogFormat};

/// A result could not be printed.
#[derive(Debug, thiserror::Error)]
#[error("cannot print the result")]
pub(crate) struct PrintError(#[source] pub(crate) io::Error);

/// The form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputForm {
    /// For people
    Text,
    /// For programs: one JSON document
    Json,
}

/// How a command prints its result.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OutputSettings {
    /// How the result is written to stdout
    #[arg(long, env = "PETSTORE_OUTPUT", default_value = "text", value_enum, value_name = "FORM")]
    output: OutputForm,
}

impl OutputSettings {
    /// Whether results are for people.
    pub(crate) fn is_text(self) -> bool {
        self.output == OutputForm::Text
    }

    /// Prints a result in the requested form.
    pub(crate) fn print(
        self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> serde_json::Value,
    ) -> Result<(), PrintError> {
        match self.output {
            OutputForm::Text => print(&text()),
            OutputForm::Json => print(&format!("{:#}\n", json())),
        }
    }
}

/// Prints a result. Unlike `println!`, it fails instead of panicking when stdout is closed.
pub(crate) fn print(result: &str) -> Result<(), PrintError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(result.as_bytes()).and_then(|()| stdout.flush()).map_err(PrintError)
}

/// Starts the log of a command that ends by itself: only warnings and errors.
pub(crate) fn command_log() {
    let _ = logs::init("warn", LogFormat::Pretty); // the filter is valid
}

/// Writes a line that is not a result to stderr. It may repeat what was typed, but no key.
pub(crate) fn note(note: &str) {
    // Nothing depends on whether it is read.
    let _ = writeln!(io::stderr(), "{}", redact(note));
}

/// The flag of commands that cannot be undone.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Confirmation {
    /// Do not ask for confirmation, which a command does only on a terminal
    #[arg(long)] // no variable: it has to be said each time
    yes: bool,
}

/// The operator did not confirm.
#[derive(Debug, thiserror::Error)]
#[error("nothing was changed")]
pub(crate) struct Declined;

impl Confirmation {
    /// Returns `true` if a person can answer, and wants to.
    pub(crate) fn can_ask(self) -> bool {
        !self.yes && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks whether to go on, if a person can answer. Scripts are not asked.
    pub(crate) fn ask(self, question: &str) -> Result<(), Declined> {
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

/// A table whose columns are as wide as their widest cell, two spaces apart. On a terminal with colour its
/// head is bold.
pub(crate) fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let is_bold = logs::has_colour(&io::stdout());
    let head: Vec<_> = head.iter().map(|&name| name.to_owned()).collect();
    let lines = || std::iter::once(&head).chain(rows);
    let width =
        |at: usize| lines().filter_map(|line| line.get(at)).map(|cell: &String| cell.chars().count()).max();
    let widths: Vec<_> = (0..head.len()).map(|at| width(at).unwrap_or_default()).collect();
    let mut table = String::new();
    for (number, line) in lines().enumerate() {
        let mut row = String::new();
        for (cell, &width) in line.iter().zip(&widths) {
            let _ = write!(row, "{cell:width$}  "); // cannot fail: it is a String
        }
        let row = row.trim_end();
        let _ = if number == 0 && is_bold {
            writeln!(table, "\u{1b}[1m{row}\u{1b}[0m")
        } else {
            writeln!(table, "{row}")
        };
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["1", "Frühling", "x"], ["20", "a", ""]].map(|row| row.map(str::to_owned).to_vec());
        let table = columns(&["ID", "NAME", "END"], &rows);
        let plain = table.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert_eq!(plain, "ID  NAME      END\n1   Frühling  x\n20  a\n");
    }
}
