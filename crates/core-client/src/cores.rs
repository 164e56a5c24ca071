//! The cores that a transport leads to, and the choice of one for each call.
//!
//! The names in the URLs are looked up every half minute, and when a core is lost. While they have several
//! addresses, each has connections of its own: a call goes to the core with the fewest calls in flight, of
//! those that answer. A core that cannot be reached, breaks a call off or refuses this gateway gets no calls
//! until it answers a probe.
//!
//! While there is only one address, or no core answers, calls go over the connection of a URL, which tries
//! each of its addresses in turn.

use std::{
    error::Error,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use parking_lot::{Mutex, RwLock};
use petstore_caller::api_key::ServiceToken;
use petstore_telemetry::parts::FaultCause;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};
use tonic::{Status, TimeoutExpired, body::Body, transport::Channel};
use tower::{BoxError, ServiceExt, service_fn, util::BoxCloneSyncService};

use super::{
    connect::{CoreTls, Credentials, InvalidCoreAddress, Url, is_its_own},
    transport::{AnotherRefuses, CoreTransport, TransportError, cause_of, causes, empty_call, refusal},
};

/// Interval at which names are looked up again.
const LOOKUP_INTERVAL: Duration = Duration::from_secs(30);

/// Minimum time between two lookups, however often cores are lost.
const LOOKUP_PAUSE: Duration = Duration::from_secs(1);

/// Interval between probes of a core that does not answer, and the time for one.
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
const PROBE_TIMEOUT: Duration = Duration::from_millis(800);

/// Minimum time between two log lines about a core that refuses this gateway.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Method of the probe: a batch without calls. Unlike health, a core answers it only to callers that it
/// trusts.
const PROBE: &str = "/petstore.internal.v1.BatchService/Call";

/// Addresses of cores, and the credentials that gateway and core show to each other.
pub struct CoreAddress {
    /// One or more of `http://HOST:PORT`, `https://HOST:PORT` or `unix:///PATH`. With https, the core's
    /// certificate must be for `HOST`. If there are several, or a name has several addresses, each is a core.
    pub urls: Vec<String>,
    /// TLS files, required with https.
    pub tls: Option<CoreTls>,
    /// Service token, sent with every call.
    pub token: Option<ServiceToken>,
}

/// Returns a transport to the cores at `address`. It connects with the first call and again whenever a
/// connection is lost. The gateway's own calls have separate connections, so that they do not wait behind the
/// calls of clients when these fill theirs. Must be called inside a Tokio runtime.
///
/// # Errors
/// [`InvalidCoreAddress`] if the address contradicts itself or cannot be read.
pub fn connect(address: CoreAddress) -> Result<CoreTransport, InvalidCoreAddress> {
    let CoreAddress { urls, tls, token } = address;
    let urls = urls.into_iter().map(|url| Url::parse(url, tls.as_ref())).collect::<Result<Vec<_>, _>>()?;
    if urls.is_empty() {
        return Err(InvalidCoreAddress::Url);
    }
    let cores = Cores::new(urls, token.and_then(|token| Credentials::new(&token)));
    Ok(BoxCloneSyncService::new(service_fn(move |request| {
        let cores = Arc::clone(&cores);
        async move { cores.call(request).await }
    })))
}

/// The cores of all URLs. Must be used inside a Tokio runtime.
pub(super) struct Cores {
    urls: Vec<Url>,
    credentials: Option<Credentials>,
    /// A connection for each URL, to any of its addresses.
    by_url: Vec<Arc<Core>>,
    /// A connection for each address, if there are several.
    by_address: RwLock<Vec<(Place, Arc<Core>)>>,
    /// Number of the next call. Among cores with equally many calls in flight, each has its turn.
    turn: AtomicUsize,
    has_lost_one: Arc<Notify>,
}

/// Number of the URL, and the address; `None` for a Unix socket.
type Place = (usize, Option<SocketAddr>);

/// Connections to one core, or to one URL.
struct Core {
    /// URL or address.
    name: String,
    for_clients: Channel,
    for_itself: Channel,
    /// Has a clone for each call in flight.
    in_flight: Arc<()>,
    is_up: AtomicBool,
    /// `true` if the log says that it does not answer, or refuses this process.
    is_reported: AtomicBool,
    /// Why it refuses this gateway, if it does.
    refuses: Mutex<Option<FaultCause>>,
    refusal_logged: Mutex<Option<Instant>>,
}

/// The call was lost, and another core may answer it.
#[derive(Debug, thiserror::Error)]
#[error("a core was lost")]
pub(super) struct LostCore(#[source] BoxError);

impl Cores {
    pub(super) fn new(urls: Vec<Url>, credentials: Option<Credentials>) -> Arc<Self> {
        let by_url = urls.iter().map(|url| Core::new(url, None)).collect();
        let cores = Arc::new(Self {
            urls,
            credentials,
            by_url,
            by_address: RwLock::default(),
            turn: AtomicUsize::new(0),
            has_lost_one: Arc::default(),
        });
        if cores.urls.len() > 1 || cores.urls.iter().any(Url::has_a_name) {
            tokio::spawn(keep(Arc::downgrade(&cores)));
        }
        cores
    }

    /// Makes a call.
    pub(super) async fn call(&self, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
        self.authorize(request.headers_mut());
        let (core, is_one_of_several) = self.choose();
        let is_its_own = is_its_own(request.uri().path());
        let channel = if is_its_own { &core.for_itself } else { &core.for_clients };
        if !is_one_of_several {
            let response = channel.clone().oneshot(request).await?;
            if let Some(status) = refusal(&response) {
                core.note_refusal(&status);
            }
            return Ok(response);
        }
        let in_flight = Arc::clone(&core.in_flight);
        let mut response = match channel.clone().oneshot(request).await {
            Ok(response) => response,
            // A slow call says nothing about the core.
            Err(error) if causes(&error).any(<dyn Error>::is::<TimeoutExpired>) => return Err(error.into()),
            Err(error) => {
                self.lose(&core);
                return Err(LostCore(error.into()).into());
            }
        };
        if let Some(status) = refusal(&response) {
            core.note_refusal(&status);
            self.lose(&core);
            if self.by_address.read().iter().any(|(_, core)| core.is_up()) {
                return Err(LostCore(status.into()).into());
            }
        } else if let Some(cause) = self.refuses() {
            response.extensions_mut().insert(AnotherRefuses(cause));
        }
        // It is in flight until the last of the answer.
        Ok(response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                let _: &Arc<()> = &in_flight;
                frame
            }))
        }))
    }

    /// Returns the core of the next call, and `true` if it is one of several.
    fn choose(&self) -> (Arc<Core>, bool) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let by_address = self.by_address.read();
        let (before, from) = by_address.split_at(turn.checked_rem(by_address.len()).unwrap_or_default());
        let up = from.iter().chain(before).map(|(_, core)| core).filter(|core| core.is_up());
        if let Some(core) = up.min_by_key(|core| Arc::strong_count(&core.in_flight)) {
            return (Arc::clone(core), true);
        }
        (Arc::clone(&self.by_url[turn % self.by_url.len()]), self.by_url.len() > 1)
    }

    /// Gives calls to other cores until the core answers a probe, which begins at once.
    fn lose(&self, core: &Core) {
        if core.is_up.swap(false, Ordering::Relaxed) {
            self.has_lost_one.notify_one();
        }
    }

    /// Returns why one of the cores refuses this gateway, if one does.
    fn refuses(&self) -> Option<FaultCause> {
        let by_address = self.by_address.read();
        by_address.iter().filter(|(_, core)| !core.is_up()).find_map(|(_, core)| *core.refuses.lock())
    }

    fn authorize(&self, headers: &mut HeaderMap) {
        if let Some(credentials) = &self.credentials {
            credentials.add_to(headers);
        }
    }

    /// Looks up the addresses of all URLs. One that cannot be looked up keeps those that it has.
    async fn look_up(&self) -> Vec<Place> {
        let found = join_all(self.urls.iter().map(Url::addresses)).await;
        let mut places: Vec<Place> = Vec::new();
        for (number, found) in found.into_iter().enumerate() {
            match found {
                Ok(addresses) => places.extend(addresses.into_iter().map(|address| (number, address))),
                Err(error) => {
                    tracing::debug!(%error, "a name of --core-url could not be looked up");
                    let known = self.by_address.read();
                    places.extend(known.iter().map(|(place, _)| *place).filter(|place| place.0 == number));
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Leads calls to these places. Calls in flight to others continue.
    fn lead_to(&self, mut places: Vec<Place>) {
        if places.len() < 2 {
            places.clear();
        }
        let mut by_address = self.by_address.write();
        *by_address = places
            .into_iter()
            .map(|place| {
                let known = by_address.iter().find(|(known, _)| *known == place);
                let core = known.map(|(_, core)| Arc::clone(core));
                (place, core.unwrap_or_else(|| Core::new(&self.urls[place.0], place.1)))
            })
            .collect();
    }

    /// Probes every core that gets no calls. Returns `false` if there is none.
    async fn probe(&self) -> bool {
        let away: Vec<_> = self.by_address.read().iter().map(|(_, core)| Arc::clone(core)).collect();
        let away: Vec<_> = away.into_iter().filter(|core| !core.is_up()).collect();
        join_all(away.iter().map(|core| self.probe_one(core))).await;
        !away.is_empty()
    }

    async fn probe_one(&self, core: &Core) {
        let mut request = empty_call(PROBE);
        self.authorize(request.headers_mut());
        let answered = timeout(PROBE_TIMEOUT, core.for_itself.clone().oneshot(request)).await;
        let answered = answered.map_err(|_| TransportError::new("no answer in time"));
        match answered.and_then(|answered| answered.map_err(TransportError::new)) {
            Err(error) => core.report(&error.cause()),
            Ok(response) => match refusal(&response) {
                Some(status) => core.note_refusal(&status),
                None => core.set_up(),
            },
        }
    }
}

/// Looks up the addresses, and probes cores that get no calls, until the transport is dropped.
async fn keep(cores: Weak<Cores>) {
    let mut next_lookup = Instant::now();
    while let Some(kept) = cores.upgrade() {
        if Instant::now() >= next_lookup {
            let places = kept.look_up().await;
            kept.lead_to(places);
            next_lookup = Instant::now() + LOOKUP_INTERVAL;
        }
        let wakes = if kept.probe().await { Instant::now() + PROBE_INTERVAL } else { next_lookup };
        let has_lost_one = Arc::clone(&kept.has_lost_one);
        drop(kept);
        tokio::select! {
            () = sleep_until(wakes.min(next_lookup)) => {}
            () = has_lost_one.notified() => {
                next_lookup = next_lookup.min(Instant::now() + LOOKUP_PAUSE);
            }
        }
    }
}

impl Core {
    fn new(url: &Url, address: Option<SocketAddr>) -> Arc<Self> {
        Arc::new(Self {
            name: address.map_or_else(|| url.to_string(), |address| address.to_string()),
            for_clients: url.channel(address),
            for_itself: url.channel(address),
            in_flight: Arc::default(),
            is_up: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
            refuses: Mutex::new(None),
            refusal_logged: Mutex::new(None),
        })
    }

    fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }

    fn set_up(&self) {
        self.is_up.store(true, Ordering::Relaxed);
        if self.is_reported.swap(false, Ordering::Relaxed) {
            tracing::info!(core = self.name, "this core answers again and gets calls");
        }
    }

    /// Notes that the core does not answer, and logs that once until it does.
    fn report(&self, cause: &str) {
        *self.refuses.lock() = None;
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            let core = &self.name;
            tracing::warn!(core, error = cause, "this core does not answer and gets no calls until it does");
        }
    }

    /// Notes that the core refuses this gateway. Logs it unless it did so within [`REFUSAL_LOG_INTERVAL`].
    fn note_refusal(&self, status: &Status) {
        *self.refuses.lock() = Some(cause_of(status));
        self.is_reported.store(true, Ordering::Relaxed);
        let mut logged = self.refusal_logged.lock();
        if logged.is_none_or(|logged| logged.elapsed() >= REFUSAL_LOG_INTERVAL) {
            *logged = Some(Instant::now());
            tracing::error!(
                core = self.name,
                error = status.message(),
                "the core refuses this process: compare its service token and certificate with the core's"
            );
        }
    }
}

#[cfg(test)]
mod tests;
