//! OpenAPI document of the admin API, from the descriptors of the service and the comments in `proto/`.

use std::collections::{BTreeSet, HashMap};

use http::Method;
use petstore_gateway::openapi::{self, reference};
use prost_reflect::{EnumValueDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::{
    json as message_json,
    method::{self, AdminMethod, Binding, is_required},
};

/// Returns the whole document, OpenAPI 3.1: `openapi.json` with the operations and schemas of the service.
pub(crate) fn document() -> Value {
    // Valid, as a test checks.
    let mut document: Value = serde_json::from_str(include_str!("openapi.json")).unwrap_or_default();
    let mut components = Components::default();
    let mut paths = Map::new();
    for (method, binding) in method::bindings() {
        let path = paths.entry(binding.path.clone()).or_insert_with(|| json!({}));
        path[binding.http_method.as_str().to_lowercase()] = components.operation(&method, &binding);
    }
    if let Value::Object(limits) = document["paths"].take() {
        paths.extend(limits);
    }
    for (path, item) in &mut paths {
        for operation in item.as_object_mut().into_iter().flat_map(Map::values_mut) {
            operation["x-stability"] = json!(if is_stable(path) { "stable" } else { "beta" });
        }
    }
    let tags: BTreeSet<_> = paths.keys().map(|path| tag(path)).collect();
    document["tags"] = tags.into_iter().map(|name| json!({ "name": name })).collect();
    let mut schemas = components.schemas();
    schemas.extend(shared_schemas());
    schemas["ExplainRefusalResponse"]["properties"]["limits"] = reference("schemas", "LimitStatus");
    document["paths"] = paths.into();
    document["components"]["schemas"] = schemas.into();
    document
}

/// Message types that are referred to, and the comments of each file.
#[derive(Default)]
struct Components {
    /// Complete schemas.
    schemas: Map<String, Value>,
    waiting: Vec<MessageDescriptor>,
    seen: BTreeSet<String>,
    comments: HashMap<String, HashMap<Vec<i32>, String>>,
}

impl Components {
    fn operation(&mut self, method: &AdminMethod, binding: &Binding) -> Value {
        let descriptor = method.descriptor();
        let comment = self.comment(&descriptor.parent_service().parent_file(), descriptor.path());
        let (summary, _) = comment.split_once(". ").unwrap_or((comment.trim_end_matches('.'), ""));
        let input = descriptor.input();
        let in_path = input.fields().filter(|field| binding.is_in_path(field));
        let in_query = binding.query_fields(&input);
        let parameters: Vec<_> = in_path
            .map(|field| (field, "path"))
            .chain(in_query.into_iter().map(|field| (field, "query")))
            .map(|(field, place)| self.parameter(&field, place))
            .collect();
        let mut operation = json!({
            "operationId": operation_id(method, binding),
            "tags": [tag(&binding.path)],
            "summary": summary,
            "description": comment,
        });
        if !parameters.is_empty() {
            operation["parameters"] = json!(parameters);
        }
        if binding.body.is_some() {
            let mut fields = binding.body_fields(&input);
            fields.retain(|field| !message_json::is_output_only(field));
            let mut body = self.object("", &fields);
            operation["requestBody"] = json!({});
            // A change names the fields that it changes.
            let required = fields.iter().filter(|it| is_required(it) && binding.http_method != Method::PATCH);
            let required: Vec<_> = required.map(FieldDescriptor::json_name).collect();
            if !required.is_empty() {
                body["required"] = json!(required);
                operation["requestBody"]["required"] = json!(true);
            }
            operation["requestBody"]["content"] = json!({ "application/json": { "schema": body } });
        }
        let output = descriptor.output();
        let answer = match binding.response_body.as_deref().and_then(|name| output.get_field_by_name(name)) {
            Some(field) => self.schema(&field),
            None => self.message(&output),
        };
        let success =
            json!({ "description": "Done.", "content": { "application/json": { "schema": answer } } });
        operation["responses"] = json!({ method.success_status().as_str(): success });
        let of_name = input.fields().any(|field| binding.is_in_path(&field)).then_some("404");
        let of_change = (binding.http_method != Method::GET).then_some("409");
        let failures = [Some("401"), Some("403"), of_name, of_change, Some("429"), Some("default")];
        for status in failures.into_iter().flatten() {
            operation["responses"][status] = reference("responses", "Error");
        }
        operation
    }

    fn parameter(&mut self, field: &FieldDescriptor, place: &str) -> Value {
        let mut schema = self.schema(field);
        let description = schema.as_object_mut().and_then(|schema| schema.shift_remove("description"));
        json!({
            "name": field.json_name(),
            "in": place,
            "required": place == "path" || is_required(field),
            "description": description,
            "schema": schema,
        })
    }

    /// Returns a reference to the schema of the message.
    fn message(&mut self, message: &MessageDescriptor) -> Value {
        if self.seen.insert(message.full_name().to_owned()) {
            self.waiting.push(message.clone());
        }
        reference("schemas", message.name())
    }

    fn schema(&mut self, field: &FieldDescriptor) -> Value {
        let mut schema = match field.kind() {
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::Int32 => json!({ "type": "integer", "format": "int32" }),
            Kind::Int64 => json!({ "type": "integer", "format": "int64" }),
            Kind::Enum(words) => {
                json!({ "type": "string", "x-extensible-enum": message_json::words(&words) })
            }
            Kind::Message(message) => match message.full_name() {
                "google.protobuf.Timestamp" => json!({ "type": "string", "format": "date-time" }),
                "google.protobuf.Duration" => json!({ "type": "string", "examples": ["3600s"] }),
                "google.protobuf.FieldMask" => json!({ "type": "string", "examples": ["name,plan"] }),
                _ => self.message(&message),
            },
            _ => json!({ "type": "string" }),
        };
        if field.is_list() {
            schema = json!({ "type": "array", "items": schema });
        }
        let comment = self.comment(&field.parent_message().parent_file(), field.path());
        if !comment.is_empty() {
            schema["description"] = json!(comment);
        }
        schema
    }

    fn object(&mut self, description: &str, fields: &[FieldDescriptor]) -> Value {
        let properties: Map<_, _> =
            fields.iter().map(|field| (field.json_name().to_owned(), self.schema(field))).collect();
        let mut object = json!({ "type": "object", "properties": properties });
        if !description.is_empty() {
            object["description"] = json!(description);
        }
        object
    }

    /// Returns every schema that is referred to, also those that only another schema refers to.
    fn schemas(mut self) -> Map<String, Value> {
        while let Some(message) = self.waiting.pop() {
            let description = self.comment(&message.parent_file(), message.path());
            let fields: Vec<_> = message.fields().collect();
            let schema = self.object(&description, &fields);
            self.schemas.insert(message.name().to_owned(), schema);
        }
        self.schemas.sort_keys();
        self.schemas
    }

    /// Returns the comment before the element at this path, on one line.
    fn comment(&mut self, file: &FileDescriptor, path: &[i32]) -> String {
        let comments = self.comments.entry(file.name().to_owned()).or_insert_with(|| comments(file));
        comments.get(path).cloned().unwrap_or_default()
    }
}

/// Returns the comments of a file by the paths of their elements. They name fields and values as JSON does.
fn comments(file: &FileDescriptor) -> HashMap<Vec<i32>, String> {
    let info = file.file_descriptor_proto().source_code_info.clone().unwrap_or_default();
    let fields = file.messages().flat_map(|message| message.fields().collect::<Vec<_>>());
    let mut names: HashMap<_, _> =
        fields.map(|field| (field.name().to_owned(), field.json_name().to_owned())).collect();
    for words in file.enums() {
        let word = |value: EnumValueDescriptor| {
            Some((value.name().to_owned(), format!("`{}`", message_json::word(&words, value.number())?)))
        };
        names.extend(words.values().filter_map(word));
    }
    let in_json = |part: &str| {
        let name = part.trim_end_matches(|end: char| !end.is_ascii_alphanumeric());
        let json = names.get(name).filter(|_| name.contains('_'));
        json.map_or(part.to_owned(), |json| part.replacen(name, json, 1))
    };
    let words = |comment: &str| {
        let line = comment.split_whitespace().collect::<Vec<_>>().join(" ");
        line.split_inclusive(|end: char| !end.is_ascii_alphanumeric() && end != '_')
            .map(in_json)
            .collect::<String>()
    };
    info.location
        .into_iter()
        .map(|location| (location.path, words(location.leading_comments.as_deref().unwrap_or_default())))
        .filter(|(_, comment)| !comment.is_empty())
        .collect()
}

/// Returns the group of an operation: its collection.
fn tag(path: &str) -> &str {
    path.trim_start_matches("/admin/v1/").split(['/', ':']).next().unwrap_or_default()
}

/// True for the operations on accounts, keys and bans (docs/contract.md, 9.3).
fn is_stable(path: &str) -> bool {
    ["accounts", "keys", "bans"].contains(&tag(path))
        && !path.ends_with("/usage")
        && !path.ends_with("/limits")
}

/// Returns the name of the method. If the path has an account, and the method also has another path, the name
/// says so.
fn operation_id(method: &AdminMethod, binding: &Binding) -> String {
    let name = method.name();
    let (first, rest) = name.split_at(1.min(name.len()));
    let is_further = method::bindings()
        .iter()
        .find(|(other, _)| other.name() == name)
        .is_some_and(|(_, other)| other.path != binding.path);
    format!("{}{rest}{}", first.to_ascii_lowercase(), if is_further { "OfAccount" } else { "" })
}

/// Returns the schemas of the public interface that are used here too.
fn shared_schemas() -> impl Iterator<Item = (String, Value)> {
    let schemas = openapi::schemas();
    let mut status = schemas["Usage"].clone();
    for member in ["plan", "days"] {
        status["properties"].as_object_mut().and_then(|properties| properties.shift_remove(member));
    }
    status["required"] = json!(["minute", "day", "strikes"]);
    status["description"] = json!("Used part of an account's limits, and the state of a key.");
    let [window, error] = ["UsageWindow", "Error"].map(|name| schemas[name].clone());
    [("LimitStatus", status), ("UsageWindow", window), ("Error", error)]
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema))
}
