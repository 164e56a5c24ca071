//! One request, from its head to its answer. In this order: [`context`], [`head`], [`mod@authenticate`],
//! [`rate_limit`], then its route and handler, or [`refusal`], then [`respond`] (with [`rate_limit_headers`])
//! and [`record`].
//!
//! It is one layer instead of a stack, so that what one step found out is a variable for the next, and no
//! answer can leave without its header fields.

mod authenticate;
mod context;
mod head;
mod rate_limit;
mod rate_limit_headers;
mod record;
mod refusal;
mod respond;

use std::{future::Future, net::IpAddr, panic::AssertUnwindSafe, pin::pin};

use axum::{extract::Request, response::Response};
use futures_util::FutureExt;
use http::request::Parts;

use self::{authenticate::authenticate, context::RequestContext, rate_limit::Admission};
use crate::{
    caller::Caller,
    error::ApiError,
    gateway::GatewayState,
    operation::{Access, Id},
    rate_limit::LimitStatus,
};

/// A request that may pass, and what was found out about it.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) operation: Id,
    /// `None` only where everybody has access.
    pub(crate) caller: Option<Caller>,
    /// The limits of the account, for a request for its usage.
    pub(crate) limit_status: Option<LimitStatus>,
    pub(crate) request: Request,
}

/// Answers a request: admits it, lets `route` find its handler, and completes the answer. The body is not
/// touched before the request is admitted.
pub(crate) async fn handle<F>(
    gateway: &GatewayState,
    request: Request,
    peer: IpAddr,
    route: impl FnOnce(Admitted) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    let (parts, body) = request.into_parts();
    let context = RequestContext::new(gateway, &parts, peer);
    let admission = before(gateway, &context, &parts).await;
    if let Err(error) = &admission.verdict {
        refusal::note(gateway, &context, &admission, error);
    }
    let Admission { key, verdict, decision, limit_status, .. } = admission;
    let answered = match verdict {
        Ok(()) => {
            let caller = key.as_deref().map(|key| context.caller(key));
            let (operation, request) = (context.operation.id, Request::from_parts(parts, body));
            let answered = pin!(route(Admitted { operation, caller, limit_status, request }));
            context.within(catch_panic(answered)).await
        }
        Err(error) => Err(error),
    };
    let response = respond::complete(gateway, &context, decision, answered).await;
    record::record(gateway, &context, key.as_ref(), &response);
    response
}

/// Judges the head, and authenticates and counts the request if its operation asks for that.
async fn before(gateway: &GatewayState, context: &RequestContext, parts: &Parts) -> Admission {
    if let Err(error) = head::check(parts) {
        return Admission::not_counted(Err(error));
    }
    if context.operation.access == Access::Everybody {
        return Admission::not_counted(Ok(()));
    }
    let admission = pin!(async {
        let key = authenticate(gateway, &parts.headers, context.address).await;
        rate_limit::admit(gateway, context, key).await
    });
    let admission = context.within(catch_panic(admission)).await;
    admission.unwrap_or_else(|panicked| Admission::not_counted(Err(panicked)))
}

/// Turns a panic into an error, so that it ends one request and not the connection. What panicked, and where,
/// is said by the process's panic hook.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, ApiError> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|_| ApiError::Internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_becomes_an_internal_error() {
        assert_eq!(catch_panic(async { 1 }).await, Ok(1));
        let panicked = catch_panic(async { panic!("a test panics") }).await;
        assert_eq!(panicked, Err::<(), _>(ApiError::Internal));
    }
}
