//! Who administers: the operator whose token, or session's token, a call carries, and from where.

use http::{HeaderMap, header::AUTHORIZATION};
use petstore_api_key::{ApiKey, OperatorToken, SessionToken};
use petstore_clock::UnixMillis;
use tonic::{Request, Response, Status};

use crate::{
    Core,
    domain::{Actor, Operator, PetStoreError, Role},
};

/// Where a gateway says that a call came from.
const CLIENT_ADDRESS: &str = "petstore-client-address";
/// The longest address that is kept: more than an IPv6 address with its zone takes.
const MAX_ADDRESS: usize = 64;

/// Marks the calls of a program that has the store itself. No header becomes one.
#[derive(Clone, Copy, Debug)]
pub(in crate::grpc) struct LocalOperator;

/// The operator of a call, and when the call began.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) operator: Operator,
    pub(super) actor: Actor,
    pub(super) credentials: Credentials,
    pub(super) now: UnixMillis,
}

/// What a call shows.
#[derive(Debug)]
pub(super) enum Credentials {
    Local,
    Token(OperatorToken),
    Session(SessionToken),
    /// None, or none that could be a token.
    None,
}

impl Credentials {
    /// `authorization: Bearer pet_op_…` or `pet_ses_…`, once; the scheme in any case (RFC 9110 §11.1).
    fn from_headers(headers: &HeaderMap) -> Self {
        let mut credentials = headers.get_all(AUTHORIZATION).into_iter();
        let (Some(credential), None) = (credentials.next(), credentials.next()) else { return Self::None };
        let shown = credential.to_str().ok().and_then(|credential| credential.split_once(' '));
        let Some((scheme, token)) = shown else { return Self::None };
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Self::None;
        }
        let session = || SessionToken::parse(token).map(Self::Session);
        OperatorToken::parse(token).map(Self::Token).or_else(session).unwrap_or(Self::None)
    }
}

/// The address in the metadata: information for people, so that what does not look like one is left out.
fn client_address(headers: &HeaderMap) -> String {
    let address = headers.get(CLIENT_ADDRESS).and_then(|address| address.to_str().ok()).unwrap_or_default();
    let is_address = address.len() <= MAX_ADDRESS
        && address.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:[]%_-".contains(&byte))
        && !ApiKey::begins_in(address);
    if is_address { address.to_owned() } else { String::new() }
}

impl Core {
    /// Does the work of one call, if it carries the token of an operator who may do this.
    pub(super) async fn administer<M, T, F>(
        &self,
        rpc: &'static str,
        needed: Role,
        request: Request<M>,
        work: impl FnOnce(Caller, M) -> F,
    ) -> Result<Response<T>, Status>
    where
        F: Future<Output = Result<T, PetStoreError>>,
    {
        let headers = request.metadata().as_ref();
        let client_address = client_address(headers);
        let credentials = match request.extensions().get::<LocalOperator>() {
            Some(LocalOperator) => Credentials::Local,
            None => Credentials::from_headers(headers),
        };
        self.answer(rpc, request, |message| async move {
            let now = self.clock.now();
            let operators = self.store.operators();
            let operator = match &credentials {
                Credentials::Local => Some(Operator::local()),
                Credentials::None => None,
                Credentials::Token(token) => operators.authenticate(token.digest(), now).await?,
                Credentials::Session(token) => operators.authenticate_session(token.digest(), now).await?,
            };
            let operator = operator.ok_or(PetStoreError::InvalidOperatorToken)?;
            if operator.role < needed {
                let Operator { name: operator, role, .. } = operator;
                return Err(PetStoreError::OperatorNotPermitted { operator, role });
            }
            let actor = Actor { operator: operator.name.clone(), client_address };
            work(Caller { operator, actor, credentials, now }, message).await
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_only_if_it_looks_like_one() {
        let kept = |written: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CLIENT_ADDRESS, written.parse().unwrap());
            client_address(&headers)
        };
        for address in ["192.0.2.7", "2001:db8::7", "[fe80::1%eth0]:443"] {
            assert_eq!(kept(address), address);
        }
        for other in ["<script>", "a b", &"1".repeat(65), "pet_op_1"] {
            assert_eq!(kept(other), "", "{other}");
        }
    }
}
