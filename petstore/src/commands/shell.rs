//! `petstore completions` and `petstore man`: completion scripts and manual pages, from the definitions of
//! the command line.

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use petstore_command_line::{
    output,
    output_file::{OutputFile, OutputFileError, OutputKind},
};

use crate::error::CliError;

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsSettings {
    /// Shell that the script is for
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManSettings {
    /// Folder for the pages, one for each command; it is created if it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Replace the pages that exist
    #[arg(long)]
    force: bool,
}

/// Prints a script that completes the commands and flags of `program`.
pub(crate) fn completions(settings: &CompletionsSettings, mut program: Command) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(settings.shell, &mut program, "petstore", &mut script);
    Ok(output::print(&String::from_utf8_lossy(&script))?)
}

/// Examples of the commands, one a line.
const EXAMPLES: &str = include_str!("examples.txt");

const EXIT_STATUS: [&str; 6] = [
    "0: the command succeeded.",
    "1: it failed; one line on stderr has the reason.",
    "2: an argument or a setting is invalid, or migrate down lacks --yes; nothing was done.",
    "3: what its arguments name does not exist: account, key, operator, brownout or refusal; or the text has \
     no known key.",
    "4: check found a broken clause of the contract, or a rotated key is still needed.",
    "141: the reader of a pipe was gone before the output was written.",
];

/// Writes the manual pages of `program`: none if one must not be written.
pub(crate) fn man(settings: &ManSettings, program: Command) -> Result<(), CliError> {
    let ManSettings { folder, force } = settings;
    let failed = |source| OutputFileError::Io { file: folder.clone(), source };
    let mut program = program.disable_help_subcommand(true);
    program.build();
    fs::create_dir_all(folder).map_err(failed)?;
    let mut pages = Vec::new();
    write_pages(&program, &mut pages).map_err(failed)?;
    let write = |(name, content): (String, Vec<u8>)| {
        let file = OutputFile::create(&folder.join(name), OutputKind::Text, *force)?;
        file.file().write_all(&content).map_err(|source| file.error(source))?;
        Ok::<_, OutputFileError>(file)
    };
    let pages: Vec<OutputFile> = pages.into_iter().map(write).collect::<Result<_, _>>()?;
    Ok(pages.into_iter().try_for_each(OutputFile::complete)?)
}

/// Adds the page of a command, and those of its subcommands, with their files' names.
fn write_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    command.get_subcommands().try_for_each(|command| write_pages(command, pages))?;
    let page = Man::new(command.clone());
    let mut content = Vec::new();
    page.render(&mut content)?;
    let mut more = Roff::new();
    more.control("SH", ["EXIT STATUS"]);
    for line in EXIT_STATUS {
        more.text([roman(line)]).control("br", []);
    }
    more.control("SH", ["EXAMPLES"]);
    for line in examples(command) {
        more.text([roman(line)]).control("br", []);
    }
    more.to_writer(&mut content)?;
    pages.push((page.get_filename(), content));
    Ok(())
}

/// Returns the examples of a command and of its subcommands.
fn examples(command: &Command) -> impl Iterator<Item = &'static str> {
    let name = format!("{} ", command.get_bin_name().unwrap_or(command.get_name()));
    EXAMPLES.lines().filter(move |line| format!("{line} ").starts_with(&name))
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn every_command_has_an_example_and_every_example_is_a_command() {
        fn check(command: &Command) {
            assert!(examples(command).next().is_some(), "{command:?}");
            command.get_subcommands().for_each(check);
        }
        let mut program = Cli::command().disable_help_subcommand(true);
        program.build();
        check(&program);
        for line in EXAMPLES.lines() {
            assert!(Cli::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
    }
}
