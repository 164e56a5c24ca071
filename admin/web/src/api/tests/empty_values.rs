//! Values that say nothing, in every field of every request that changes something.

use prost_reflect::{FieldDescriptor, Kind};

use super::*;
use crate::api::{json::is_output_only, method::is_required};

/// Values that a program sends by mistake: of a variable that is missing or empty.
fn empty_values() -> [Value; 4] {
    [json!(null), json!(""), json!([]), json!({})]
}

/// Returns the fields that a body may have, those of its objects too, each with a body that gives the field
/// this value.
fn bodies(fields: &[FieldDescriptor], value: &Value) -> Vec<(FieldDescriptor, Value)> {
    let mut all = Vec::new();
    for field in fields {
        all.push((field.clone(), json!({ field.json_name(): value })));
        if let Kind::Message(message) = field.kind()
            && !message.full_name().starts_with("google.")
        {
            let inner = bodies(&message.fields().collect::<Vec<_>>(), value);
            all.extend(inner.into_iter().map(|(inner, body)| (inner, json!({ field.json_name(): body }))));
        }
    }
    all
}

#[tokio::test]
async fn an_empty_value_is_refused_in_each_field_unless_it_is_a_text_without_effect() {
    let tested = ApiUnderTest::new(Err(refused("VALIDATION_FAILED")));
    let mut tried = 0;
    for (method, binding) in method::bindings() {
        let path = binding.path.replace(['{', '}'], "");
        let fields = binding.body_fields(&method.descriptor().input());
        for value in empty_values() {
            for (field, body) in bodies(&fields, &value) {
                let before = tested.calls();
                let (status, answer) =
                    tested.send(binding.http_method.as_str(), &path, &body.to_string()).await;
                let what = format!("{} {body}: {status} {answer}", method.name());
                // The core refuses a required text that is empty, as one that is missing.
                let is_judged_by_core = match (&value, field.kind()) {
                    (Value::Null, _) => is_output_only(&field),
                    (Value::String(_), Kind::String) => {
                        is_output_only(&field)
                            || is_required(&field)
                            || ["label", "reason"].contains(&field.name())
                    }
                    _ => false,
                };
                assert_eq!(tested.calls() > before, is_judged_by_core, "{what}");
                let is_named = answer["message"].as_str().is_some_and(|it| it.contains(field.json_name()));
                assert!(status == 400 && (is_named || is_judged_by_core), "{what}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[tokio::test]
async fn an_empty_value_is_no_body() {
    for body in ["null", "\"\"", "[]"] {
        let tested = ApiUnderTest::answering(&admin::CreateKeyResponse::default());
        assert_eq!(tested.send("POST", "/admin/v1/accounts/shop/keys", body).await.0, 400, "{body}");
        assert_eq!(tested.calls(), 0, "{body}");
    }
}

#[tokio::test]
async fn an_empty_parameter_is_refused() {
    let tested = ApiUnderTest::new(Err(refused("VALIDATION_FAILED")));
    for (method, binding) in method::bindings() {
        let path = binding.path.replace(['{', '}'], "");
        for field in binding.query_fields(&method.descriptor().input()) {
            for parameter in [field.json_name().to_owned(), format!("{}=", field.json_name())] {
                let target = format!("{path}?{parameter}");
                let (status, answer) = tested.send(binding.http_method.as_str(), &target, "").await;
                assert_eq!((status, tested.calls()), (400, 0), "{target}: {answer}");
            }
        }
    }
}
