//! The requests of a check. None of those without `--write` adds a pet, not even if the service accepts it.

use bytes::Bytes;
use http::Method;

/// Authorization with a key that no service has issued.
const MADE_UP: (&str, &str) = ("authorization", "Bearer pet_check_0");
const JSON: (&str, &str) = ("content-type", "application/json");

/// Request, and the answer that the contract gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckRequest {
    /// Name for the clauses that judge more than status and code of the answer.
    pub(crate) name: &'static str,
    /// Clause that gives status and code.
    pub(crate) clause: &'static str,
    pub(crate) method: Method,
    /// Path and query below the base address, or, after `/..`, of the host.
    pub(crate) path: String,
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    /// Length in bytes of a body that is announced in place of this one, and never sent.
    pub(crate) withheld: Option<u64>,
    pub(crate) expected: (u16, &'static str),
    /// `true` if it was sent with the key.
    pub(crate) is_keyed: bool,
}

impl CheckRequest {
    pub(crate) fn new(
        clause: &'static str,
        method: Method,
        path: &str,
        expected: (u16, &'static str),
    ) -> Self {
        Self { clause, method, path: path.to_owned(), expected, ..Self::default() }
    }

    pub(crate) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    pub(crate) fn with(mut self, (name, value): (&'static str, &str)) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }
}

pub(crate) fn get(clause: &'static str, path: &str, status: u16, code: &'static str) -> CheckRequest {
    CheckRequest::new(clause, Method::GET, path, (status, code))
}

/// Returns a createPet with this body.
pub(crate) fn post(clause: &'static str, body: &str, status: u16, code: &'static str) -> CheckRequest {
    let body = Bytes::copy_from_slice(body.as_bytes());
    CheckRequest { body, ..CheckRequest::new(clause, Method::POST, "/pets", (status, code)) }
}

/// Returns the requests without a key. The last three follow one another, so that their counts are compared.
pub(crate) fn without_key() -> Vec<CheckRequest> {
    let fields =
        (0..120).fold(get("10.3", "/pets", 431, "HEADERS_TOO_LARGE"), |asked, _| asked.with(("a", "b")));
    let large = "a".repeat(30 << 10);
    let withheld = CheckRequest { withheld: Some(64), ..post("4.4", "", 401, "INVALID_API_KEY") };
    vec![
        get("5.1", "/pets", 401, "MISSING_API_KEY").named("without a key"),
        get("5.2", "/pets", 401, "MISSING_API_KEY").with(("authorization", "Basic YTpi")),
        get("5.2", "/pets", 401, "INVALID_API_KEY").with(MADE_UP).named("made-up key"),
        get("4.2", "/nothing", 401, "MISSING_API_KEY"),
        get("10.3", &format!("/pets?a={}", "b".repeat(8_000)), 401, "MISSING_API_KEY"),
        get("10.3", "/pets", 401, "MISSING_API_KEY").with(("large", &large)),
        get("10.3", &format!("/pets?a={}", "b".repeat(8 << 10)), 414, "URI_TOO_LONG"),
        fields,
        withheld.with(MADE_UP),
        get("6.9", "/pets", 401, "INVALID_API_KEY").with(MADE_UP).named("first of two"),
        get("6.9", "/pets", 401, "INVALID_API_KEY").with(MADE_UP).named("second of two"),
        CheckRequest::new("7.6.2", Method::OPTIONS, "/pets", (204, "")).named("OPTIONS"),
        get("6.9.2", "/pets", 401, "INVALID_API_KEY")
            .with(MADE_UP)
            .with(("x-forwarded-for", "192.0.2.71"))
            .named("claimed address"),
    ]
}

/// Returns the request of [`without_key`] that is sent from another address.
pub(crate) fn from_other_address() -> CheckRequest {
    CheckRequest::new("7.6.2", Method::OPTIONS, "/pets", (204, "")).named("other address")
}

/// Returns the request for the OpenAPI document, which is beside `/v1`, below `prefix`.
pub(crate) fn document(prefix: &str) -> CheckRequest {
    get("10.6", &format!("/..{prefix}/openapi.json"), 200, "")
        .with(("accept-encoding", "gzip"))
        .named("document")
}

/// Returns the requests with a key that neither add a pet nor depend on another answer. `id` names the first
/// one.
pub(crate) fn with_key(id: &str) -> Vec<CheckRequest> {
    let too_large = format!("{{\"name\":\"{}\"}}", "a".repeat(64 << 10));
    let long_name = "k".repeat(256);
    vec![
        get("7.1", "/pets?limit=1", 200, "").with(("x-request-id", id)).named("page"),
        get("7.1", "/pets", 200, "").named("default page"),
        CheckRequest::new("7.6.1", Method::HEAD, "/pets?limit=1", (200, "")).named("HEAD"),
        get("7.9.1", "/pets?limit=1&nonsense=1", 200, "").named("unknown parameter"),
        get("7.1.5", "/pets?cursor=nonsense", 400, "INVALID_CURSOR"),
        get("7.1.6", "/pets?limit=0", 400, "INVALID_PARAMETER"),
        get("7.1.6", "/pets?limit=101", 400, "INVALID_PARAMETER"),
        get("7.1.7", "/pets?limit=x&status=x", 400, "INVALID_PARAMETER").named("two faults"),
        get("7.2", "/pets?status=Sold", 400, "INVALID_PARAMETER"),
        get("7.2", "/pets?status=sold&limit=100", 200, "").named("sold"),
        get("7.5", &format!("/pets/{}", i64::MAX), 404, "PET_NOT_FOUND").named("unknown pet"),
        get("7.5.1", "/pets/007", 404, "PET_NOT_FOUND"),
        get("7.6.3", "/nothing", 404, "ROUTE_NOT_FOUND"),
        get("7.6.3", "/pets/", 404, "ROUTE_NOT_FOUND"),
        CheckRequest::new("7.6.3", Method::DELETE, "/pets", (405, "METHOD_NOT_ALLOWED")).named("DELETE"),
        CheckRequest { path: "/nothing".to_owned(), ..post("7.6.3", "{}", 404, "ROUTE_NOT_FOUND") },
        post("7.3.1", "{}", 415, "UNSUPPORTED_MEDIA_TYPE").with(("content-type", "text/plain")).named("text"),
        post("7.3.1", "{}", 415, "UNSUPPORTED_MEDIA_TYPE")
            .with(JSON)
            .with(("content-encoding", "gzip"))
            .named("compressed"),
        post("7.3.2", &too_large, 413, "BODY_TOO_LARGE").with(JSON),
        post("7.3.3", r#"{"name":"a","name":"b"}"#, 400, "MALFORMED_JSON").with(JSON),
        post("7.3.4", r#"{"name":7}"#, 400, "VALIDATION_FAILED").with(JSON).named("faulty fields"),
        post("7.4.1", "{}", 400, "INVALID_IDEMPOTENCY_KEY").with(JSON).with(("idempotency-key", &long_name)),
        get("9.3", "/store/orders?limit=1", 200, "").named("orders"),
        get("7.1", "/store/orders", 200, "").named("default orders"),
    ]
}

/// Pet that `--write` adds.
pub(crate) const PET: &str =
    r#"{"name":"Zoë \"contract\" 🐾","categoryId":-9223372036854775808,"id":7,"age":3}"#;
/// Another one, under the same key.
const OTHER_PET: &str = r#"{"name":"Zoë","categoryId":1}"#;

/// Returns the requests that add one pet, or more if the service breaks the contract.
pub(crate) fn writing(key: &str) -> Vec<CheckRequest> {
    let named = ("idempotency-key", key);
    vec![
        post("7.3", PET, 201, "").with(JSON).with(named).named("created"),
        post("7.4.2", PET, 201, "").with(JSON).with(named).named("repeated"),
        post("7.4.3", OTHER_PET, 422, "IDEMPOTENCY_KEY_REUSED").with(JSON).with(named),
        post("2.2", r#"{"name":" ","categoryId":1}"#, 400, "VALIDATION_FAILED").with(JSON),
        post("2.2", r#"{"name":"a","categoryId":1.0}"#, 400, "VALIDATION_FAILED").with(JSON),
        post("2.2", r#"{"name":"a","categoryId":1,"status":null}"#, 400, "VALIDATION_FAILED").with(JSON),
    ]
}
