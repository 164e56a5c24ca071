//! Parts of JSON Schema, for the schemas that stand beside the bodies they describe.

use serde_json::{Value, json};

/// A reference to a component of the OpenAPI document, such as `reference("schemas", "Pet")`.
pub(crate) fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// A reference to a schema, with a description for the place where it stands.
pub(super) fn described(name: &str, description: &str) -> Value {
    let mut schema = reference("schemas", name);
    schema["description"] = json!(description);
    schema
}

/// A 64-bit integer, not smaller than `minimum`.
pub(super) fn integer(minimum: impl Into<Option<i64>>, description: &str) -> Value {
    let mut schema = json!({ "type": "integer", "format": "int64" });
    if let Some(minimum) = minimum.into() {
        schema["minimum"] = json!(minimum);
    }
    schema["description"] = json!(description);
    schema
}

/// A moment, RFC 3339 in UTC.
pub(super) fn moment(description: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "description": description })
}

/// One of these words.
pub(super) fn words(words: &[&str], description: &str) -> Value {
    json!({ "type": "string", "description": description, "enum": words })
}

/// An array of the objects with that schema.
pub(super) fn array(items: &str, description: &str) -> Value {
    json!({ "type": "array", "description": description, "items": reference("schemas", items) })
}
