//! The bodies (docs/contract.md, 2).

use serde_json::{Value, json};

use super::reference;
use crate::error::{codes, examples::example};

mod usage;

/// 1 to 255 characters with no control character (Unicode category `Cc`) among them and at least one that is
/// not white space (Unicode property `White_Space`). The sets are spelled out, for what `\s` means differs
/// between dialects of regular expressions.
const NAME_PATTERN: &str = "^[^\\u0000-\\u001F\\u007F-\\u009F]*\
    [^\\u0000-\\u0020\\u007F-\\u00A0\\u1680\\u2000-\\u200A\\u2028\\u2029\\u202F\\u205F\\u3000]\
    [^\\u0000-\\u001F\\u007F-\\u009F]*$";

pub(super) fn schemas() -> Value {
    json!({
        "Pet": pet(),
        "NewPet": new_pet(),
        "PetStatus": {
            "type": "string",
            "description": "Whether the animal can be bought.",
            "enum": ["available", "pending", "sold"],
        },
        "Pets": {
            "type": "array",
            "description": "Animals, in ascending order of their identifier.",
            "items": reference("schemas", "Pet"),
        },
        "Order": order(),
        "Orders": {
            "type": "array",
            "description": "Orders, in ascending order of their identifier.",
            "items": reference("schemas", "Order"),
        },
        "Usage": usage::usage(),
        "UsageWindow": usage::window(),
        "UsageDay": usage::day(),
        "Error": error(),
    })
}

fn pet() -> Value {
    json!({
        "type": "object",
        "description": "An animal in the catalogue.",
        "required": ["id", "name", "categoryId"],
        "properties": {
            "id": {
                "type": "integer",
                "format": "int64",
                "minimum": 1,
                "description": "Assigned by the service on creation; ascending, gaps allowed. Use a 64-bit integer: \
                                values above 2^53 are not exact in a double.",
            },
            "name": name("The animal's name."),
            "categoryId": category_id("The category that the animal belongs to."),
            "status": status("Left out when none was given."),
        },
        "example": { "id": 1, "name": "Rex", "categoryId": 7, "status": "available" },
    })
}

fn new_pet() -> Value {
    json!({
        "type": "object",
        "description": "An animal to be added. Members other than these are ignored, an `id` too.",
        "required": ["name", "categoryId"],
        "properties": {
            "name": name("The animal's name: not blank, without control characters, kept as it is sent."),
            "categoryId": category_id(
                "The category that the animal belongs to. Any 64-bit integer is accepted, written without a \
                 fraction or an exponent: 7, not 7.0.",
            ),
            "status": status("May be left out, and then stays so; null is not allowed."),
        },
        "example": { "name": "Rex", "categoryId": 7, "status": "available" },
    })
}

fn order() -> Value {
    json!({
        "type": "object",
        "description": "An order for an animal. Experimental.",
        "required": ["id", "petId", "quantity", "status", "complete"],
        "properties": {
            "id": {
                "type": "integer",
                "format": "int64",
                "minimum": 1,
                "description": "Assigned by the service; ascending, gaps allowed.",
            },
            "petId": {
                "type": "integer",
                "format": "int64",
                "minimum": 1,
                "description": "The animal that was ordered.",
            },
            "quantity": { "type": "integer", "format": "int32", "minimum": 1, "description": "How many." },
            "shipDate": {
                "type": "string",
                "format": "date-time",
                "description": "When it is to be shipped, in UTC; left out when that was not said.",
            },
            "status": {
                "type": "string",
                "description": "How far the order has come.",
                "enum": ["placed", "approved", "delivered"],
            },
            "complete": { "type": "boolean", "description": "Whether it was delivered." },
        },
        "example": {
            "id": 1,
            "petId": 1,
            "quantity": 1,
            "shipDate": "2026-11-23T09:00:00Z",
            "status": "placed",
            "complete": false,
        },
    })
}

fn name(description: &str) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": NAME_PATTERN,
        "description": description,
    })
}

fn category_id(description: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "description": description })
}

fn status(description: &str) -> Value {
    let mut status = reference("schemas", "PetStatus");
    status["description"] = json!(description);
    status
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "Why a request failed.",
        "required": ["code", "message", "status"],
        "properties": {
            "code": {
                "type": "string",
                "pattern": "^[A-Z][A-Z0-9_]*$",
                "description": "For machines. New codes may be added: treat an unknown one by its status. Which \
                                codes come with which response stands there as x-error-codes.",
                "x-extensible-enum": codes::of_rest().collect::<Vec<_>>(),
            },
            "message": { "type": "string", "description": "For people. May change: do not parse it." },
            "status": {
                "type": "integer",
                "minimum": 400,
                "maximum": 599,
                "description": "The HTTP status code of the response.",
            },
        },
        "additionalProperties": false,
        "example": example(petstore_proto::v1::ErrorReason::PetNotFound),
    })
}
