//! The `petstore` program; everything it does is in the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    petstore::run(std::env::args_os())
}
