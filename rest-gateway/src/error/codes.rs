//! The table of error codes: HTTP status, gRPC code, what happened, what to do, and who has to do it.
//! Answers, error pages, the OpenAPI document and `docs/errors.md` are made from it.

use http::StatusCode;
use petstore_proto::v1::ErrorReason;

/// One code.
#[derive(Debug)]
pub(crate) struct ErrorCode {
    /// For a code that is on gRPC only, the one that its gRPC code stands for.
    pub(crate) status: StatusCode,
    /// The status code on gRPC; none where only HTTP or JSON can express the fault.
    pub(crate) grpc: Option<&'static str>,
    /// What happened. `` `…` `` is code.
    pub(crate) meaning: &'static str,
    /// What a client does now. `` `…` `` is code.
    pub(crate) remedy: &'static str,
    /// What an operator does, where one has to. `` `…` `` is code.
    pub(crate) operator: Option<&'static str>,
}

impl ErrorCode {
    /// Who has to act.
    pub(crate) const fn who_acts(&self) -> &'static str {
        if self.operator.is_some() { "the operator; the client waits" } else { "the client" }
    }

    /// Whether sending the same request again makes sense, as a sentence. `` `…` `` is code.
    pub(crate) fn retry(&self) -> &'static str {
        if says_when_to_retry(self.status) {
            "Yes, after the seconds in `Retry-After`; then with exponential backoff if it is refused again."
        } else if self.status == StatusCode::REQUEST_TIMEOUT || self.status.is_server_error() {
            "Yes, a few times, with exponential backoff."
        } else {
            "Not without a change: the same request is refused again."
        }
    }

    const fn for_operators(self, operator: &'static str) -> Self {
        Self { operator: Some(operator), ..self }
    }
}

/// Whether answers with this status carry `Retry-After`.
pub(crate) fn says_when_to_retry(status: StatusCode) -> bool {
    matches!(status, StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}

pub(super) const REASON_PREFIX: &str = "ERROR_REASON_";

/// The code as it is written: the name of a reason, without its prefix.
pub(crate) fn code(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix(REASON_PREFIX).unwrap_or(name)
}

/// Every reason but the one that is never sent.
pub(crate) fn all() -> impl Iterator<Item = ErrorReason> {
    const BOUND: i32 = 1_000; // far above the highest number in use; numbers may have gaps
    (1..BOUND).filter_map(|number| ErrorReason::try_from(number).ok())
}

/// Every code that a client of REST may see.
pub(crate) fn rest_codes() -> impl Iterator<Item = &'static str> {
    all().filter(|reason| !is_grpc_only(*reason)).map(code)
}

/// Whether no operation of REST can fail for this reason.
pub(super) const fn is_grpc_only(reason: ErrorReason) -> bool {
    matches!(reason, ErrorReason::OrderNotFound | ErrorReason::InvalidOrderTransition)
}

/// Where the page about a code is.
pub(crate) fn page_path(reason: ErrorReason) -> String {
    format!("/docs/errors/{}", code(reason))
}

const fn row(
    status: StatusCode,
    grpc: Option<&'static str>,
    meaning: &'static str,
    remedy: &'static str,
) -> ErrorCode {
    ErrorCode { status, grpc, meaning, remedy, operator: None }
}

/// The row of a reason. Total, so that a new reason has to be explained before it compiles.
#[expect(clippy::too_many_lines, reason = "one arm per code: a table, not a procedure")]
pub(crate) const fn explain(reason: ErrorReason) -> ErrorCode {
    use ErrorReason as R;
    use StatusCode as S;
    const INVALID_ARGUMENT: Option<&str> = Some("INVALID_ARGUMENT");
    const UNAVAILABLE: Option<&str> = Some("UNAVAILABLE");
    match reason {
        R::ValidationFailed => row(
            S::BAD_REQUEST,
            INVALID_ARGUMENT,
            "A member of the pet (gRPC: or of the order) is missing, has the wrong type or a value that \
             is not allowed. One message names every such member: what is missing or has the wrong type \
             comes first, and when that is right, the values.",
            "Correct the members that the message names. `name` has 1 to 255 characters, is not blank and \
             holds no control characters. `categoryId` is a 64-bit integer written without a fraction or \
             an exponent. `status` is `available`, `pending` or `sold`, or left out; `null` is not \
             allowed. In an order, `quantity` is at least 1 and `shipDate` a moment from 1970 to 9999.",
        ),
        R::InvalidParameter => row(
            S::BAD_REQUEST,
            INVALID_ARGUMENT,
            "A query parameter has a value that is not allowed, or is there more than once. One message \
             names every fault, a faulty cursor among them.",
            "`limit` is a whole number from 1 to 100 without a sign or a leading zero. `status` is exactly \
             `available`, `pending` or `sold`. Give each at most once. On gRPC, `page_size` must not be \
             negative.",
        ),
        R::InvalidCursor => row(
            S::BAD_REQUEST,
            INVALID_ARGUMENT,
            "The cursor (gRPC: the page token) is damaged, empty or repeated, or belongs to a list with \
             another `status`.",
            "Send the `X-Next-Cursor` of the page before exactly as you received it, and leave `status` \
             out or as it was. If you no longer have it, begin again without a cursor.",
        ),
        R::InvalidRequest => row(
            S::BAD_REQUEST,
            None,
            "The HTTP request is not acceptable as such: `Host` is missing, repeated or malformed, or the \
             body does not arrive in the form that the header fields announce.",
            "Use a regular HTTP client. If there is a proxy in between, look at what it makes of the \
             request.",
        ),
        R::MalformedJson => row(
            S::BAD_REQUEST,
            None,
            "The body is not strict JSON (RFC 8259). Members that occur twice, anything after the value, \
             invalid UTF-8, lone surrogates and nesting deeper than 64 are refused too.",
            "Write the body with a JSON library rather than by hand. From a shell, take care of the \
             quotes: `--data-binary @pet.json` avoids them.",
        ),
        R::MissingApiKey => row(
            S::UNAUTHORIZED,
            None,
            "There was no bearer credential: no `Authorization` header, an empty one, or one of another \
             scheme.",
            "Send your API key in every request: `Authorization: Bearer <API_KEY>`. No query parameter, \
             cookie or other header carries a key. You have none yet? The operator issues one.",
        ),
        R::InvalidApiKey => row(
            S::UNAUTHORIZED,
            None,
            "A credential was sent, but it is not a key of this service: mistyped, cut off, never issued, \
             of the other environment, or sent in more than one `Authorization` header.",
            "Compare it with the key that you were given: `pet_live_` (staging: `pet_test_`) and 36 \
             letters and digits. Look for a space, a quote or a line end that came along. Failed attempts \
             count against your address.",
        ),
        R::ApiKeyRevoked => row(
            S::UNAUTHORIZED,
            None,
            "The key was valid once, and its owner or the operator has revoked it. That is final.",
            "Use the key that took its place, or have the operator create another one.",
        ),
        R::ApiKeyExpired => row(
            S::UNAUTHORIZED,
            None,
            "The key was valid until its expiry date, which has passed.",
            "Use the key that took its place, or have the operator create another one. Rotating a key \
             before it expires leaves time for the change: both are valid for a while.",
        ),
        R::AccountSuspended => row(
            S::FORBIDDEN,
            None,
            "The operator has suspended the account that the key belongs to. All its keys are refused until \
             the account is resumed. The message tells the operator's reason, if there is one.",
            "Contact the operator. The keys work again as soon as the account is resumed; do not make new \
             ones. Refused requests count against your address, not against the account's limits.",
        ),
        R::InvalidIdempotencyKey => row(
            S::BAD_REQUEST,
            INVALID_ARGUMENT,
            "`Idempotency-Key` is empty, repeated, longer than 255 characters or holds something else than \
             visible ASCII. On gRPC, `request_id` may have 400.",
            "Send one `Idempotency-Key` without spaces, such as a UUID, or none.",
        ),
        R::IdempotencyInProgress => row(
            S::CONFLICT,
            Some("ABORTED"),
            "The first request with this `Idempotency-Key` is still under way, so there is no answer to \
             repeat yet.",
            "Send the same request with the same key again after the seconds in `Retry-After`.",
        ),
        R::IdempotencyKeyReused => row(
            S::UNPROCESSABLE_ENTITY,
            Some("ALREADY_EXISTS"),
            "Within the last 24 hours the account has added another pet with this `Idempotency-Key`. \
             Name, category and status have to be the same for a repetition; spacing and order do not \
             matter. Nothing was stored.",
            "Make a new key for every pet, and keep it for the repetitions of that request only.",
        ),
        R::PetNotFound => row(
            S::NOT_FOUND,
            Some("NOT_FOUND"),
            "There is no pet with this identifier. Whatever is not a 64-bit integer in its shortest \
             form names no pet either.",
            "Look the pet up in the list, `GET /v1/pets`. Identifiers ascend and may have gaps.",
        ),
        R::OrderNotFound => row(
            S::NOT_FOUND,
            Some("NOT_FOUND"),
            "There is no order with this identifier. On gRPC only: REST lists orders and fetches none.",
            "Look the order up in the list, `StoreService.ListOrders`. Identifiers ascend and may have \
             gaps.",
        ),
        R::InvalidOrderTransition => row(
            S::BAD_REQUEST,
            Some("FAILED_PRECONDITION"),
            "The order's status does not allow this step: an order goes from placed to approved, and from \
             approved to delivered. On gRPC only.",
            "Fetch the order with `StoreService.GetOrder`. If it already has the status that you asked for, \
             an earlier call succeeded.",
        ),
        R::RouteNotFound => row(
            S::NOT_FOUND,
            None,
            "There is no operation at this path. With a trailing slash it is a different path.",
            "Compare the path with the list of operations. All of them begin with `/v1`.",
        ),
        R::MethodNotAllowed => row(
            S::METHOD_NOT_ALLOWED,
            None,
            "The path exists, but does not serve this method.",
            "The `Allow` header names the methods that the path serves. Pets cannot be changed or \
             deleted.",
        ),
        R::RequestTimeout => row(
            S::REQUEST_TIMEOUT,
            None,
            "The body of the request did not arrive within 5 seconds. Nothing was stored.",
            "Send the body without pauses. If it happens again, check the connection and the proxies in \
             between.",
        ),
        R::OperationRemoved => row(
            S::GONE,
            None,
            "`GET /v1/pets/{petId}` was removed on 5 December 2030. It had been deprecated since 5 \
             December 2025; its responses said so in `Deprecation` and `Sunset`.",
            "Use `GET /v1/pets` with a `status` filter instead.",
        ),
        R::BodyTooLarge => row(
            S::PAYLOAD_TOO_LARGE,
            None,
            "The body of the request is larger than 64 KiB.",
            "Send one pet per request. Its name has at most 255 characters, so a pet needs far \
             less.",
        ),
        R::UriTooLong => row(
            S::URI_TOO_LONG,
            None,
            "The request target, path and query together, is longer than 8 KiB. This is checked \
             before authentication, and does not count against a limit.",
            "Send only the parameters of the operation.",
        ),
        R::UnsupportedMediaType => row(
            S::UNSUPPORTED_MEDIA_TYPE,
            None,
            "The `Content-Type` is not `application/json` in UTF-8, or the body is compressed.",
            "Send `Content-Type: application/json` and no `Content-Encoding`. With curl, add `-H \
             'Content-Type: application/json'`.",
        ),
        R::HeadersTooLarge => row(
            S::REQUEST_HEADER_FIELDS_TOO_LARGE,
            None,
            "The header fields are more than 100, or larger than 32 KiB together. This is checked \
             before authentication, and does not count against a limit.",
            "Leave out what the service does not need. Large cookies are the usual cause.",
        ),
        R::RateLimited => row(
            S::TOO_MANY_REQUESTS,
            None,
            "Your account has used up its requests of this minute: 60 on plan Free, 300 on Pro, 1,000 on \
             Business. The minute begins with the first request in it, and all keys of an account share \
             it. Where no valid key was sent, it is your address that has failed too often: 600 attempts a \
             minute. The refused request itself was not counted.",
            "Stop sending with this key until the seconds in `Retry-After` have passed, and tell every \
             other sender that shares it. `X-RateLimit-Reset` says the same as a Unix timestamp. Watch \
             `X-RateLimit-Remaining` to slow down in time. Whoever goes on sending may have the key \
             banned. Higher limits come with a higher plan.",
        ),
        R::QuotaExceeded => row(
            S::TOO_MANY_REQUESTS,
            None,
            "Your account has used up its requests of this day (UTC): 1,000 on plan Free, 10,000 on Pro, \
             100,000 on Business. All keys of an account share them. Where no valid key was sent, it is \
             your address that has failed too often: 100,000 attempts a day. The refused request itself \
             was not counted.",
            "Stop sending with this key until the seconds in `Retry-After` have passed: the next day \
             begins at 00:00 UTC. Keep what you have fetched instead of fetching it again, ask for up to \
             100 pets per page, or ask the operator for a higher plan.",
        ),
        R::ApiKeyBanned => row(
            S::TOO_MANY_REQUESTS,
            None,
            "The key kept sending for a long time after it was answered 429: more than 100 times, or \
             more than twice its limit per minute if that is more, within ten minutes. Requests in the \
             first second after a 429 are not held against it. The first ban lasts 5 minutes and each \
             further one twice as long, up to 24 hours; 24 hours after the last ban ended, all is \
             forgotten. The operator can ban a key too: then the message says so, and why.",
            "Stop every sender that uses this key until the seconds in `Retry-After` have passed; requests \
             in the meantime do not prolong the ban. Then make all of them stop on the first 429. The \
             operator can lift a ban.",
        ),
        R::Unavailable => row(
            S::SERVICE_UNAVAILABLE,
            UNAVAILABLE,
            "A part of the service is temporarily unavailable: its core, its database, or space on its disk.",
            "Wait and try again. A pet that you were adding may have been added: with an \
             `Idempotency-Key`, send the same request again; without one, look for it first.",
        )
        .for_operators("`/readyz` on the admin port names the part, and the log the cause."),
        R::Overloaded => row(
            S::SERVICE_UNAVAILABLE,
            UNAVAILABLE,
            "The service is overloaded, and refused the request instead of letting it wait.",
            "Wait and try again, with exponential backoff and jitter, so that clients do not all return at \
             once.",
        )
        .for_operators("If it lasts, give it more processor time, or find the client that causes the load."),
        R::LimiterUnavailable => row(
            S::SERVICE_UNAVAILABLE,
            UNAVAILABLE,
            "Requests cannot be counted at the moment, and the operator chose to refuse them in that case.",
            "Wait and try again.",
        )
        .for_operators("See why Redis cannot be reached. `--on-redis-failure` says what happens meanwhile."),
        R::DeadlineExceeded => row(
            S::GATEWAY_TIMEOUT,
            Some("DEADLINE_EXCEEDED"),
            "The service did not answer within 5 seconds of the request's last byte.",
            "Try again. A pet that you were adding may have been added: with an `Idempotency-Key`, \
             send the same request again; without one, look for it first.",
        )
        .for_operators("If it lasts, look at the core's log and at how long its statements take."),
        R::Unspecified | R::Internal => row(
            S::INTERNAL_SERVER_ERROR,
            Some("INTERNAL"),
            "The service failed because of a fault of its own. The message never says more than that.",
            "Try again later. If it happens again, report it to the operator with the `X-Request-Id` of the \
             answer, which leads to the cause in the logs.",
        )
        .for_operators("Find the `X-Request-Id` in the log: only the log has the cause."),
    }
}
