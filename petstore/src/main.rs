//! The `petstore` program. Its code is in the library of the same name.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Allocator of the process. A request allocates about thirty times, and a few of these allocations exceed
/// what glibc's allocator keeps per thread (measured in docs/performance/experiments.md).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    petstore::run(std::env::args_os())
}
