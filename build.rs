//! Compiles `proto/` once for the whole workspace, with protox: no system `protoc` is needed.

use std::{
    env,
    error::Error,
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

use prost_types::{FileDescriptorSet, method_options::IdempotencyLevel};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true); // comments become rustdoc
    compiler.open_files(proto_files(Path::new("proto/petstore"))?)?;
    let files = compiler.file_descriptor_set();

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("petstore_descriptor.bin"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("rpcs.rs"), rpcs(&files)?)?;
    tonic_prost_build::configure()
        .build_transport(false) // both sides choose their own transport, with deadlines
        .bytes(".petstore.internal.v1.Call.message")
        .bytes(".petstore.internal.v1.Answer.message")
        .compile_fds(files)?;
    Ok(())
}

/// Returns every `.proto` file in the folder and those below it, in order.
fn proto_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(proto_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Writes a constant for each method that clients and gateways call, with what its descriptor says, and lists
/// of them. Those of operators are read from the descriptors at run time.
fn rpcs(files: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let (mut code, mut names, mut internal) = (String::new(), Vec::new(), Vec::new());
    for file in files.file.iter().filter(|file| !file.package().contains(".admin.")) {
        for service in &file.service {
            for method in &service.method {
                let path = format!("{}.{}/{}", file.package(), service.name(), method.name());
                let is_internal = file.package().contains(".internal.");
                let level = method.options.clone().unwrap_or_default().idempotency_level();
                writeln!(
                    code,
                    "/// `{path}`.\npub const {}: Rpc = Rpc {{ number: {}, path: {path:?}, \
                     is_internal: {is_internal}, is_read: {}, is_idempotent: {}, takes_stream: {}, \
                     returns_stream: {} }};",
                    constant(method.name()),
                    names.len(),
                    level == IdempotencyLevel::NoSideEffects,
                    level != IdempotencyLevel::IdempotencyUnknown,
                    method.client_streaming(),
                    method.server_streaming(),
                )?;
                names.push(constant(method.name()));
                internal.extend(is_internal.then(|| format!("{path:?}")));
            }
        }
    }
    writeln!(code, "/// Every method.\npub const RPCS: [Rpc; {}] = [{}];", names.len(), names.join(", "))?;
    let internal = internal.join(", ");
    writeln!(code, "/// Paths of the internal ones.\npub const INTERNAL_METHODS: &[&str] = &[{internal}];")?;
    Ok(code)
}

/// Returns the name of a constant: `GET_PET` of `GetPet`.
fn constant(method: &str) -> String {
    let words = method.char_indices().map(|(at, letter)| {
        let mark = if at > 0 && letter.is_ascii_uppercase() { "_" } else { "" };
        format!("{mark}{}", letter.to_ascii_uppercase())
    });
    words.collect()
}
