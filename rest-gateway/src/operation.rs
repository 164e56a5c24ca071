//! The table of operations: the target of a request, and the rules that apply to it. The router and its
//! `Allow`, authentication, rate limits, usage, metrics, traces and header fields read it, and a test
//! compares the OpenAPI document with it.
//!
//! A new operation is a row here, the handler that it names, in [`routes`](crate::routes), and its
//! description in `openapi/document.json`.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use petstore_clock::UnixMillis;

/// One operation, or the placeholder for a request that matches none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) id: Id,
    /// Name in metrics and logs: the `operationId` if the OpenAPI document has the operation.
    pub(crate) name: &'static str,
    /// Method, as in OpenTelemetry's `http.request.method`. HEAD is served wherever GET is.
    pub(crate) method: &'static str,
    /// Path as a pattern, as in OpenTelemetry's `http.route`; empty if there is none.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    pub(crate) counts: Counts,
    pub(crate) stability: Stability,
    pub(crate) deprecation: Option<&'static Deprecation>,
}

/// Callers that an operation accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Callers with a valid API key.
    ApiKey,
    Everybody,
}

/// Limit that a call counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Limits of the account, and its usage.
    Quota,
    /// Separate limit of the operation.
    OwnLimit,
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

/// Deprecation of an operation that will be removed (docs/contract.md, 7.5).
#[derive(Debug)]
pub(crate) struct Deprecation {
    /// `Deprecation` (RFC 9745): `@` and the Unix time in seconds.
    since: HeaderValue,
    /// `Sunset` (RFC 8594): `removed_at` as an HTTP date.
    sunset: HeaderValue,
    /// Time from which the operation answers 410.
    pub(crate) removed_at: UnixMillis,
    /// `Link` (RFC 8288) to the successor.
    successor: HeaderValue,
    /// `Link` to the page that says how to live without the operation (RFC 9745 §3).
    advice: HeaderValue,
}

/// Deprecation of `GET /v1/pets/{petId}`: deprecated since 2025-12-05, removed on 2030-12-05, each at 00:00
/// UTC.
pub(crate) static GET_PET_DEPRECATION: Deprecation = Deprecation {
    since: HeaderValue::from_static("@1764892800"),
    sunset: HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT"),
    removed_at: UnixMillis::from_secs(1_922_659_200),
    successor: HeaderValue::from_static(r#"</v1/pets?status=available>; rel="successor-version""#),
    advice: HeaderValue::from_static(r#"</docs/deprecation>; rel="deprecation"; type="text/html""#),
};

impl Deprecation {
    /// Adds `Deprecation`, `Sunset` and both `Link` fields: clients of 1.0.0 find the first one as it was.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.append(HeaderName::from_static("deprecation"), self.since.clone());
        headers.append(HeaderName::from_static("sunset"), self.sunset.clone());
        headers.append(header::LINK, self.successor.clone());
        headers.append(header::LINK, self.advice.clone());
    }
}

/// Passes the table of operations to a macro: `table`, which makes it, or that of the router. The columns
/// are identity; name, method, path, limit, stability and deprecation; handler. Handlers of rare operations
/// are boxed. Those of operations for callers with an API key get the caller. Access, limit, stability and
/// deprecation belong to the path, so its rows agree in them for every method.
macro_rules! operations {
    ($then:ident) => {
        $then! {
            ApiKey {
                ListPets("listPets", "GET", "/v1/pets", Quota, Stable, None) => direct pets::list;
                CreatePet("createPet", "POST", "/v1/pets", Quota, Stable, None) => boxed pets::create;
                GetPet("getPet", "GET", "/v1/pets/{petId}", Quota, Stable, SUNSET) => direct pets::get;
                ListOrders("listOrders", "GET", "/v1/store/orders", Quota, Experimental, None) =>
                    boxed orders::list;
                GetUsage("getUsage", "GET", "/v1/usage", OwnLimit, Beta, None) => boxed get_usage;
            }
            Everybody {
                OpenApi("openapi", "GET", "/openapi.json", Nothing, Stable, None) => boxed page;
            }
        }
    };
}
pub(crate) use operations;

macro_rules! table {
    ($($access:ident { $($id:ident $row:tt => $future:ident $handler:path;)* })*) => {
        /// Identity of an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Id {
            $($($id,)*)*
            /// The pages for people.
            Docs,
            /// OPTIONS: the methods of a path, and the rights of web pages to use them.
            Options,
            /// Any other request. Text of an unauthenticated client never becomes a name.
            Unmatched,
        }

        /// All operations that a handler serves.
        pub(crate) static OPERATIONS: &[Operation] = {
            use Counts::{Nothing, OwnLimit, Quota};
            use Stability::{Beta, Experimental, Stable};
            const SUNSET: Option<&Deprecation> = Some(&GET_PET_DEPRECATION);
            &[$($(Operation { id: Id::$id, access: Access::$access, ..row $row },)*)*]
        };
    };
}
operations!(table);

/// Path of the catalog of interfaces (RFC 9727), which is part of the documentation.
pub const API_CATALOG: &str = "/.well-known/api-catalog";

/// Request for the documentation, whose paths are those of its pages.
const DOCS: Operation = OUTSIDE_V1.named(Id::Docs, "docs", "GET", "/docs");

/// Request for no operation, to `/v1` or below. It is counted, so that unknown paths are not a way around the
/// limit.
const UNMATCHED: Operation = row("unmatched", "_OTHER", "", Counts::Quota, Stability::Stable, None);

/// Request for no operation, outside `/v1`.
const OUTSIDE_V1: Operation = Operation { access: Access::Everybody, counts: Counts::Nothing, ..UNMATCHED };

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
            Some(of_path) => of_path.named(UNMATCHED.id, UNMATCHED.name, UNMATCHED.method, UNMATCHED.path),
            None if is_versioned(path) => UNMATCHED,
            None => OUTSIDE_V1,
        };
        match (named, method) {
            (Some(row), _) => *row,
            // Browsers send it without credentials (Fetch Standard).
            (None, "OPTIONS") => Self {
                access: Access::Everybody,
                counts: Counts::Nothing,
                ..unmatched.named(Id::Options, "options", "OPTIONS", "")
            },
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

    const fn named(self, id: Id, name: &'static str, method: &'static str, path: &'static str) -> Self {
        Self { id, name, method, path, ..self }
    }
}

/// Returns `true` if the path belongs to the versioned interface: `/v1` itself and all below it.
pub(crate) fn is_versioned(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the methods that the path serves, for `Allow`, or `None` if no row of the table has the path.
pub(crate) fn allow(path: &str) -> Option<String> {
    OPERATIONS.iter().find(|row| row.has_path(path)).map(|row| allowed_methods(row.path))
}

/// Returns the methods that the path of the table serves, for `Allow`.
pub(crate) fn allowed_methods(path: &str) -> String {
    let mut methods = String::new();
    for row in OPERATIONS.iter().filter(|row| row.path == path) {
        methods += if row.method == "GET" { "GET, HEAD" } else { row.method };
        methods += ", ";
    }
    methods + "OPTIONS"
}

/// Returns an operation for callers with a key, without its identity.
const fn row(
    name: &'static str,
    method: &'static str,
    path: &'static str,
    counts: Counts,
    stability: Stability,
    deprecation: Option<&'static Deprecation>,
) -> Operation {
    Operation {
        id: Id::Unmatched,
        name,
        method,
        path,
        access: Access::ApiKey,
        counts,
        stability,
        deprecation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(method: &str, path: &str) -> Operation {
        Operation::find(&method.parse().unwrap(), path)
    }

    #[test]
    fn every_row_is_found_by_its_method_and_path() {
        for row in OPERATIONS {
            let path =
                row.path.split_once('{').map_or(row.path.to_owned(), |(folder, _)| format!("{folder}7"));
            assert_eq!(find(row.method, &path).id, row.id);
        }
    }

    #[test]
    fn rows_of_one_path_agree_on_properties_of_the_path() {
        let of_path = |row: &Operation| {
            (row.access, row.counts, row.stability, row.deprecation.map(|it| it.removed_at))
        };
        for row in OPERATIONS {
            let first = OPERATIONS.iter().find(|first| first.path == row.path).unwrap();
            assert_eq!(of_path(row), of_path(first), "{}", row.path);
        }
    }

    #[test]
    fn only_reads_that_count_against_the_quota_may_begin_early() {
        for row in OPERATIONS {
            let is_expected = row.method == "GET" && !matches!(row.id, Id::GetUsage | Id::OpenApi);
            assert_eq!(row.is_read(), is_expected, "{}", row.name);
        }
        assert!(![UNMATCHED, DOCS, OUTSIDE_V1].iter().any(Operation::is_read));
    }

    #[test]
    fn head_has_the_operation_of_get() {
        for path in ["/v1/pets", "/v1/pets/x", "/openapi.json", "/", "/docs", "/docs/errors"] {
            assert_eq!(find("HEAD", path).id, find("GET", path).id);
            assert_ne!(find("GET", path).id, Id::Unmatched, "{path}");
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
            let Operation { id, name, path: pattern, .. } = find(method, path);
            assert_eq!((id, name, pattern), (Id::Unmatched, "unmatched", ""), "{method} {path}");
        }
        assert_eq!(find("OPTIONS", "/whatever").id, Id::Options);
    }

    #[test]
    fn properties_of_a_path_hold_for_every_method() {
        for method in ["GET", "PATCH", "OPTIONS"] {
            assert!(find(method, "/v1/pets/x").deprecation.is_some());
            assert_eq!(find(method, "/v1/usage").stability, Stability::Beta);
            assert_eq!(find(method, "/v1/store/orders").stability, Stability::Experimental);
        }
        assert_eq!(find("PATCH", "/v1/usage").counts, Counts::OwnLimit);
        for path in ["/v1/pets", "/v1/pets/", "/v1/pets/1/", "/v1/pet/1", "/pets/1", "/v1/store"] {
            let found = find("GET", path);
            assert!(found.deprecation.is_none() && found.stability == Stability::Stable, "{path}");
        }
    }

    #[test]
    fn only_v1_without_options_needs_a_key_and_counts() {
        for path in ["/v1", "/v1/nothing", "/v1//", "/v1/pets"] {
            let (found, options) = (find("POST", path), find("OPTIONS", path));
            assert_eq!((found.access, found.counts), (Access::ApiKey, Counts::Quota), "{path}");
            assert_eq!((options.access, options.counts), (Access::Everybody, Counts::Nothing), "{path}");
        }
        for path in ["/", "/docs", "/openapi.json", "/v10", "/pets"] {
            let found = find("POST", path);
            assert_eq!((found.access, found.counts), (Access::Everybody, Counts::Nothing), "{path}");
        }
    }

    #[test]
    fn the_interface_is_v1_and_all_below_it() {
        for path in ["/v1", "/v1/", "/v1/pets", "/v1//"] {
            assert!(is_versioned(path), "{path}");
        }
        for path in ["", "/", "/v10", "/v2/pets", "/openapi.json", "*", "/V1/pets", "v1"] {
            assert!(!is_versioned(path), "{path}");
        }
    }

    #[test]
    fn the_removal_date_is_the_same_in_clock_and_header() {
        assert_eq!(GET_PET_DEPRECATION.removed_at.to_string(), "2030-12-05T00:00:00Z");
        let mut headers = HeaderMap::new();
        GET_PET_DEPRECATION.write(&mut headers);
        assert_eq!(headers["sunset"], "Thu, 05 Dec 2030 00:00:00 GMT");
        assert_eq!(headers["deprecation"], "@1764892800");
        assert_eq!(headers["link"], r#"</v1/pets?status=available>; rel="successor-version""#);
        assert_eq!(headers.get_all("link").iter().count(), 2, "the second one is the page about it");
    }
}
