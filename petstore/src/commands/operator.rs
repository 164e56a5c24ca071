//! `petstore operator`: operators who may administer the service. A token is shown once, when it is created,
//! and never again.

use clap::{Subcommand, builder::PossibleValuesParser};
use serde_json::json;
use tonic::Code;

use crate::{
    admin::AdminSettings,
    error::CliError,
    output::{Column, Confirmation, column, sentence, table},
};

#[derive(Debug, Subcommand)]
pub(crate) enum OperatorCommand {
    /// Create an operator and print its token, once
    Create {
        /// Its name: 1 to 64 letters, digits, dots, underscores and hyphens
        name: String,
        /// What it may do: a viewer reads everything, an admin also changes it
        #[arg(long, value_parser = PossibleValuesParser::new(["viewer", "admin"]), value_name = "ROLE")]
        role: String,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// List the operators, without their tokens
    List(AdminSettings),
    /// Give an operator a new token and print it, once; the old one and its sessions end at once. A revoked
    /// operator may then act again
    Rotate {
        /// The operator's name
        name: String,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Revoke the token of an operator, at once
    Revoke {
        /// The operator's name
        name: String,
        /// Revoke also yourself or the last admin
        #[arg(long)] // no variable: it must be given each time
        force: bool,
        #[command(flatten)]
        confirmation: Confirmation,
        #[command(flatten)]
        settings: AdminSettings,
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

const NOTE: &str = "token of operator {operator.name} ({operator.role}): keep it, it is not shown again";
const REMEDY: &str = "`petstore operator rotate {operator.name}` makes another one and ends this one";

pub(crate) fn run(verb: OperatorCommand) -> Result<(), CliError> {
    match verb {
        OperatorCommand::Create { name, role, settings } => {
            let request = json!({ "name": name, "role": role });
            settings.run_once("CreateOperator", &request, "token", NOTE, REMEDY)
        }
        OperatorCommand::List(settings) => {
            settings.list("ListOperators", &json!({}), usize::MAX, |page| table(COLUMNS, &page["operators"]))
        }
        OperatorCommand::Rotate { name, settings } => {
            settings.run_once("RotateOperator", &json!({ "name": name }), "token", NOTE, REMEDY)
        }
        OperatorCommand::Revoke { name, force, confirmation, settings } => {
            confirmation.ask(&format!("revoke the token of operator {name}?"))?;
            let revoke = |force| settings.call("RevokeOperator", &json!({ "name": name, "force": force }));
            let revoked = match revoke(force) {
                // The core's refusal names the operators who would be locked out.
                Err(CliError::Core(refusal))
                    if refusal.status().code() == Code::FailedPrecondition && confirmation.can_ask() =>
                {
                    confirmation.ask(&format!("{refusal}. Revoke all the same?"))?;
                    revoke(true)
                }
                answer => answer,
            };
            settings.print(&revoked?, |now| sentence("operator {name} is revoked", now))
        }
    }
}
