//! One request, from its head to its answer. In this order: [`context`], [`head`], [`mod@authenticate`],
//! [`rate_limit`], then its route and handler, then [`respond`] (with [`rate_limit_headers`]) and [`record`].
//!
//! It is one layer instead of a stack, so that what one step found out is a variable for the next, and no
//! answer can leave without its header fields.

mod authenticate;
mod context;
mod head;
mod rate_limit;
mod rate_limit_headers;
mod record;
mod respond;

use std::{convert::Infallible, future::Future, panic::AssertUnwindSafe, sync::Arc};

use axum::{extract::Request, response::Response};
use futures_util::FutureExt;
use http::request::Parts;
use tower::{Service, ServiceExt};

use self::{authenticate::authenticate, context::RequestContext, rate_limit::Admission};
use crate::{caller::Caller, error::ApiError, gateway::GatewayState, operation::Access};

/// Answers a request: admits it, lets `routes` route and handle it, and completes the answer. The body is not
/// touched before the request is admitted.
pub(crate) async fn handle<S>(
    gateway: Arc<GatewayState>,
    routes: S,
    request: Request,
) -> Result<Response, Infallible>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    let (mut parts, body) = request.into_parts();
    let context = RequestContext::new(&gateway, &parts);
    let Admission { key, verdict, decision, .. } = before(&gateway, &context, &mut parts).await;
    let answered = match verdict {
        Ok(()) => context.within(catch_panic(routes.oneshot(Request::from_parts(parts, body)))).await,
        Err(error) => Err(error),
    };
    let response = respond::complete(&gateway, &context, decision, answered).await;
    record::record(&gateway, &context, key.as_deref(), &response);
    Ok(response)
}

/// Judges the head, and authenticates and counts the request if its operation asks for that. Who may pass,
/// and what was found out about the limits, goes to the handler with the request.
async fn before(gateway: &GatewayState, context: &RequestContext, parts: &mut Parts) -> Admission {
    if let Err(error) = head::check(parts) {
        return Admission::not_counted(Err(error));
    }
    if context.operation.access == Access::Everybody {
        return Admission::not_counted(Ok(()));
    }
    let admission = async {
        let key = authenticate(gateway, &parts.headers, context.address).await;
        rate_limit::admit(gateway, context, key).await
    };
    let admission = context.within(catch_panic(admission)).await;
    let admission = admission.unwrap_or_else(|panicked| Admission::not_counted(Err(panicked)));
    if let (Ok(()), Some(key)) = (&admission.verdict, &admission.key) {
        let request_id = context.request_id.clone();
        parts.extensions.insert(Caller { account_id: key.account_id, plan: key.plan, request_id });
    }
    if let Some(limit_status) = admission.limit_status {
        parts.extensions.insert(limit_status);
    }
    admission
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
