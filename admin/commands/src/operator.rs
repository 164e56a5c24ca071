//! `petstore operator`: operators who may administer the service. A token is shown once, when it is created,
//! and never again.

use std::time::Duration;

use clap::{Subcommand, builder::PossibleValuesParser};
use petstore_clock::format_duration;
use petstore_command_line::output::{Column, Confirmation, column, sentence, table};
use petstore_core_client::failure_text;
use petstore_settings::value::duration;
use serde_json::json;
use tonic::Code;

use crate::{
    client::AdminCommand,
    error::CommandError,
    key::{Lifetime, lifetime},
};

#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// Create an operator and print its token, once
    Create {
        /// Name of the operator: 1 to 64 letters, digits, dots, underscores and hyphens
        name: String,
        /// Role of the operator: a viewer reads everything, an admin also changes it
        #[arg(long, value_parser = PossibleValuesParser::new(["viewer", "admin"]), value_name = "ROLE")]
        role: String,
        /// Lifetime of the token, as in 90d; unlimited by default
        #[arg(long, alias = "ttl", value_parser = duration, value_name = "TIME")]
        expires_in: Option<Duration>,
    },
    /// List the operators, without their tokens
    List,
    /// Replace the token of an operator and print the new one, once; the old one and its sessions end at
    /// once. A revoked operator is valid again
    Rotate {
        /// Name of the operator
        name: String,
        /// Lifetime of the new token, as in 90d, or `never`; required if the old one expires
        #[arg(long, alias = "ttl", value_parser = lifetime, value_name = "TIME")]
        expires_in: Option<Lifetime>,
    },
    /// List the open sessions of all operators, without their tokens
    Sessions,
    /// End a session of an operator at once
    EndSession {
        /// Identifier of the session, from `petstore operator sessions`
        id: String,
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
    column("EXPIRES", "expireTime").if_any(),
];
const SESSIONS: &[Column] = &[
    column("ID", "id"),
    column("OPERATOR", "operator"),
    column("OPENED", "createTime"),
    column("FROM", "clientAddress"),
    column("ENDS IF UNUSED", "expireTime"),
];

const NOTE: &str = "the token of operator {operator.name} ({operator.role}) is shown only once; keep it";
const REMEDY: &str = "replace it with `petstore operator rotate {operator.name}`";

pub(crate) fn run_operator(
    AdminCommand { command, settings }: AdminCommand<OperatorCommand>,
) -> Result<(), CommandError> {
    match command {
        OperatorCommand::Create { name, role, expires_in } => {
            let request = json!({ "name": name, "role": role, "ttl": expires_in.map(format_duration) });
            settings.run_once("CreateOperator", &request, "token", NOTE, REMEDY)
        }
        OperatorCommand::List => settings.list("ListOperators", &json!({}), COLUMNS),
        OperatorCommand::Rotate { name, expires_in } => {
            let request = json!({
                "name": name,
                "ttl": expires_in.flatten().map(format_duration),
                "never": (expires_in == Some(None)).then_some(true),
            });
            settings.run_once("RotateOperator", &request, "token", NOTE, REMEDY)
        }
        OperatorCommand::Sessions => {
            let answer = settings.call("ListSessions", &json!({}))?;
            settings.print(&answer, |answer| table(SESSIONS, &answer["sessions"]))
        }
        OperatorCommand::EndSession { id } => {
            settings.say("RevokeSession", &json!({ "id": id }), "session {id} is not open")
        }
        OperatorCommand::Revoke { name, force, confirmation } => {
            confirmation.ask(&format!("revoke the token of operator {name}?"))?;
            let revoke = |force| settings.call("RevokeOperator", &json!({ "name": name, "force": force }));
            let revoked = match revoke(force) {
                Err(CommandError::Core(refusal)) if refusal.code() == Code::FailedPrecondition => {
                    // After the last semicolon are the words for clients of the API.
                    let said = failure_text(&refusal);
                    let consequence = said.rsplit_once("; ").map_or(&*said, |(consequence, _)| consequence);
                    if !confirmation.can_ask() {
                        let refusal = format!("{consequence}; add --force to confirm");
                        return Err(CommandError::Failed(refusal));
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
