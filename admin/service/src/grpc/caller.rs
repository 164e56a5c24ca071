//! The operator and the origin of a call.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::RwLock;
use petstore_caller::{
    api_key::{KeyDigest, OperatorToken, bearer},
    call::{RequestId, X_REQUEST_ID},
};
use petstore_clock::{Clock, UnixMillis};
use petstore_core::{
    Core,
    accounts::{AccountId, store::Accounts},
};
use petstore_grpc_server::{Method, Peer};
use petstore_rate_limit::{InProcessLimiter, LimitKey, Quota, RateLimiter};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};
use tonic::{Request, Response, Status, metadata::MetadataMap};

use super::{Administration, convert};
use crate::{
    domain::{Actor, Operator, Role},
    error::{AdminError, Result},
    store::{ActorChange, AdminStore},
};

/// Metadata in which a gateway sends the address of its client.
const CLIENT_ADDRESS: &str = "petstore-client-address";

/// Marker of the calls of a program that has opened the store itself. No header sets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalOperator;

/// A call of an operator: who makes it, and when it began.
pub(super) struct Call {
    pub(super) core: Core,
    pub(super) store: AdminStore,
    pub(super) operator: Operator,
    pub(super) actor: Actor,
    pub(super) now: UnixMillis,
}

impl Call {
    /// Returns the accounts of the core.
    pub(super) fn accounts(&self) -> &Accounts {
        &self.core.store.accounts
    }

    /// Returns the result of a change by the operator, in an exclusive transaction.
    ///
    /// # Errors
    ///
    /// [`AdminError::InvalidOperatorToken`] if the token was revoked meanwhile, or that of the change.
    pub(super) async fn change<T, F>(&self, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(ActorChange<'c>) -> BoxFuture<'c, Result<T>> + Clone + Send + 'static,
    {
        self.store.change(&self.actor, self.now, change).await
    }

    /// Returns the account that a filter names; `None` for an empty name, which selects every account.
    pub(super) async fn account_id(&self, name: &str) -> Result<Option<AccountId>> {
        let Some(name) = convert::account_filter(name)? else { return Ok(None) };
        Ok(Some(self.accounts().find_account(&name).await?.id))
    }
}

/// The credentials and the origin of a call.
#[derive(Debug)]
struct Origin {
    is_local: bool,
    /// `true` if there is a credential in any form.
    has_credential: bool,
    token: Option<OperatorToken>,
    address: Option<IpAddr>,
    /// Name in the certificate of the process that makes the call: a gateway's, if it forwards it.
    certificate: Option<Arc<str>>,
    /// `true` if a gateway forwards the call.
    is_forwarded: bool,
    call_id: Option<RequestId>,
}

impl Origin {
    fn of<M>(request: &Request<M>) -> Self {
        let headers = request.metadata().as_ref();
        // Calls within this process have no peer.
        let peer = request.extensions().get::<Peer>();
        let sent = headers.get(CLIENT_ADDRESS).filter(|_| peer.is_none_or(|peer| peer.is_gateway));
        let forwarded = sent.and_then(|sent| sent.to_str().ok()?.parse().ok());
        Self {
            is_local: request.extensions().get::<LocalOperator>().is_some(),
            has_credential: bearer(headers).is_ok(),
            token: OperatorToken::from_headers(headers).ok(),
            address: forwarded.or_else(|| peer?.address),
            certificate: peer.and_then(|peer| peer.certificate.clone()),
            is_forwarded: forwarded.is_some(),
            call_id: headers.get(X_REQUEST_ID).and_then(RequestId::parse),
        }
    }
}

impl Administration {
    /// Runs the work of one call if it carries the token of an operator with the required role.
    pub(super) async fn administer<M, T, F>(
        &self,
        called: &'static Method,
        needed: Role,
        request: Request<M>,
        work: impl FnOnce(Call, M) -> F,
    ) -> Result<Response<T>, Status>
    where
        F: Future<Output = Result<T>>,
    {
        let (origin, rpc) = (Origin::of(&request), called.path);
        let is_known =
            origin.is_local || origin.token.as_ref().is_some_and(|token| self.guesses.knows(token.digest()));
        // Possible guesses have a separate capacity, so that they take none from known operators.
        let capacity = if is_known { self.core.calls.capacity(called.class) } else { &self.guesses.capacity };
        let mut name = None;
        let answered = self
            .core
            .calls
            .answer(capacity, called, request, |message| async {
                let now = self.core.clock.now();
                let operator = self.authenticate(rpc, &origin, now).await?;
                name = Some(operator.name.to_string());
                if operator.role < needed {
                    let Operator { name: operator, role, .. } = operator;
                    return Err(AdminError::OperatorNotPermitted { operator, role });
                }
                let actor = Actor {
                    operator: operator.name.clone(),
                    token: origin.token.clone().filter(|_| !origin.is_local),
                    client_address: origin.address,
                    certificate: origin.certificate.clone(),
                };
                let (core, store) = (self.core.clone(), self.store.clone());
                work(Call { core, store, operator, actor, now }, message).await
            })
            .await;
        if let Some(name) = name { answered_operator(rpc, &origin, &name, answered) } else { answered }
    }

    async fn authenticate(&self, rpc: &'static str, origin: &Origin, now: UnixMillis) -> Result<Operator> {
        if origin.is_local {
            return Ok(Operator::local());
        }
        if !origin.has_credential {
            return Err(AdminError::MissingOperatorToken);
        }
        if let Some(token) = &origin.token {
            let (digest, store) = (token.digest(), &self.store);
            let is_candidate = self.guesses.knows(digest)
                || self.guesses.is_listed(digest, async || store.valid_operator_digests(now).await).await?;
            if is_candidate {
                if let Some(operator) = store.authenticate_operator(token, now).await? {
                    return Ok(operator);
                }
                self.guesses.valid.write().remove(&digest); // it is no longer valid
            }
        }
        let error = self.guesses.count_failure(origin.address).await;
        if matches!(error, AdminError::InvalidOperatorToken) && !origin.is_forwarded {
            tracing::warn!(
                target: "petstore_core::admin",
                method = method(rpc),
                code = error.code().name,
                client = origin.address.map(tracing::field::display),
                certificate = origin.certificate.as_deref(),
                request_id = origin.call_id.as_ref().map(RequestId::as_str),
                "refused an invalid operator token"
            );
        }
        Err(error)
    }
}

/// Calls in flight whose credential is not yet known to be an operator's.
const MAX_CALLS: usize = 1_024;
/// Minimum interval between two readings of the list of credentials.
const LIST_INTERVAL: Duration = Duration::from_millis(100);
/// Failed attempts of an address in a minute that are answered as such.
const ATTEMPTS: Quota = Quota { per_minute: 10, per_day: 1 << 53 };

/// Credentials that were valid recently, and the failed attempts of each address.
///
/// A correct credential is always accepted, regardless of other calls from its address, because the caller
/// may share a proxy with the guesser. So guesses are not blocked, but cheap: a credential that was not valid
/// recently waits for a fresh list of valid credentials, which is read at most ten times a second for all
/// callers together.
pub(super) struct Guesses {
    /// Permits of calls whose credential is not yet known to be an operator's.
    capacity: Semaphore,
    valid: RwLock<HashSet<KeyDigest>>,
    /// Time at which the list was read. Locked while it is read again, so that all waiting calls share it.
    listed: tokio::sync::Mutex<Option<Instant>>,
    failures: InProcessLimiter,
}

impl Guesses {
    /// Returns guesses of which none was made yet.
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            capacity: Semaphore::new(MAX_CALLS),
            valid: RwLock::default(),
            listed: tokio::sync::Mutex::default(),
            failures: InProcessLimiter::new(clock),
        }
    }

    /// Returns `true` if the credential was valid recently, so that it is looked up without a fresh list.
    fn knows(&self, digest: KeyDigest) -> bool {
        self.valid.read().contains(&digest)
    }

    /// Returns `true` if the credential is in a list read after this call began.
    async fn is_listed(
        &self,
        digest: KeyDigest,
        list: impl AsyncFnOnce() -> Result<HashSet<KeyDigest>>,
    ) -> Result<bool> {
        let asked = Instant::now();
        let mut listed = self.listed.lock().await;
        if listed.is_none_or(|listed| listed < asked) {
            if let Some(listed) = *listed {
                sleep_until(listed + LIST_INTERVAL).await;
            }
            let now = Instant::now();
            let valid = list().await?;
            *self.valid.write() = valid;
            *listed = Some(now);
        }
        drop(listed);
        Ok(self.knows(digest))
    }

    /// Counts a failed attempt, and returns its error.
    async fn count_failure(&self, address: Option<IpAddr>) -> AdminError {
        let address = address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)); // without a socket there is none
        let counted = self.failures.take(&LimitKey::Address(address.into()), ATTEMPTS, UnixMillis(0)).await;
        match counted.ok().and_then(|decision| decision.retry_after_secs()) {
            None => AdminError::InvalidOperatorToken,
            Some(secs) => AdminError::TooManyAttempts { retry_after: Duration::from_secs(secs) },
        }
    }
}

/// Names the operator in the answer, for the log of the gateway. Without a gateway, writes the log line here.
fn answered_operator<T>(
    rpc: &str,
    origin: &Origin,
    name: &str,
    mut answered: Result<Response<T>, Status>,
) -> Result<Response<T>, Status> {
    if origin.is_forwarded {
        let metadata: &mut MetadataMap = match &mut answered {
            Ok(response) => response.metadata_mut(),
            Err(status) => status.metadata_mut(),
        };
        if let Ok(name) = name.parse() {
            metadata.insert("petstore-operator", name);
        }
    } else if !origin.is_local {
        let code = answered.as_ref().err().map_or(tonic::Code::Ok, Status::code);
        tracing::info!(
            target: "petstore_core::admin",
            operator = name,
            method = method(rpc),
            code = ?code,
            client = origin.address.map(tracing::field::display),
            certificate = origin.certificate.as_deref(),
            request_id = origin.call_id.as_ref().map(RequestId::as_str),
            "handled an operator's request"
        );
    }
    answered
}

/// Returns the method of a path `package.Service/Method`.
fn method(rpc: &str) -> &str {
    rpc.rsplit('/').next().unwrap_or(rpc)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn address(said: &str, peer: Option<Peer>) -> Option<String> {
        let mut request = Request::new(());
        request.metadata_mut().insert(CLIENT_ADDRESS, said.parse().unwrap());
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        Origin::of(&request).address.map(|address| address.to_string())
    }

    #[test]
    fn only_a_gateway_says_where_a_call_came_from() {
        let peer =
            |is_gateway| Some(Peer { address: "192.0.2.7".parse().ok(), certificate: None, is_gateway });
        assert_eq!(address("2001:db8::7", peer(true)).as_deref(), Some("2001:db8::7"));
        assert_eq!(address("2001:db8::7", peer(false)).as_deref(), Some("192.0.2.7"));
        assert_eq!(address("2001:db8::7", None).as_deref(), Some("2001:db8::7"));
        for other in ["<script>", "a b", "pet_op_1", "1.2.3.4:5", ""] {
            assert_eq!(address(other, peer(true)).as_deref(), Some("192.0.2.7"), "{other}");
            assert_eq!(address(other, None), None, "{other}");
        }
    }

    #[tokio::test]
    async fn any_number_of_guesses_costs_at_most_ten_lists_a_second_and_a_new_credential_is_among_them() {
        let (guesses, lists) =
            (Guesses::new(Clock::manual(UnixMillis(1_795_200_000_000)).0), AtomicU32::new(0));
        let right = OperatorToken::generate().digest();
        let list = async || {
            lists.fetch_add(1, Ordering::Relaxed);
            Ok(HashSet::from([right]))
        };
        let begin = Instant::now();
        let judge = |digest| guesses.is_listed(digest, list);
        while begin.elapsed() < 5 * LIST_INTERVAL {
            let wrong = (0..100).map(|_| judge(OperatorToken::generate().digest()));
            let (wrong, right) = tokio::join!(futures_util::future::join_all(wrong), judge(right));
            assert!(wrong.into_iter().all(|known| !known.unwrap()) && right.unwrap());
        }
        let most = begin.elapsed().as_millis() / LIST_INTERVAL.as_millis() + 1;
        assert!(u128::from(lists.load(Ordering::Relaxed)) <= most, "{lists:?}");
        assert!(guesses.knows(right));
        guesses.valid.write().remove(&right);
        assert!(!guesses.knows(right));
    }

    #[tokio::test]
    async fn the_eleventh_failure_of_a_network_in_a_minute_is_told_to_wait() {
        let (clock, hand) = Clock::manual(UnixMillis(1_795_200_000_000));
        let guesses = Guesses::new(clock);
        let fail = async |address: &str| match guesses.count_failure(address.parse().ok()).await {
            AdminError::TooManyAttempts { retry_after } => Some(retry_after.as_secs()),
            _ => None,
        };
        for last in 0..10 {
            assert_eq!((fail("192.0.2.7").await, fail(&format!("2001:db8::{last}")).await), (None, None));
        }
        assert_eq!((fail("::ffff:192.0.2.7").await, fail("2001:db8::ffff:1").await), (Some(60), Some(60)));
        assert_eq!((fail("192.0.2.8").await, fail("2001:db8:0:1::1").await), (None, None));
        hand.advance(Duration::from_mins(1));
        assert_eq!(fail("192.0.2.7").await, None);
    }
}
