//! Attributes of gRPC calls in spans.

use opentelemetry::KeyValue;

/// Status codes by their number (gRPC, "Status codes and their use").
#[rustfmt::skip]
const STATUS: [&str; 17] = [
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
    "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
];

/// Returns the name of a status code.
pub fn status(code: i32) -> &'static str {
    usize::try_from(code).ok().and_then(|code| STATUS.get(code)).copied().unwrap_or("UNKNOWN")
}

/// Returns `true` if the status means that the server failed, and not that the call was refused.
pub fn is_server_fault(code: i32) -> bool {
    matches!(
        status(code),
        "UNKNOWN" | "DEADLINE_EXCEEDED" | "UNIMPLEMENTED" | "INTERNAL" | "UNAVAILABLE" | "DATA_LOSS"
    )
}

/// Returns the attributes of a call's span at its start. The method is `package.Service/Method`.
pub fn call(method: impl Into<opentelemetry::Value>) -> [KeyValue; 2] {
    [KeyValue::new("rpc.system.name", "grpc"), KeyValue::new("rpc.method", method)]
}

/// Returns the attributes of a call's span at its end.
pub fn answered(code: i32) -> [KeyValue; 1] {
    [KeyValue::new("rpc.response.status_code", status(code))]
}
