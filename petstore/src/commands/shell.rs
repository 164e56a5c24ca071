//! `petstore completions` and `petstore man`: what a shell and `man` need, from the definitions of the
//! command line.

use std::{fs, io, path::PathBuf};

use clap::Command;
use clap_complete::Shell;

use crate::{error::CliError, output};

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsSettings {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManSettings {
    /// The folder to write the pages to, one for each command; it is created if it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints a script that completes the commands and flags of `program`.
pub(crate) fn completions(settings: &CompletionsSettings, mut program: Command) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(settings.shell, &mut program, "petstore", &mut script);
    Ok(output::print(&String::from_utf8_lossy(&script))?)
}

/// Writes the manual pages of `program`.
pub(crate) fn man(settings: &ManSettings, program: Command) -> Result<(), CliError> {
    let written = fs::create_dir_all(&settings.folder)
        .and_then(|()| clap_mangen::generate_to(program.disable_help_subcommand(true), &settings.folder));
    written.map_err(|source: io::Error| CliError::Write { folder: settings.folder.clone(), source })
}
