//! What a client may add to a path.

use serde_json::{Value, json};

use crate::json::reference;

pub(super) fn parameters() -> Value {
    json!({
        "Limit": {
            "name": "limit",
            "in": "query",
            "description": "At most so many items. Another value than on the page before is allowed.",
            "schema": { "type": "integer", "minimum": 1, "maximum": 100, "default": 20 },
        },
        "Status": {
            "name": "status",
            "in": "query",
            "description": "Only animals with this status. With a cursor it may be left out, for the cursor \
                            brings it along; a different one is refused.",
            "schema": reference("schemas", "PetStatus"),
        },
        "Cursor": {
            "name": "cursor",
            "in": "query",
            "description": "Where the page begins: the X-Next-Cursor of the page before. Opaque: it may \
                            change its form between releases, so do not build or take it apart.",
            "schema": { "type": "string", "minLength": 1 },
        },
        "IdempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Makes it safe to send the request again when its answer was lost: for 24 hours \
                            the same key with the same animal is answered with the animal that was added \
                            then. Any text that the account has not used before, such as a UUID.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]{1,255}$" },
        },
        "PetId": {
            "name": "petId",
            "in": "path",
            "required": true,
            "description": "The animal's identifier. Whatever is not a 64-bit integer in its shortest form \
                            is answered like an animal that does not exist.",
            "schema": { "type": "integer", "format": "int64" },
            "example": 1,
        },
    })
}
