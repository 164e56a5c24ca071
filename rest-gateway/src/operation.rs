//! Operations: the target of a request, and the rules that apply to it. Their table is in [the
//! crate](crate::OPERATIONS). The router is made of it, and `Allow`, authentication, rate limits, usage,
//! metrics, traces and header fields read it.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};

use crate::{OPERATIONS, error::ApiError};

/// One operation, or the placeholder for a request that matches none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// Name in metrics and logs: the `operationId` if the OpenAPI document has the operation.
    pub(crate) name: &'static str,
    /// Method, as in OpenTelemetry's `http.request.method`. HEAD is served wherever GET is.
    pub(crate) method: &'static str,
    /// Path as a pattern, as in OpenTelemetry's `http.route`; empty if there is none.
    pub(crate) path: &'static str,
    pub(crate) counts: Counts,
    pub(crate) stability: Stability,
    /// `true` if it will be removed.
    pub(crate) is_deprecated: bool,
}

/// Limit that a call counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Limits of the account, and its usage.
    Quota,
    /// Separate limit of the operation.
    OwnLimit,
    /// No limit: such an operation needs no API key.
    Nothing,
}

/// Degree to which clients may rely on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stability {
    /// Only additions are made.
    Stable,
    /// It is intended to stay, but may still change incompatibly.
    Beta,
    /// It may change or be removed at any time.
    Experimental,
}

impl Stability {
    /// Returns the value of the header field and of OpenAPI's `x-stability`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Beta => "beta",
            Self::Experimental => "experimental",
        }
    }

    /// Writes the header field if the operation is not stable.
    pub(crate) fn write(self, headers: &mut HeaderMap) {
        if self != Self::Stable {
            headers.insert(
                const { HeaderName::from_static("x-stability") },
                HeaderValue::from_static(self.word()),
            );
        }
    }
}

/// Makes the table of operations and their router. The columns are name, method, path, limit, stability,
/// deprecation and handler. Limit, stability and deprecation belong to the path, so its
/// rows agree in them for every method.
macro_rules! operations {
    ($(($name:literal, $method:ident, $path:literal, $counts:ident, $stability:ident, $is_deprecated:literal)
        => $handler:path;)*) => {
        /// All operations that a handler serves.
        pub(crate) static OPERATIONS: &[operation::Operation] = &[$(operation::Operation {
            name: $name,
            method: stringify!($method),
            path: $path,
            counts: operation::Counts::$counts,
            stability: operation::Stability::$stability,
            is_deprecated: $is_deprecated,
        },)*];

        /// Returns a router of all operations.
        pub(crate) fn router() -> axum::Router<std::sync::Arc<gateway::GatewayState>> {
            use axum::routing::{MethodFilter, on};
            let router = axum::Router::new()$(.route($path, on(MethodFilter::$method, $handler)))*;
            router.method_not_allowed_fallback(operation::other_method)
        }
    };
}

/// Handles a method that no row has for the path.
pub(crate) async fn other_method(method: Method, uri: Uri) -> Result<Response, ApiError> {
    let allow = allowed_methods(uri.path());
    if method == Method::OPTIONS {
        return Ok((StatusCode::NO_CONTENT, [(header::ALLOW, allow)]).into_response());
    }
    Err(ApiError::MethodNotAllowed { allow })
}

/// Path of the catalog of interfaces (RFC 9727), which is part of the documentation.
pub const API_CATALOG: &str = "/.well-known/api-catalog";

/// Request for the documentation, whose paths are those of its pages.
const DOCS: Operation = OUTSIDE_V1.named("docs", "GET", "/docs");

/// Request for no operation, to `/v1` or below. It is counted, so that unknown paths are not a way around the
/// limit. Text of an unauthenticated client never becomes a name.
const UNMATCHED: Operation = Operation {
    name: "unmatched",
    method: "_OTHER",
    path: "",
    counts: Counts::Quota,
    stability: Stability::Stable,
    is_deprecated: false,
};

/// Request for no operation, outside `/v1`.
const OUTSIDE_V1: Operation = Operation { counts: Counts::Nothing, ..UNMATCHED };

impl Operation {
    /// Returns the operation of a request, by its method and path alone. It is known before the client is
    /// authenticated, and also for a request that is refused. The rules of a path also apply to the methods
    /// that it does not serve.
    pub(crate) fn find(method: &Method, path: &str) -> Self {
        let method = if method == Method::HEAD { "GET" } else { method.as_str() };
        let mut rows = OPERATIONS.iter().filter(|row| row.has_path(path)).peekable();
        let of_path = rows.peek().copied();
        let named = rows.find(|row| row.method == method);
        let is_docs =
            || matches!(path, "/" | "/docs" | "/llms.txt" | API_CATALOG) || path.starts_with("/docs/");
        let unmatched = match of_path {
            Some(of_path) => of_path.named(UNMATCHED.name, UNMATCHED.method, UNMATCHED.path),
            None if is_versioned(path) => UNMATCHED,
            None => OUTSIDE_V1,
        };
        match (named, method) {
            (Some(row), _) => *row,
            // Browsers send it without credentials (Fetch Standard).
            (None, "OPTIONS") => {
                Self { counts: Counts::Nothing, ..unmatched.named("options", "OPTIONS", "") }
            }
            (None, "GET") if is_docs() => DOCS,
            (None, _) => unmatched,
        }
    }

    /// Returns `true` if a call for it may begin before it is admitted, because it changes nothing (RFC 9110
    /// §9.2.1).
    pub(crate) fn is_read(&self) -> bool {
        self.method == "GET" && self.counts == Counts::Quota
    }

    /// Returns method and path, as far as there are any, as the name of its span.
    pub(crate) fn title(&self) -> String {
        let method = if self.method == UNMATCHED.method { "HTTP" } else { self.method };
        if self.path.is_empty() { method.to_owned() } else { format!("{method} {}", self.path) }
    }

    /// Returns `true` if a path matches the pattern, in which a segment in braces stands for any segment that
    /// is not empty.
    fn has_path(&self, path: &str) -> bool {
        match self.path.split_once('{') {
            Some((folder, _)) => {
                path.strip_prefix(folder).is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
            }
            None => self.path == path,
        }
    }

    const fn named(self, name: &'static str, method: &'static str, path: &'static str) -> Self {
        Self { name, method, path, ..self }
    }
}

/// Returns `true` if the path belongs to the versioned interface: `/v1` itself and all below it.
pub(crate) fn is_versioned(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the methods that the path serves, for `Allow`.
fn allowed_methods(path: &str) -> String {
    let mut methods = String::new();
    for row in OPERATIONS.iter().filter(|row| row.has_path(path)) {
        methods += if row.method == "GET" { "GET, HEAD" } else { row.method };
        methods += ", ";
    }
    methods + "OPTIONS"
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    fn find(method: &str, path: &str) -> Operation {
        Operation::find(&method.parse().unwrap(), path)
    }

    #[test]
    fn rows_of_one_path_are_found_by_method_and_agree_on_properties_of_the_path() {
        let of_path = |row: &Operation| (row.counts, row.stability, row.is_deprecated);
        for row in OPERATIONS {
            let path =
                row.path.split_once('{').map_or(row.path.to_owned(), |(folder, _)| format!("{folder}7"));
            assert_eq!(find(row.method, &path).name, row.name);
            for method in ["GET", "PATCH"] {
                assert_eq!(of_path(row), of_path(&find(method, &path)), "{method} {path}");
            }
        }
        assert!(find("OPTIONS", "/v1/pets/x").is_deprecated);
    }

    /// Only `getUsage` has no public method.
    #[test]
    fn the_contract_maps_its_methods_to_the_operations() {
        let pool = DescriptorPool::decode(petstore_proto::FILE_DESCRIPTOR_SET).unwrap();
        let http = pool.get_extension_by_name("google.api.http").unwrap();
        let public = pool.services().filter(|service| service.parent_file().package_name() == "petstore.v1");
        let mut mapped = Vec::new();
        for method in public.flat_map(|service| service.methods().collect::<Vec<_>>()) {
            let (options, name) = (method.options(), method.name());
            let rule = options.get_extension(&http);
            for (verb, path) in rule.as_message().unwrap().fields() {
                let Some(path) = path.as_str().filter(|path| path.starts_with('/')) else { continue };
                let path = method.input().fields().fold(path.to_owned(), |path, field| {
                    path.replace(&format!("{{{}}}", field.name()), &format!("{{{}}}", field.json_name()))
                });
                let operation = name[..1].to_ascii_lowercase() + &name[1..];
                mapped.push((operation, verb.name().to_ascii_uppercase(), path));
            }
        }
        mapped.push(("getUsage".into(), "GET".into(), "/v1/usage".into()));
        mapped.sort_unstable();
        let of_v1 = OPERATIONS.iter().filter(|row| is_versioned(row.path));
        let mut rows: Vec<_> =
            of_v1.map(|row| (row.name.into(), row.method.into(), row.path.into())).collect();
        rows.sort_unstable();
        assert_eq!(mapped, rows);
    }

    #[test]
    fn only_reads_that_count_against_the_quota_may_begin_early() {
        for row in OPERATIONS {
            let is_expected = row.method == "GET" && !matches!(row.name, "getUsage" | "openapi");
            assert_eq!(row.is_read(), is_expected, "{}", row.name);
        }
        assert!(![UNMATCHED, DOCS, OUTSIDE_V1].iter().any(Operation::is_read));
    }

    #[test]
    fn head_has_the_operation_of_get() {
        for path in ["/v1/pets", "/v1/pets/x", "/openapi.json", "/", "/docs", "/docs/errors"] {
            assert_eq!(find("HEAD", path).name, find("GET", path).name);
            assert_ne!(find("GET", path).name, "unmatched", "{path}");
        }
    }

    #[test]
    fn unknown_requests_share_one_operation_name() {
        for (method, path) in [
            ("GET", ""),
            ("POST", "/"),
            ("GET", "/v1"),
            ("GET", "/v1/pets/"),
            ("GET", "/v1/pets/1/2"),
            ("GET", "/docsx"),
            ("POST", "/v1/pets/1"),
            ("BREW", "/v1/pets"),
            ("DELETE", "/docs"),
        ] {
            let Operation { name, path: pattern, .. } = find(method, path);
            assert_eq!((name, pattern), ("unmatched", ""), "{method} {path}");
        }
        assert_eq!(find("OPTIONS", "/whatever").name, "options");
    }

    #[test]
    fn only_v1_without_options_needs_a_key_and_counts() {
        for path in ["/v1", "/v1/nothing", "/v1//", "/v1/pets"] {
            assert!(is_versioned(path) && find("POST", path).counts == Counts::Quota, "{path}");
            assert_eq!(find("OPTIONS", path).counts, Counts::Nothing, "{path}");
        }
        for path in ["/", "/docs", "/openapi.json", "/v10", "/pets", "", "*", "/V1/pets", "v1"] {
            assert!(!is_versioned(path) && find("POST", path).counts == Counts::Nothing, "{path}");
        }
    }
}
