//! What an account is told of its own usage.

use serde_json::{Value, json};

use super::reference;

pub(super) fn usage() -> Value {
    let described = |name: &str, description: &str| {
        let mut schema = reference("schemas", name);
        schema["description"] = json!(description);
        schema
    };
    json!({
        "type": "object",
        "description": "What an account has used, and how its key stands.",
        "required": ["plan", "minute", "day", "strikes", "days"],
        "properties": {
            "plan": {
                "type": "string",
                "description": "The account's plan. Others may be added.",
                "x-extensible-enum": ["free", "pro", "business", "enterprise"],
            },
            "minute": described("UsageWindow", "60 seconds, opened by the account's first counted request."),
            "day": described("UsageWindow", "The UTC calendar day."),
            "strikes": number(
                0,
                "Requests with this key that followed a 429 before its Retry-After had passed. Too many lead to a ban.",
            ),
            "strikesResetAt": moment("When they are forgotten; only while there are some."),
            "refusedUntil": moment("Until when requests with this key are strikes, because it was answered 429."),
            "ban": {
                "type": "object",
                "description": "Only while the key is banned.",
                "required": ["from", "until"],
                "properties": {
                    "from": moment("When it was imposed."),
                    "until": moment("When it ends."),
                },
                "additionalProperties": true,
            },
            "days": {
                "type": "array",
                "description": "The last 30 UTC days, today first.",
                "minItems": 30,
                "maxItems": 30,
                "items": reference("schemas", "UsageDay"),
            },
        },
        "additionalProperties": true,
    })
}

pub(super) fn window() -> Value {
    json!({
        "type": "object",
        "description": "A window of the rate limit.",
        "required": ["limit", "used", "remaining", "resetsAt"],
        "properties": {
            "limit": number(1, "Requests allowed in it."),
            "used": number(0, "Requests counted in it, as far as they are within the limit."),
            "remaining": number(0, "Requests left in it."),
            "resetsAt": moment("When it ends, or would end if it were opened now."),
        },
        "additionalProperties": true,
        "example": { "limit": 60, "used": 1, "remaining": 59, "resetsAt": "2026-11-20T18:47:03Z" },
    })
}

pub(super) fn day() -> Value {
    json!({
        "type": "object",
        "description": "The requests of one UTC day. Those about usage are not among them.",
        "required": ["date", "requests", "byStatus", "getPet"],
        "properties": {
            "date": { "type": "string", "format": "date" },
            "requests": number(0, "Requests that were answered."),
            "byStatus": {
                "type": "object",
                "description": "How they were answered: 429 is not among 4xx.",
                "required": ["2xx", "4xx", "429", "5xx"],
                "properties": {
                    "2xx": number(0, "With success."),
                    "4xx": number(0, "With another error of the client than 429."),
                    "429": number(0, "With 429, which costs no quota."),
                    "5xx": number(0, "With an error of the service."),
                },
                "additionalProperties": true,
            },
            "getPet": number(0, "Calls of the deprecated getPet, which are among the others."),
        },
        "additionalProperties": true,
        "example": {
            "date": "2026-11-20",
            "requests": 12,
            "byStatus": { "2xx": 9, "4xx": 1, "429": 2, "5xx": 0 },
            "getPet": 3,
        },
    })
}

fn number(minimum: u8, description: &str) -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": minimum, "description": description })
}

fn moment(description: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "description": description })
}
