//! Compiles `proto/` once for the whole workspace, with protox: no system `protoc` is needed.

use std::{
    env,
    error::Error,
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

use prost_types::{
    FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, method_options::IdempotencyLevel,
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_source_info(true).include_imports(true); // comments become rustdoc
    compiler.open_files(proto_files(Path::new("proto/petstore"))?)?;
    let files = compiler.file_descriptor_set();

    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("petstore_descriptor.bin"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("unary_requests.rs"), unary_requests(&files)?)?;
    tonic_prost_build::configure()
        .build_transport(false) // both sides choose their own transport, with deadlines
        .extern_path(".petstore.internal.v1.Call", "crate::batch::Call")
        .extern_path(".petstore.internal.v1.Answer", "crate::batch::Answer")
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

/// Writes an `impl UnaryRequest` for the request of each unary method, and the list of the internal methods.
fn unary_requests(files: &FileDescriptorSet) -> Result<String, Box<dyn Error>> {
    let (mut code, mut internal) = (String::new(), String::new());
    for file in &files.file {
        for service in &file.service {
            for method in &service.method {
                let path = format!("{}.{}/{}", file.package(), service.name(), method.name());
                if file.package().contains(".internal.") {
                    writeln!(internal, "    {path:?},")?;
                }
                if !method.client_streaming() && !method.server_streaming() {
                    unary_request(&mut code, files, method, &path)?;
                }
            }
        }
    }
    writeln!(
        code,
        "/// The methods that only gateways call.\npub const INTERNAL_METHODS: &[&str] = &[\n{internal}];"
    )?;
    Ok(code)
}

fn unary_request(
    code: &mut String,
    files: &FileDescriptorSet,
    method: &MethodDescriptorProto,
    path: &str,
) -> Result<(), Box<dyn Error>> {
    let level = method.options.as_ref().map(|options| options.idempotency_level());
    let idempotent = match level.unwrap_or(IdempotencyLevel::IdempotencyUnknown) {
        IdempotencyLevel::NoSideEffects | IdempotencyLevel::Idempotent => "true",
        // AIP-155: the identifier makes it safe to repeat the request.
        IdempotencyLevel::IdempotencyUnknown if has_request_id(files, method.input_type()) => {
            "!self.request_id.is_empty()"
        }
        IdempotencyLevel::IdempotencyUnknown => "false",
    };
    writeln!(
        code,
        "impl UnaryRequest for {} {{
    type Response = {};
    const PATH: &'static str = {path:?};
    const IS_READ: bool = {};
    const FIELD: u32 = {};

    fn is_idempotent(&self) -> bool {{
        {idempotent}
    }}
}}\n",
        rust_type(method.input_type()),
        rust_type(method.output_type()),
        level == Some(IdempotencyLevel::NoSideEffects),
        batch_field(files, method.input_type()),
    )?;
    Ok(())
}

/// Returns the number of the field of a batch's call that carries this request: one of its own, which a
/// release had, or the common one.
fn batch_field(files: &FileDescriptorSet, request: &str) -> i32 {
    let call = messages(files).find(|(name, _)| name == ".petstore.internal.v1.Call");
    let fields = call.into_iter().flat_map(|(_, call)| &call.field);
    fields.clone().find(|field| field.type_name() == request).map_or(8, |field| field.number())
}

fn has_request_id(files: &FileDescriptorSet, message: &str) -> bool {
    let found = messages(files).find(|(name, _)| name == message);
    found.is_some_and(|(_, message)| message.field.iter().any(|field| field.name() == "request_id"))
}

/// Returns the messages that no message contains, with their full names.
fn messages(files: &FileDescriptorSet) -> impl Iterator<Item = (String, &prost_types::DescriptorProto)> {
    let of_file = |file: &'_ FileDescriptorProto| format!(".{}.", file.package());
    files.file.iter().flat_map(move |file| {
        let package = of_file(file);
        file.message_type.iter().map(move |message| (format!("{package}{}", message.name()), message))
    })
}

/// Returns the path of a message's type: `crate::v1::Pet` of `.petstore.v1.Pet`.
fn rust_type(message: &str) -> String {
    message.replacen(".petstore.", "crate.", 1).replace('.', "::")
}
