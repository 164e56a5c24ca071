//! What a request asks for, in a word: the name of its operation in metrics and logs.

use http::Method;

use crate::routes::usage;

/// What a request asks for, by its method and path alone: it is known before anybody is authenticated, and of a request
/// that is refused too. HEAD asks for what GET does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    ListPets,
    CreatePet,
    GetPet,
    ListOrders,
    GetUsage,
    /// OPTIONS: which methods there are, and whether a web page may use them.
    Options,
    /// The OpenAPI document.
    OpenApi,
    /// The pages for people.
    Docs,
    /// Anything else: what a client sends never becomes a name.
    Unmatched,
}

impl Operation {
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        if method == Method::OPTIONS {
            return Self::Options;
        }
        let reads = method == Method::GET || method == Method::HEAD;
        match path {
            "/v1/pets" if reads => Self::ListPets,
            "/v1/pets" if method == Method::POST => Self::CreatePet,
            "/v1/store/orders" if reads => Self::ListOrders,
            usage::PATH if reads => Self::GetUsage,
            "/openapi.json" if reads => Self::OpenApi,
            "/" | "/docs" if reads => Self::Docs,
            path if reads && is_one_below("/v1/pets/", path) => Self::GetPet,
            path if reads && path.starts_with("/docs/") => Self::Docs,
            _ => Self::Unmatched,
        }
    }

    /// The name: where the OpenAPI document has the operation, its `operationId`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ListPets => "listPets",
            Self::CreatePet => "createPet",
            Self::GetPet => "getPet",
            Self::ListOrders => "listOrders",
            Self::GetUsage => "getUsage",
            Self::Options => "options",
            Self::OpenApi => "openapi",
            Self::Docs => "docs",
            Self::Unmatched => "unmatched",
        }
    }

    /// Method and route, as far as there are any: what its span is called.
    pub(crate) fn title(self) -> String {
        let (method, route) = self.route();
        let method = if method == "_OTHER" { "HTTP" } else { method };
        if route.is_empty() { method.to_owned() } else { format!("{method} {route}") }
    }

    /// The method, or `_OTHER`, and the path as a pattern, which may be empty: `http.request.method` and `http.route` of
    /// OpenTelemetry.
    pub(crate) const fn route(self) -> (&'static str, &'static str) {
        match self {
            Self::ListPets => ("GET", "/v1/pets"),
            Self::CreatePet => ("POST", "/v1/pets"),
            Self::GetPet => ("GET", "/v1/pets/{petId}"),
            Self::ListOrders => ("GET", "/v1/store/orders"),
            Self::GetUsage => ("GET", usage::PATH),
            Self::Options => ("OPTIONS", ""),
            Self::OpenApi => ("GET", "/openapi.json"),
            Self::Docs => ("GET", "/docs"),
            Self::Unmatched => ("_OTHER", ""),
        }
    }
}

/// Whether the path is the folder's and exactly one segment more.
fn is_one_below(folder: &str, path: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, path: &str) -> Operation {
        Operation::of(&method.parse().unwrap(), path)
    }

    #[test]
    fn every_operation_of_the_openapi_document_is_known_by_its_name() {
        let document = crate::openapi();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, described) in methods.as_object().unwrap() {
                let method = method.to_uppercase();
                let operation = of(&method, &format!("/v1{}", path.replace("{petId}", "7")));
                assert_eq!(operation.name(), described["operationId"], "{method} {path}");
                assert_eq!(operation.route(), (method.as_str(), format!("/v1{path}").as_str()));
            }
        }
    }

    #[test]
    fn head_asks_for_what_get_does() {
        for path in ["/v1/pets", "/v1/pets/x", "/openapi.json", "/", "/docs", "/docs/errors"] {
            assert_eq!(of("HEAD", path), of("GET", path));
            assert_ne!(of("GET", path), Operation::Unmatched, "{path}");
        }
    }

    #[test]
    fn what_is_served_by_nobody_has_no_name_of_its_own() {
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
            assert_eq!(of(method, path), Operation::Unmatched, "{method} {path}");
        }
        assert_eq!(of("OPTIONS", "/whatever"), Operation::Options);
    }
}
