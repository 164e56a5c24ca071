//! `petstore operator`: operators who may administer the service. A token is shown once, when it is created,
//! and never again.

use clap::{Subcommand, builder::PossibleValuesParser};
use petstore_command_line::output::{Column, Confirmation, column, sentence};
use serde_json::json;
use tonic::Code;

use crate::{client::AdminCommand, error::CommandError};

#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// Create an operator and print its token, once
    Create {
        /// Name of the operator: 1 to 64 letters, digits, dots, underscores and hyphens
        name: String,
        /// Role of the operator: a viewer reads everything, an admin also changes it
        #[arg(long, value_parser = PossibleValuesParser::new(["viewer", "admin"]), value_name = "ROLE")]
        role: String,
    },
    /// List the operators, without their tokens
    List,
    /// Replace the token of an operator and print the new one, once; the old one and its sessions end at
    /// once. A revoked operator is valid again
    Rotate {
        /// Name of the operator
        name: String,
    },
    /// Revoke the token of an operator, at once
    Revoke {
        /// Name of the operator
        name: String,
        /// Revoke the token even if it is your own or that of the last admin
        #[arg(long)] // no variable: it must be given each time
        force: bool,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

const COLUMNS: &[Column] = &[
    column("NAME", "name"),
    column("ROLE", "role"),
    column("TOKEN ENDS IN", "lastFour"),
    column("CREATED", "createTime"),
    column("LAST USED", "lastUseTime").or("never"),
    column("REVOKED", "revokeTime").or("no"),
];

const NOTE: &str = "the token of operator {operator.name} ({operator.role}) is shown only once; keep it";
const REMEDY: &str = "replace it with `petstore operator rotate {operator.name}`";

pub(crate) fn run(
    AdminCommand { command, settings }: AdminCommand<OperatorCommand>,
) -> Result<(), CommandError> {
    match command {
        OperatorCommand::Create { name, role } => {
            let request = json!({ "name": name, "role": role });
            settings.run_once("CreateOperator", &request, "token", NOTE, REMEDY)
        }
        OperatorCommand::List => settings.list("ListOperators", &json!({}), COLUMNS),
        OperatorCommand::Rotate { name } => {
            settings.run_once("RotateOperator", &json!({ "name": name }), "token", NOTE, REMEDY)
        }
        OperatorCommand::Revoke { name, force, confirmation } => {
            confirmation.ask(&format!("revoke the token of operator {name}?"))?;
            let revoke = |force| settings.call("RevokeOperator", &json!({ "name": name, "force": force }));
            let revoked = match revoke(force) {
                Err(CommandError::Core(refusal)) if refusal.status().code() == Code::FailedPrecondition => {
                    // After the last semicolon are the words for clients of the API.
                    let said = refusal.to_string();
                    let consequence = said.rsplit_once("; ").map_or(&*said, |(consequence, _)| consequence);
                    if !confirmation.can_ask() {
                        return Err(CommandError::NotForced(consequence.to_owned()));
                    }
                    confirmation.ask(&format!("{consequence}. Revoke it anyway?"))?;
                    revoke(true)
                }
                answer => answer,
            };
            settings.print(&revoked?, |now| sentence("operator {name} is revoked", now))
        }
    }
}
