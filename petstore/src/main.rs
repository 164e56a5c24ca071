//! The `petstore` program; everything it does is in the library of the same name.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A request allocates some thirty times, a few of these more than glibc's allocator keeps per thread
/// (docs/performance.md has what it is worth).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    petstore::run(std::env::args_os())
}
