//! What the commands print: results on stdout, everything else on stderr.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

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

/// Tells the operator something that is not a result.
pub(crate) fn note(note: &str) {
    // Nothing depends on whether it is read.
    let _ = writeln!(io::stderr(), "{note}");
}

/// A table whose columns are as wide as their widest cell, two spaces apart.
pub(crate) fn columns<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let lines = || std::iter::once(&head).chain(rows);
    let widths: [usize; N] = std::array::from_fn(|at| {
        lines().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max().unwrap_or_default()
    });
    let mut table = String::new();
    for line in lines() {
        let mut row = String::new();
        for (cell, width) in line.iter().zip(widths) {
            let _ = write!(row, "{cell:width$}  "); // cannot fail: it is a String
        }
        table.push_str(row.trim_end());
        table.push('\n');
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            ["1".to_owned(), "Frühling".to_owned(), "x".to_owned()],
            ["20".to_owned(), "a".to_owned(), String::new()],
        ];
        assert_eq!(columns(["ID", "NAME", "END"], &rows), "ID  NAME      END\n1   Frühling  x\n20  a\n");
    }
}
