//! Compiles `proto/` once for the whole workspace, with protox: no system `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

/// Files with services and error codes. The files that they import are compiled with them.
const ROOTS: [&str; 7] = [
    "petstore/v1/pet_store.proto",
    "petstore/v1/store_service.proto",
    "petstore/v1/error_reason.proto",
    "petstore/admin/v1/admin_service.proto",
    "petstore/internal/v1/batch_service.proto",
    "petstore/internal/v1/key_service.proto",
    "petstore/internal/v1/usage_service.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto/petstore");
    println!("cargo::rerun-if-changed=proto/google");

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true); // comments become rustdoc
    compiler.open_files(ROOTS)?;

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("petstore_descriptor.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .build_transport(false) // both sides choose their own transport, with deadlines
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
