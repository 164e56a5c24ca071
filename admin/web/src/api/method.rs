//! Methods of the admin service, and the HTTP requests that map to them (`google.api.http`), from the
//! descriptors.

use std::{collections::HashSet, sync::LazyLock};

use http::{Method, StatusCode, uri::PathAndQuery};
use percent_encoding::percent_decode_str;
use petstore_gateway::ApiError;
use petstore_proto::FILE_DESCRIPTOR_SET;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor,
    ReflectMessage, ServiceDescriptor, Value,
};

use super::{error::AdminApiError, json};

const SERVICE: &str = "petstore.admin.v1.AdminService";

/// Descriptors of everything that `proto/` declares. They are built into the program, and a test proves that
/// they can be read.
static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap_or_default());

/// A method of the admin service.
#[derive(Clone, Debug)]
pub(super) struct AdminMethod(MethodDescriptor);

/// HTTP request that maps to a method.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) http_method: Method,
    /// Path, in which `{name}` is a segment: the field with that name in JSON.
    pub(super) path: String,
    /// Field that is the body, or `*` for all fields that are not in the path; `None` if there is no body.
    pub(super) body: Option<String>,
    /// Field of the answer that is the body; `None` if all of the answer is.
    pub(super) response_body: Option<String>,
    /// Fields that are no parameters.
    pub(super) without: &'static [&'static str],
}

fn service() -> Option<ServiceDescriptor> {
    POOL.get_service_by_name(SERVICE)
}

/// Returns every method with each request that maps to it, in their order.
pub(super) fn bindings() -> Vec<(AdminMethod, Binding)> {
    let methods = service().into_iter().flat_map(|service| service.methods().collect::<Vec<_>>());
    methods
        .flat_map(|method| rules(&method).into_iter().map(move |rule| (AdminMethod(method.clone()), rule)))
        .collect()
}

/// Returns the annotation of a method, and its additional bindings.
fn rules(method: &MethodDescriptor) -> Vec<Binding> {
    let Some(extension) = POOL.get_extension_by_name("google.api.http") else { return Vec::new() };
    let options = method.options();
    let Some(rule) = options.get_extension(&extension).as_message().cloned() else { return Vec::new() };
    let more = rule.get_field_by_name("additional_bindings");
    let more = more.as_deref().and_then(Value::as_list).unwrap_or_default().iter();
    let read = |rule: &DynamicMessage| Binding::read(rule, &method.input());
    let more = more.filter_map(Value::as_message).filter_map(read);
    read(&rule).into_iter().chain(more.collect::<Vec<_>>()).collect()
}

impl AdminMethod {
    /// Returns the method with this name.
    pub(super) fn find(name: &str) -> Option<Self> {
        service()?.methods().find(|method| method.name() == name).map(Self)
    }

    pub(super) fn name(&self) -> &str {
        self.0.name()
    }

    pub(super) fn descriptor(&self) -> &MethodDescriptor {
        &self.0
    }

    /// Returns the request that a JSON object describes, with all its fields as members. Those that are null
    /// or empty lists are options that were not given.
    ///
    /// # Errors
    ///
    /// If the object is not such a request. The text names the fault in one line.
    pub(super) fn read(&self, request: &serde_json::Value) -> Result<DynamicMessage, String> {
        let members = request.as_object().ok_or("the request must be an object")?;
        let mut message = self.request();
        let fields: Vec<_> = self.0.input().fields().collect();
        let faults = json::set_members(&mut message, &fields, &json::given(members), "");
        if faults.is_empty() { Ok(message) } else { Err(faults.join("; ")) }
    }

    /// Returns the body that answers the first HTTP request that maps to the method.
    pub(super) fn body(&self, answer: &DynamicMessage) -> serde_json::Value {
        json::body(answer, rules(&self.0).first().and_then(|binding| binding.response_body.as_deref()))
    }

    /// Returns an empty request.
    pub(super) fn request(&self) -> DynamicMessage {
        DynamicMessage::new(self.0.input())
    }

    pub(super) fn grpc_path(&self) -> PathAndQuery {
        // Names of services and methods are always a path.
        PathAndQuery::try_from(format!("/{SERVICE}/{}", self.name()))
            .unwrap_or_else(|_| PathAndQuery::from_static("/"))
    }

    pub(super) fn success_status(&self) -> StatusCode {
        if self.name().starts_with("Create") { StatusCode::CREATED } else { StatusCode::OK }
    }
}

/// Returns `true` if requests must have the field.
pub(super) fn is_required(field: &FieldDescriptor) -> bool {
    json::has_behavior(field, 2)
}

impl Binding {
    fn read(rule: &DynamicMessage, input: &MessageDescriptor) -> Option<Self> {
        let text = |field: &str| {
            let value = rule.get_field_by_name(field)?.as_str()?.to_owned();
            Some(value).filter(|value| !value.is_empty())
        };
        let mut methods = [Method::GET, Method::POST, Method::PATCH, Method::DELETE].into_iter();
        let of_rule = |method: Method| Some((text(&method.as_str().to_ascii_lowercase())?, method));
        let (path, http_method) = methods.find_map(of_rule)?;
        let in_json = |path: String, field: FieldDescriptor| {
            path.replace(&format!("{{{}}}", field.name()), &format!("{{{}}}", field.json_name()))
        };
        let path = input.fields().fold(path, in_json);
        let (body, response_body) = (text("body"), text("response_body"));
        Some(Self { http_method, body, response_body, ..Self::get(&path) })
    }

    /// Returns the binding of a GET whose answer is the whole message.
    pub(super) fn get(path: &str) -> Self {
        let (http_method, path) = (Method::GET, path.to_owned());
        // No path has it: they have `account`.
        Self { http_method, path, body: None, response_body: None, without: &["account_id"] }
    }

    /// Returns `true` if the field is in the path.
    pub(super) fn is_in_path(&self, field: &FieldDescriptor) -> bool {
        self.path.contains(&format!("{{{}}}", field.json_name()))
    }

    /// Returns the fields that the body may have.
    pub(super) fn body_fields(&self, input: &MessageDescriptor) -> Vec<FieldDescriptor> {
        match self.body.as_deref() {
            None => Vec::new(),
            Some("*") => input.fields().filter(|field| !self.is_in_path(field)).collect(),
            Some(name) => match input.get_field_by_name(name).map(|field| field.kind()) {
                Some(Kind::Message(message)) => message.fields().collect(),
                _ => Vec::new(),
            },
        }
    }

    /// Returns the fields that are query parameters.
    pub(super) fn query_fields(&self, input: &MessageDescriptor) -> Vec<FieldDescriptor> {
        let body = self.body.as_deref();
        let in_query = |field: &FieldDescriptor| {
            let is_elsewhere = body == Some("*") || body == Some(field.name()) || self.is_in_path(field);
            !is_elsewhere && !self.without.contains(&field.name())
        };
        input.fields().filter(in_query).collect()
    }

    /// Returns the request of the method that the HTTP request maps to. One error names every fault.
    pub(super) fn message(
        &self,
        method: &AdminMethod,
        path: &[(String, String)],
        query: &str,
        body: &[u8],
    ) -> Result<DynamicMessage, AdminApiError> {
        let input = method.0.input();
        let mut message = method.request();
        let mut faults = Vec::new();
        let (members, fields) = (json::members(body)?, self.body_fields(&input));
        match self.body.as_deref() {
            None | Some("*") => faults.extend(json::set_members(&mut message, &fields, &members, "")),
            Some(name) => {
                if let Some(field) = input.get_field_by_name(name)
                    && let Kind::Message(inner) = field.kind()
                {
                    let mut inner = DynamicMessage::new(inner);
                    faults.extend(json::set_members(&mut inner, &fields, &members, ""));
                    message.set_field(&field, Value::Message(inner));
                }
                self.mask(&mut message, members.iter().map(|(name, _)| name.as_str()));
            }
        }
        for (name, value) in path {
            if let Some(field) = input.get_field_by_json_name(name) {
                faults.extend(json::set_text(&mut message, &field, value));
            }
        }
        let fields = self.query_fields(&input);
        let parameters = parameters(query, &mut faults);
        for (name, value) in &parameters {
            faults.extend(match fields.iter().find(|field| field.json_name() == name) {
                Some(field) => json::set_text(&mut message, field, value),
                None => Some(format!("{name} is not a parameter of this operation")),
            });
        }
        let shown = &faults[..faults.len().min(10)];
        let refusal = || ApiError::InvalidParameter(shown.join("; ").into()).into();
        faults.is_empty().then_some(message).ok_or_else(refusal)
    }

    /// Sets the mask of the fields that are changed: by default the members of the body.
    fn mask<'a>(&self, message: &mut DynamicMessage, members: impl Iterator<Item = &'a str>) {
        let mask = message.descriptor().get_field_by_name("update_mask");
        let names = members.collect::<Vec<_>>().join(",");
        if let Some(field) = mask.filter(|_| self.http_method == Method::PATCH && !names.is_empty()) {
            json::set_text(message, &field, &names);
        }
    }
}

/// Returns the parameters of a query, each with its value. Adds the faults that do not belong to a single
/// parameter.
fn parameters(query: &str, faults: &mut Vec<String>) -> Vec<(String, String)> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8().map(String::from);
    let (mut parameters, mut names) = (Vec::new(), HashSet::new());
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match (decoded(name), decoded(value)) {
            (Ok(name), Ok(_)) if !names.insert(name.clone()) => {
                faults.push(format!("{name} is given more than once"));
            }
            (Ok(name), Ok(value)) => parameters.push((name, value)),
            _ => faults.push("the query must be UTF-8".to_owned()),
        }
    }
    parameters
}
