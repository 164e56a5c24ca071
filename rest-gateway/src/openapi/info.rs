//! What the interface is, where it is served and how a client authenticates.

use serde_json::{Value, json};

use crate::operation::description::{ACCOUNT, ORDERS, PETS};

/// The version of the interface description (docs/contract.md, 9.1), not of the binary.
const VERSION: &str = "1.0.0";

/// The name of the one security scheme.
pub(super) const SECURITY_SCHEME: &str = "ApiKey";

const DESCRIPTION: &str = "\
Manages animals for sale in a store.

**Authentication.** Every operation needs an API key: `Authorization: Bearer <API_KEY>`. Without a valid key \
every path and method answers 401, OPTIONS excepted.

**Rate limits.** A key's account has a number of requests per minute and per day: Free 60 and 1,000, Pro 300 \
and 10,000, Business 1,000 and 100,000, Enterprise as agreed. All keys of an account share them. Every \
response carries `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` for the window that is \
nearest to its end of requests, and `RateLimit` and `RateLimit-Policy` for both windows. Every request with \
a valid key counts one, whatever its outcome; a 429 does not count, and neither does a question about usage. \
After a 429, wait for `Retry-After` seconds. A client that goes on regardless may have its key banned for a \
while, so senders that share a key should share the 429 too. Where no key is known, the \
client's address is limited instead, and only failed authentication counts.

**Errors.** Every failure is an Error object. `code` is for machines, `message` for people. New codes may be \
added: treat an unknown one by its `status`.

**Compatibility.** v1 changes only by addition: ignore members and headers that you do not know. An \
operation whose responses carry `X-Stability` may still change in other ways.";

pub(super) fn info() -> Value {
    json!({
        "title": "Animal Store Service",
        "summary": "Animals for sale: list them, add one, fetch one",
        "description": DESCRIPTION,
        "version": VERSION,
        "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
    })
}

pub(super) fn servers() -> Value {
    json!([{
        "url": "/v1",
        "description": "The installation that serves this document. Staging has the same interface at its \
                        own address; keys of one are not accepted by the other.",
    }])
}

pub(super) fn tags() -> Value {
    json!([
        { "name": PETS, "description": "The catalogue of animals." },
        { "name": ORDERS, "description": "The store's orders. Experimental." },
        { "name": ACCOUNT, "description": "The caller's own account." },
    ])
}

pub(super) fn security_schemes() -> Value {
    json!({
        SECURITY_SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "API key: pet_live_ (staging: pet_test_) and 36 letters and digits",
            "description": "Keys are issued by the operator and shown once. Send the key in exactly one \
                            Authorization field; no query parameter, cookie or other field carries a key.",
        },
    })
}
