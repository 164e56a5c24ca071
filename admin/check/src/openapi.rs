//! Compares responses with an OpenAPI document.

use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;

/// Document, and how strictly responses are compared with it.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// OpenAPI document.
    pub document: &'a Value,
    /// `true` if members that it does not have are faults. A client ignores what a newer service adds.
    pub is_complete: bool,
}

impl<'a> Described<'a> {
    /// Checks a response to a request under the base address: its status, header fields and body must match
    /// the document's operation. `path` begins with `/v1`. Requests for no operation are not checked.
    ///
    /// # Errors
    ///
    /// If the response differs from the document. The error says where it does.
    pub fn check(
        self,
        (method, path): (&Method, &str),
        (status, headers, body): (u16, &HeaderMap, &[u8]),
    ) -> Result<(), String> {
        let Some(operation) = self.operation(method, path) else { return Ok(()) };
        let response = self.resolved(&operation["responses"][status.to_string()]);
        if response.is_null() {
            return Err(format!("status {status} is not described"));
        }
        for (field, header) in response["headers"].as_object().into_iter().flatten() {
            let header = self.resolved(header);
            let schema = &header["schema"];
            match headers.get(field).map(HeaderValue::to_str) {
                Some(Err(_)) => return Err(format!("{field} is not ASCII")),
                Some(Ok(value)) => {
                    let number = (schema["type"] == "integer").then(|| serde_json::from_str(value).ok());
                    self.value(&number.flatten().unwrap_or_else(|| value.into()), schema, field)?;
                }
                None if header["required"] == true => return Err(format!("{field} is missing")),
                None => {}
            }
        }
        if method == Method::HEAD {
            return Ok(());
        }
        let body = serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
        self.value(&body, &response["content"]["application/json"]["schema"], "the body")
    }

    /// Returns the operation that serves a request. HEAD is served wherever GET is.
    fn operation(self, method: &Method, path: &str) -> Option<&'a Value> {
        let method = match method.as_str() {
            "HEAD" | "GET" => "get",
            "POST" => "post",
            _ => return None,
        };
        let path = path.split('?').next()?.strip_prefix("/v1")?;
        let of_path = self.document["paths"].as_object()?.iter().find(|(pattern, _)| {
            pattern.split('/').count() == path.split('/').count()
                && pattern.split('/').zip(path.split('/')).all(|(pattern, segment)| {
                    if pattern.starts_with('{') { !segment.is_empty() } else { pattern == segment }
                })
        });
        of_path?.1.get(method)
    }

    /// Returns the component that a reference names, or the value itself.
    fn resolved(self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(target) => self.document.pointer(&target[1..]).unwrap_or(&Value::Null),
            None => value,
        }
    }

    /// Checks a value against the parts of JSON Schema that the document uses, except patterns.
    ///
    /// # Errors
    ///
    /// If the value does not match the schema. The error begins with the `place`.
    pub fn value(self, value: &Value, schema: &'a Value, place: &str) -> Result<(), String> {
        let schema = self.resolved(schema);
        let is_type = match schema["type"].as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("boolean") => value.is_boolean(),
            Some(_) => false, // a type that this check lacks must not pass unnoticed
            None => true,
        };
        let length = value.as_str().and_then(|text| i64::try_from(text.chars().count()).ok());
        let is_within = |measure: Option<i64>, least: &str, most: &str| {
            let bound = |name: &str| schema[name].as_i64();
            measure.is_none_or(|measure| {
                bound(least).is_none_or(|least| measure >= least)
                    && bound(most).is_none_or(|most| measure <= most)
            })
        };
        let is_right = is_type
            && schema["enum"].as_array().is_none_or(|values| values.contains(value))
            && schema.get("const").is_none_or(|constant| value == constant)
            && is_within(value.as_i64(), "minimum", "maximum")
            && is_within(length, "minLength", "maxLength");
        if !is_right {
            return Err(format!("{place} is {value}"));
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = required.into_iter().find(|required| value.get(required).is_none()) {
            return Err(format!("{place} lacks {missing}"));
        }
        for (member, value) in value.as_object().into_iter().flatten() {
            match schema["properties"].get(member) {
                Some(schema) => self.value(value, schema, &format!("{place}: {member}"))?,
                None if self.is_complete => {
                    return Err(format!("{place} has {member}, which the document lacks"));
                }
                None => {}
            }
        }
        let items = value.as_array().into_iter().flatten();
        items.into_iter().try_for_each(|item| self.value(item, &schema["items"], place))
    }
}
