//! `petstore openapi`: the document that the REST port serves too.

use crate::{error::CliError, output};

pub(crate) fn run() -> Result<(), CliError> {
    Ok(output::print(&format!("{:#}\n", petstore_gateway::openapi()))?)
}
