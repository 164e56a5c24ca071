//! `petstore operator`: who may administer the service. A token is shown once, when it is created, and never
//! again.

use clap::{Subcommand, ValueEnum};
use petstore_proto::admin::v1 as admin_v1;
use petstore_proto::admin::v1::{
    CreateOperatorRequest, ListOperatorsRequest, Operator, RevokeOperatorRequest, RotateOperatorRequest,
};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::{
    admin::{AdminSettings, PAGE_SIZE, all_pages, value_name, written},
    core_target::CoreCallError,
    error::CliError,
    output::{self, Confirmation, PrintError, columns},
};

#[derive(Debug, Subcommand)]
pub(crate) enum OperatorCommand {
    /// Create an operator and print its token, once
    Create {
        /// Its name: 1 to 64 letters, digits, dots, underscores and hyphens
        name: String,
        /// What it may do
        #[arg(long, value_enum, value_name = "ROLE")]
        role: RoleName,
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
        #[arg(long)] // no variable: it has to be said each time
        force: bool,
        #[command(flatten)]
        confirmation: Confirmation,
        #[command(flatten)]
        settings: AdminSettings,
    },
}

/// What an operator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Read everything
    Viewer,
    /// Read and change everything
    Admin,
}

impl From<RoleName> for admin_v1::Role {
    fn from(role: RoleName) -> Self {
        match role {
            RoleName::Viewer => Self::Viewer,
            RoleName::Admin => Self::Admin,
        }
    }
}

pub(crate) fn run(verb: OperatorCommand) -> Result<(), CliError> {
    match verb {
        OperatorCommand::Create { name, role, settings } => {
            let request = CreateOperatorRequest { name, role: admin_v1::Role::from(role).into() };
            let created =
                settings.call(async |mut client| Ok(client.create_operator(request).await?.into_inner()))?;
            show_once(&present(created.operator)?, &created.token, &settings)
        }
        OperatorCommand::List(settings) => {
            let operators = settings.call(async |client| {
                let page = async |page_token| {
                    let request = ListOperatorsRequest { page_size: PAGE_SIZE, page_token };
                    let page = client.clone().list_operators(request).await?.into_inner();
                    Ok((page.operators, page.next_page_token))
                };
                Ok(all_pages(page).await?)
            })?;
            settings.print(|| table(&operators), || operators.iter().map(json).collect())
        }
        OperatorCommand::Rotate { name, settings } => {
            let request = RotateOperatorRequest { name };
            let rotated =
                settings.call(async |mut client| Ok(client.rotate_operator(request).await?.into_inner()))?;
            show_once(&present(rotated.operator)?, &rotated.token, &settings)
        }
        OperatorCommand::Revoke { name, force, confirmation, settings } => {
            confirmation.ask(&format!("revoke the token of operator {name}?"))?;
            let revoke = |force| {
                let request = RevokeOperatorRequest { name: name.clone(), force };
                settings
                    .call(async |mut client| Ok(client.revoke_operator(request).await?.into_inner().operator))
            };
            let revoked = match revoke(force) {
                // The core says who would be shut out.
                Err(CliError::Core(refusal)) if is_force_required(&refusal) => {
                    if !confirmation.can_ask() {
                        return Err(refusal.into());
                    }
                    confirmation.ask(&format!("{refusal}. Revoke all the same?"))?;
                    revoke(true)
                }
                answer => answer,
            };
            let operator = present(revoked?)?;
            settings.print(|| format!("operator {} is revoked\n", operator.name), || json(&operator))
        }
    }
}

fn is_force_required(refusal: &CoreCallError) -> bool {
    refusal.status().code() == Code::FailedPrecondition
}

fn present(operator: Option<Operator>) -> Result<Operator, Status> {
    operator.ok_or_else(|| Status::internal("the core's answer has no operator"))
}

/// Shows a new token, alone on stdout, so that it can be piped to where it is kept.
fn show_once(operator: &Operator, token: &str, settings: &AdminSettings) -> Result<(), CliError> {
    let json = || {
        let mut json = json(operator);
        json["token"] = token.into();
        json
    };
    settings.print(|| format!("{token}\n"), json).map_err(|error| match error {
        CliError::Print(PrintError(source)) => {
            CliError::TokenNotShown { operator: operator.name.clone(), source }
        }
        other => other,
    })?;
    if settings.is_text() {
        output::note(&format!(
            "token of operator {} ({}): keep it, it is not shown again",
            operator.name,
            role(operator)
        ));
    }
    Ok(())
}

fn table(operators: &[Operator]) -> String {
    let rows: Vec<_> = operators
        .iter()
        .map(|operator| {
            vec![
                operator.name.clone(),
                role(operator),
                operator.last_four.clone(),
                written(operator.create_time.as_ref(), ""),
                written(operator.last_use_time.as_ref(), "never"),
                written(operator.revoke_time.as_ref(), "no"),
            ]
        })
        .collect();
    columns(&["NAME", "ROLE", "TOKEN ENDS IN", "CREATED", "LAST USED", "REVOKED"], &rows)
}

fn json(operator: &Operator) -> Value {
    let moment =
        |moment: &Option<prost_types::Timestamp>| moment.as_ref().map(|moment| written(Some(moment), ""));
    json!({
        "name": operator.name,
        "role": role(operator),
        "lastFour": operator.last_four,
        "createdAt": moment(&operator.create_time),
        "lastUsedAt": moment(&operator.last_use_time),
        "revokedAt": moment(&operator.revoke_time),
    })
}

fn role(operator: &Operator) -> String {
    value_name(operator.role().as_str_name(), "ROLE_")
}
