//! Faults at the messages between a core and PostgreSQL.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use petstore_testkit::{
    Installation, eventually,
    faults::postgres::{Action, MessageFault, MessageSite, PostgresProxy, Side},
    servers::{Database, PostgresServer},
};

use super::{callers::Callers, cores::TwoCores};
use crate::{is_long, petstore, rounds};

/// Delay longer than the core waits for an answer (1.4 s).
const HOLD_INTERVAL: Duration = Duration::from_millis(1_800);
/// Delay longer than the deadlines of the core, and those that PostgreSQL has.
const LONG_HOLD_INTERVAL: Duration = Duration::from_secs(3);
/// Timeout longer than it takes until some call begins a transaction.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(20);
/// Delay shorter than the core waits.
const SHORT_HOLD_INTERVAL: Duration = Duration::from_millis(300);
/// Number of messages that are disturbed at once; a core has more connections than that.
const AT_ONCE: usize = 10;
/// Minimum number of faults in the long form.
const FAULTS: usize = 1_000;

#[tokio::test]
async fn pets_added_while_the_answer_to_begin_is_delayed_are_kept() {
    let shop = ProxiedDeployment::open().await;
    let callers = shop.callers(false).await;
    shop.warm_up(&callers).await;
    for _ in 0..rounds(1, 10) {
        let begin = |message| MessageSite { statement: "BEGIN".to_owned(), side: Side::Backend, message };
        let held = Action::Hold(LONG_HOLD_INTERVAL);
        let inject = |message| shop.proxy.inject(MessageFault::at(&begin(message), held), BEGIN_TIMEOUT);
        let (one, other) = tokio::join!(inject("CommandComplete"), inject("ReadyForQuery"));
        assert!(one.is_some() && other.is_some(), "nothing begins a transaction");
        shop.proxy.nothing_held().await;
        tokio::time::sleep(HOLD_INTERVAL / 2).await; // the connections are used again, if they are
    }
    shop.close(callers).await;
}

#[tokio::test]
async fn no_delayed_cut_or_halved_message_loses_or_duplicates_a_call() {
    let shop = ProxiedDeployment::open().await;
    let callers = shop.callers(is_long()).await;
    shop.warm_up(&callers).await;
    if is_long() {
        shop.disturb(every_fault(&shop.sites()), usize::MAX).await;
        let start = Instant::now();
        while shop.proxy.injected().len() < FAULTS {
            assert!(start.elapsed() < Duration::from_mins(10), "only {} faults", shop.proxy.injected().len());
            shop.disturb(every_fault(&shop.sites()), FAULTS).await;
        }
    } else {
        let faults = one_fault_of_each_kind(&shop.sites());
        let planned = faults.len();
        let injected = shop.disturb(faults, usize::MAX).await;
        assert!(injected > planned / 4, "only {injected} of {planned} faults were injected");
    }
    shop.close(callers).await;
}

/// Returns each action at each message of each statement that was seen.
fn every_fault(sites: &[MessageSite]) -> Vec<MessageFault> {
    let actions = [
        Action::Hold(HOLD_INTERVAL),
        Action::CutBefore,
        Action::Halve(HOLD_INTERVAL),
        Action::CutWithin,
        Action::Hold(SHORT_HOLD_INTERVAL),
        Action::CutAfter,
    ];
    let fault = |number: usize| {
        let (pass, place) = (number / sites.len(), number % sites.len());
        let (site, action) = (sites.get(place)?, *actions.get((pass + place) % actions.len())?);
        Some(MessageFault::at(site, action))
    };
    (0..sites.len() * actions.len()).filter_map(fault).collect()
}

/// Returns each kind of message, of any statement, cut before, within or after it; and those of a transaction
/// and of a creation held.
fn one_fault_of_each_kind(sites: &[MessageSite]) -> Vec<MessageFault> {
    let kinds: BTreeSet<_> = sites.iter().map(|site| (site.side, site.message)).collect();
    let cuts = kinds.into_iter().flat_map(|(side, message)| {
        [Action::CutBefore, Action::CutWithin, Action::CutAfter].map(|action| MessageFault {
            statement: None,
            side,
            message,
            skipped: 3,
            action,
        })
    });
    let held = |statement: &str, side, message, action| MessageFault {
        statement: Some(statement.to_owned()),
        side,
        message,
        skipped: 0,
        action,
    };
    let holds = [
        held("BEGIN", Side::Frontend, "Query", Action::Hold(HOLD_INTERVAL)),
        held("BEGIN", Side::Backend, "ReadyForQuery", Action::Halve(HOLD_INTERVAL)),
        held("COMMIT", Side::Backend, "CommandComplete", Action::Hold(HOLD_INTERVAL)),
        held("WITH unnest", Side::Frontend, "Execute", Action::Hold(HOLD_INTERVAL)),
        held("WITH unnest", Side::Backend, "DataRow", Action::Halve(HOLD_INTERVAL)),
        held("INSERT pets", Side::Backend, "ReadyForQuery", Action::Hold(HOLD_INTERVAL)),
    ];
    for fault in &holds {
        let is_there = |site: &MessageSite| {
            fault.statement.as_ref() == Some(&site.statement) && fault.message == site.message
        };
        assert!(sites.iter().any(is_there), "{fault:?} is at no message: {sites:?}");
    }
    holds.into_iter().chain(cuts).collect()
}

/// Two cores on one database, the first of them behind the proxy.
struct ProxiedDeployment {
    cores: TwoCores,
    proxy: PostgresProxy,
    database: Database,
    /// Installation on the database.
    direct: Installation,
    /// Installation behind the proxy.
    proxied: Arc<Installation>,
    /// Account whose usage is reported.
    counted: i64,
    /// Messages that the proxy had seen when calls began, those of the schema among them.
    seen_before: BTreeMap<MessageSite, u64>,
}

impl ProxiedDeployment {
    async fn open() -> Self {
        let server = PostgresServer::shared().await;
        let database = server.database().await;
        let proxy = PostgresProxy::to(server.address()).await;
        let on = |url: &str| petstore().with_variable("PETSTORE_DATABASE_URL", url);
        let (direct, proxied) = (on(&database.url()), on(&database.url_at(proxy.address())));
        let cores = TwoCores::start(&proxied, &[], &direct).await;
        let counted = super::cores::account_id(&direct, "counted").await;
        let seen_before = proxy.seen();
        Self { cores, proxy, database, direct, proxied: Arc::new(proxied), counted, seen_before }
    }

    async fn callers(&self, with_operator: bool) -> Callers {
        let operator = with_operator.then(|| Arc::clone(&self.proxied));
        Callers::start(&self.cores, operator, self.counted).await
    }

    /// Returns every site of a message of the calls.
    fn sites(&self) -> Vec<MessageSite> {
        let is_of_calls = |site: &MessageSite, count: u64| {
            site.message != "Terminate" && self.seen_before.get(site).is_none_or(|before| *before < count)
        };
        self.proxy
            .seen()
            .into_iter()
            .filter(|(site, count)| is_of_calls(site, *count))
            .map(|(site, _)| site)
            .collect()
    }

    /// Lets every kind of call succeed, so that the proxy has seen every message that there is.
    async fn warm_up(&self, callers: &Callers) {
        let kinds = callers.kinds();
        eventually(Duration::from_mins(3), async || {
            let calls = callers.calls();
            let missing =
                kinds.iter().find(|kind| calls.get(*kind).is_none_or(|(succeeded, _)| *succeeded < 3));
            missing.map_or(Ok(()), |kind| Err(format!("{kind}: {:?}", calls.get(kind))))
        })
        .await;
    }

    /// Injects the faults, until there are enough of them. Returns their number.
    async fn disturb(&self, faults: Vec<MessageFault>, enough: usize) -> usize {
        let planned = faults.len();
        let disturbed = stream::iter(faults).map(async |fault| {
            if self.proxy.injected().len() >= enough {
                return false;
            }
            let action = fault.action;
            let injected = self.proxy.inject(fault, HOLD_INTERVAL).await;
            if let (Some(_), Action::Hold(time) | Action::Halve(time)) = (&injected, action) {
                tokio::time::sleep(time).await; // so that not all connections are held at once
            }
            injected.is_some()
        });
        let injected =
            disturbed.buffer_unordered(AT_ONCE).filter(|injected| std::future::ready(*injected)).count();
        let injected = injected.await;
        println!("{injected} of {planned} faults injected");
        injected
    }

    /// Ends the faults and the calls, kills the first core, and compares what was acknowledged with what is
    /// kept.
    async fn close(self, callers: Callers) {
        self.proxy.nothing_held().await;
        let answers = callers.stop().await;
        let left_open = self.left_open().await;
        let injected = self.proxy.injected();
        let sites: BTreeSet<_> = injected.iter().map(|injected| &injected.site).collect();
        println!(
            "{} faults at {} of {} places; {left_open} connections left in a transaction",
            injected.len(),
            sites.len(),
            self.sites().len()
        );
        println!("{}", answers.counts());
        self.cores.gateway.crash().await;
        self.cores.first.crash().await;
        answers.assert_kept(&self.cores.second, self.counted).await;
        answers.assert_accounts_kept(&self.direct).await;
        assert_eq!(left_open, 0, "connections were left in a transaction");
    }

    /// Waits until no connection is inside a transaction, or some were left there. Calls in flight continue
    /// or are given up within 2.5 s, and PostgreSQL itself ends abandoned transactions after 5 s. Returns
    /// their number.
    async fn left_open(&self) -> u32 {
        const OPEN: &str = "SELECT count(*), \
                            count(*) FILTER (WHERE clock_timestamp() - state_change > interval '4 s') \
                            FROM pg_stat_activity \
                            WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
        eventually(Duration::from_secs(30), async || {
            let counts = self.database.psql(OPEN).await;
            let (open, left) = counts.split_once('|').unwrap();
            match (open.parse::<u32>().unwrap(), left.parse::<u32>().unwrap()) {
                (0, _) => Ok(0),
                (open, 0) => Err(format!("{open} connections are in a transaction")),
                (_, left) => Ok(left),
            }
        })
        .await
    }
}
