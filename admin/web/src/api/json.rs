//! Messages as JSON, in protobuf's own mapping, but with 64-bit integers as numbers and values of
//! enumerations as words (`PLAN_FREE` is `free`), as on the public interface.

use petstore_clock::{Timestamp, format_timestamp, parse_duration, parse_timestamp};
use petstore_gateway::strict_members;
use prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, ReflectMessage, Value};
use serde_json::{Map, Value as Json, json};

use super::error::AdminApiError;

const TIMESTAMP: &str = "google.protobuf.Timestamp";
const DURATION: &str = "google.protobuf.Duration";

/// Returns the members of a body, which is strict JSON. An empty body has none.
pub(super) fn members(body: &[u8]) -> Result<Vec<(String, Json)>, AdminApiError> {
    if body.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    Ok(strict_members(body)?)
}

/// Sets the fields that the members name, and returns the faults of the members. `within` is the path of the
/// message.
pub(super) fn set_members(
    message: &mut DynamicMessage,
    fields: &[FieldDescriptor],
    members: &[(String, Json)],
    within: &str,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, value) in members {
        let path = format!("{within}{name}");
        match fields.iter().find(|field| field.json_name() == name) {
            None => faults.push(format!("{path} is not a field of this object")),
            Some(field) if value.is_null() && is_output_only(field) => {} // it is ignored
            // A request without the field may allow or select more. Whoever sends it wants less.
            Some(field) if is_empty(field, value) => {
                faults.push(format!("{path} must not be null or empty: leave it out"));
            }
            Some(field) if is_taken(message, field) => {
                faults.push(format!("{path} cannot be combined with another field that says the same"));
            }
            Some(field) => {
                let value = match value.as_array().filter(|_| field.is_list()) {
                    Some(items) => to_list(&field.kind(), items, &path, &mut faults),
                    None if field.is_list() => {
                        faults.push(format!("{path} must be an array"));
                        None
                    }
                    None => to_value(&field.kind(), value, &path, &mut faults),
                };
                if let Some(value) = value {
                    message.set_field(field, value);
                }
            }
        }
    }
    faults
}

/// Returns `true` if requests may have the field, and it is ignored in them.
pub(super) fn is_output_only(field: &FieldDescriptor) -> bool {
    has_behavior(field, 3)
}

/// Returns `true` if the field has the `google.api.field_behavior` of this number (AIP-203).
pub(super) fn has_behavior(field: &FieldDescriptor, number: i32) -> bool {
    let pool = field.parent_pool();
    let Some(extension) = pool.get_extension_by_name("google.api.field_behavior") else { return false };
    let options = field.options();
    let behaviors = options.get_extension(&extension);
    behaviors.as_list().is_some_and(|behaviors| behaviors.contains(&Value::EnumNumber(number)))
}

/// Returns `true` if the value says nothing. Only a text may be empty, unless it selects an account.
fn is_empty(field: &FieldDescriptor, value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(members) => members.is_empty(),
        value => field.name() == "account" && value == "",
    }
}

/// Returns the request of a command without the options that were not given, which are null or empty lists.
pub(super) fn given(request: &Map<String, Json>) -> Vec<(String, Json)> {
    let is_given = |value: &Json| !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty());
    let given_in = |value: &Json| match value {
        Json::Object(members) => given(members).into_iter().collect(),
        other => other.clone(),
    };
    let members = request.iter().filter(|(_, value)| is_given(value));
    members.map(|(name, value)| (name.clone(), given_in(value))).collect()
}

/// Returns the value of a repeated field, or `None` and a fault for each item that is not of its kind.
fn to_list(kind: &Kind, items: &[Json], path: &str, faults: &mut Vec<String>) -> Option<Value> {
    let values = items.iter().enumerate();
    let values = values.map(|(index, item)| to_value(kind, item, &format!("{path}[{index}]"), faults));
    let values: Vec<_> = values.collect();
    values.into_iter().collect::<Option<_>>().map(Value::List)
}

/// Returns `true` if another field of its `oneof` is set.
fn is_taken(message: &DynamicMessage, field: &FieldDescriptor) -> bool {
    let oneof = field.containing_oneof().filter(|_| !field.field_descriptor_proto().proto3_optional());
    oneof.is_some_and(|oneof| oneof.fields().any(|other| message.has_field(&other)))
}

/// Sets a field that is written as text, in the path or the query, and returns the fault of the text, if it
/// has one. An empty text is a fault, and so is an integer with a `+` or a leading zero.
pub(super) fn set_text(message: &mut DynamicMessage, field: &FieldDescriptor, text: &str) -> Option<String> {
    let json = match field.kind() {
        Kind::Int32 | Kind::Int64 => {
            let number = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
            number.map_or(json!(text), Json::from)
        }
        Kind::Bool => text.parse::<bool>().map_or(json!(text), Json::from),
        _ => json!(text),
    };
    let mut faults = Vec::new();
    if is_taken(message, field) {
        return Some(format!("{} cannot be combined with another that says the same", field.json_name()));
    }
    if text.is_empty() {
        return Some(format!("{} must not be empty", field.json_name()));
    }
    if let Some(value) = to_value(&field.kind(), &json, field.json_name(), &mut faults) {
        message.set_field(field, value);
    }
    faults.pop()
}

/// Returns the value of a field of that kind, or `None` and one more fault if the JSON is not such a value.
fn to_value(kind: &Kind, json: &Json, path: &str, faults: &mut Vec<String>) -> Option<Value> {
    let (value, rule) = match kind {
        Kind::Bool => (json.as_bool().map(Value::Bool), "true or false".to_owned()),
        Kind::Int32 => {
            let number = json.as_i64().and_then(|number| i32::try_from(number).ok());
            (number.map(Value::I32), "a 32-bit integer, such as 5".to_owned())
        }
        Kind::Int64 => (json.as_i64().map(Value::I64), "a 64-bit integer, such as 5".to_owned()),
        Kind::String => (json.as_str().map(|text| Value::String(text.to_owned())), "a string".to_owned()),
        Kind::Enum(words) => {
            let number = json.as_str().and_then(|word| number(words, word));
            (number.map(Value::EnumNumber), format!("one of {}", self::words(words).join(", ")))
        }
        Kind::Message(message) => match message.full_name() {
            TIMESTAMP => {
                let moment = json.as_str().and_then(parse_timestamp);
                let parts = moment.map(|moment| (moment.seconds, moment.nanos));
                (seconds(kind, parts), "a time such as 2026-11-22T09:00:00Z".to_owned())
            }
            DURATION => {
                let parts = json.as_str().and_then(parse_duration);
                (seconds(kind, parts), "a duration such as 3600s, 2h or 90d".to_owned())
            }
            "google.protobuf.FieldMask" => {
                let paths = json.as_str().map(|paths| paths.split(',').filter(|path| !path.is_empty()));
                let paths = paths.map(|paths| paths.map(|path| Value::String(snake_case(path))).collect());
                let mut mask = DynamicMessage::new(message.clone());
                let mask = paths.map(|paths| {
                    mask.set_field_by_name("paths", Value::List(paths));
                    Value::Message(mask)
                });
                (mask, "names of fields, separated by commas".to_owned())
            }
            _ => {
                let Some(members) = json.as_object() else {
                    faults.push(format!("{path} must be an object"));
                    return None;
                };
                let members: Vec<_> =
                    members.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                let mut inner = DynamicMessage::new(message.clone());
                let fields: Vec<_> = message.fields().collect();
                let inner_faults = set_members(&mut inner, &fields, &members, &format!("{path}."));
                let is_right = inner_faults.is_empty();
                faults.extend(inner_faults);
                return is_right.then_some(Value::Message(inner));
            }
        },
        _ => (None, "of a kind that is known".to_owned()), // the service has no others, as a test checks
    };
    if value.is_none() {
        faults.push(format!("{path} must be {rule}"));
    }
    value
}

/// Returns a message of seconds and nanoseconds.
fn seconds(kind: &Kind, parts: Option<(i64, i32)>) -> Option<Value> {
    let (Kind::Message(message), Some((seconds, nanos))) = (kind, parts) else { return None };
    let mut value = DynamicMessage::new(message.clone());
    value.set_field_by_name("seconds", Value::I64(seconds));
    value.set_field_by_name("nanos", Value::I32(nanos));
    Some(Value::Message(value))
}

/// Returns a message as an object. Members without a value are omitted, empty texts and lists are not.
fn from_message(message: &DynamicMessage) -> Json {
    let name = message.descriptor();
    let part = |field| message.get_field_by_name(field);
    match name.full_name() {
        TIMESTAMP | DURATION => {
            let seconds = part("seconds").and_then(|value| value.as_i64()).unwrap_or_default();
            let nanos = part("nanos").and_then(|value| value.as_i32()).unwrap_or_default();
            if name.full_name() == DURATION {
                return json!(format!("{seconds}s"));
            }
            format_timestamp(Timestamp { seconds, nanos }).map_or(Json::Null, Json::from)
        }
        _ => {
            let fields = name.fields().filter(|field| {
                let is_unspecified = matches!(field.kind(), Kind::Enum(_)) && !field.is_list();
                message.has_field(field) || !field.supports_presence() && !is_unspecified
            });
            let member = |field: FieldDescriptor| {
                (field.json_name().to_owned(), value_of(&field, &message.get_field(&field)))
            };
            Json::Object(fields.map(member).collect::<Map<_, _>>())
        }
    }
}

/// Returns the body of an answer: the field with this name, or all of it.
pub(super) fn body(answer: &DynamicMessage, field: Option<&str>) -> Json {
    let Some(field) = field else { return from_message(answer) };
    let value = answer.get_field_by_name(field);
    value.and_then(|value| value.as_message().map(from_message)).unwrap_or_default()
}

fn value_of(field: &FieldDescriptor, value: &Value) -> Json {
    match value {
        Value::Bool(value) => json!(value),
        Value::I32(value) => json!(value),
        Value::I64(value) => json!(value),
        Value::String(value) => json!(value),
        Value::EnumNumber(number) => match field.kind() {
            Kind::Enum(words) => word(&words, *number).map_or(json!(number), Json::from), // of a newer core
            _ => Json::Null,
        },
        Value::Message(message) => from_message(message),
        Value::List(values) => values.iter().map(|value| value_of(field, value)).collect(),
        _ => Json::Null, // the service has no fields of other kinds
    }
}

/// Returns the words of an enumeration, without the unspecified one.
pub(super) fn words(words: &EnumDescriptor) -> Vec<String> {
    words.values().filter_map(|value| word(words, value.number())).collect()
}

/// Returns the word of a number: `PLAN_FREE` of `Plan` is `free`.
pub(super) fn word(words: &EnumDescriptor, number: i32) -> Option<String> {
    let value = words.get_value(number).filter(|_| number != 0)?;
    let prefix = snake_case(words.name()).to_ascii_uppercase() + "_";
    Some(value.name().strip_prefix(&prefix).unwrap_or(value.name()).to_ascii_lowercase())
}

fn number(words: &EnumDescriptor, written: &str) -> Option<i32> {
    words.values().map(|value| value.number()).find(|number| word(words, *number).as_deref() == Some(written))
}

/// Returns a name in snake case: `perMinute` is `per_minute`, and `KeyState` is `key_state`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for (index, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
