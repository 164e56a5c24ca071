//! `petstore openapi`: the document that the REST port serves too.

use crate::{error::Failure, output};

pub(crate) fn run() -> Result<(), Failure> {
    output::print(&format!("{:#}\n", petstore_gateway::openapi()))
}
