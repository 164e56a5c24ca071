//! Commands that administer the service, import and export of pets among them. The program that has them adds
//! them to its own commands.
//!
//! A command calls a core over gRPC, with a token, or works on a store in its own process, as its flags say.
//! The flags of the two targets exclude each other. Results are JSON of the admin API, or text made of it. A
//! [`CommandError`] is a sentence for the person at the terminal, and has an exit code.
//!
//! ```
//! use clap::Parser;
//! use petstore_admin_commands::{AdminVerb, CommandError};
//!
//! #[derive(Parser)]
//! enum Program {
//!     #[command(flatten)]
//!     Admin(AdminVerb),
//! }
//!
//! fn run(Program::Admin(verb): Program) -> Result<(), CommandError> {
//!     verb.run()
//! }
//!
//! let database = ["--database-url", "sqlite:///nonexistent/petstore.db"];
//! let program = Program::parse_from(["petstore", "account", "list"].iter().chain(&database));
//! assert_eq!(run(program).unwrap_err().exit_code(), 1);
//! ```

// In layers, the highest first: the commands, bulk, client, core_target, error. A module uses those after it.
mod account;
mod bulk;
mod client;
mod core_target;
mod error;
mod key;
mod operator;
mod reports;

use clap::Subcommand;

#[cfg(feature = "fuzzing")]
pub use crate::bulk::{
    export::fuzz_export,
    import::{FuzzedChunk, fuzz_import},
};
pub use crate::error::CommandError;
use crate::{
    bulk::{export, import},
    client::AdminCommand,
};

/// Commands of operators.
#[derive(Debug, Subcommand)]
pub enum AdminVerb {
    /// Manage accounts and their plans
    Account(AdminCommand<account::AccountCommand>),
    /// Manage API keys
    Key(AdminCommand<key::KeyCommand>),
    /// Manage bans of API keys
    Ban(AdminCommand<key::BanCommand>),
    /// Rehearse the removal of getPet: plan and cancel periods in which it is refused
    Brownout(AdminCommand<account::BrownoutCommand>),
    /// Show who still calls the deprecated getPet, beside their other requests
    Deprecation(reports::DeprecationSettings),
    /// Show the usage of an account or of all, and the accounts near their limits
    Usage(reports::UsageSettings),
    /// Show the load of the last minutes over all accounts, and the reasons of refusals
    Overview(reports::OverviewSettings),
    /// Manage operators and their tokens
    Operator(AdminCommand<operator::OperatorCommand>),
    /// Show the changes that operators have made
    Audit(reports::AuditSettings),
    /// Explain why requests were refused in the last 24 hours
    Explain(reports::ExplainSettings),
    /// Add pets from a file, each line once
    Import(import::ImportSettings),
    /// Write the pets to a file
    Export(export::ExportSettings),
}

impl AdminVerb {
    /// Runs the command, and prints its result.
    ///
    /// # Errors
    ///
    /// If a setting or a file cannot be used, the core refuses a call or is unreachable, lines of an import
    /// are invalid, or the result cannot be printed.
    pub fn run(self) -> Result<(), CommandError> {
        match self {
            Self::Account(command) => account::run_account(command),
            Self::Key(command) => key::run_key(command),
            Self::Ban(command) => key::run_ban(command),
            Self::Brownout(command) => account::run_brownout(command),
            Self::Deprecation(settings) => reports::deprecation(&settings),
            Self::Usage(settings) => reports::usage(&settings),
            Self::Overview(settings) => reports::overview(&settings),
            Self::Operator(command) => operator::run_operator(command),
            Self::Audit(settings) => reports::audit(&settings),
            Self::Explain(settings) => reports::explain(&settings),
            Self::Import(settings) => import::import_pets(&settings),
            Self::Export(settings) => export::export_pets(&settings),
        }
    }
}
