//! Batching, and calls that do not join a batch.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{FutureExt, future::join_all};
use sea_orm::ConnAcquireErr;
use tokio::sync::Semaphore;

use super::*;
use crate::connection::{Settings, Target};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of calls in one batch.
const MOST: usize = 3;

/// A call. Its answer is its batch, sent when that batch has a permit to end.
#[derive(Clone)]
struct Ask(Arc<Desk>, &'static str);

/// State shared by the batches of one test.
struct Desk {
    /// One permit for each batch that may end.
    leave: Semaphore,
    begun: Semaphore,
    panics: AtomicBool,
}

#[derive(Clone)]
struct Together;

impl Batched for Together {
    type Call = Ask;
    type Answer = Vec<&'static str>;
    type Batch = Vec<Ask>;

    fn add(batch: &mut Vec<Ask>, call: Ask) -> Result<usize, Ask> {
        if batch.len() == MOST {
            return Err(call);
        }
        batch.push(call);
        Ok(batch.len() - 1)
    }

    fn answer(_: &Session, batch: Vec<Ask>) -> BoxFuture<'_, Result<Vec<Self::Answer>, DbErr>> {
        Box::pin(async move {
            let desk = Arc::clone(&batch[0].0);
            desk.begun.add_permits(1);
            desk.leave.acquire().await.unwrap().forget();
            assert!(!desk.panics.load(Ordering::Relaxed), "as it was asked for");
            let names: Vec<_> = batch.iter().map(|call| call.1).collect();
            Ok(vec![names.clone(); names.len()])
        })
    }
}

struct Test {
    batches: Batches<Together>,
    desk: Arc<Desk>,
}

impl Test {
    /// Opens batches with one slot on this number of connections.
    fn new(connections: usize) -> Self {
        Self::on("sqlite::memory:", connections)
    }

    fn on(url: &str, connections: usize) -> Self {
        let connections = Connections::new(Settings {
            target: Target::Sqlite(Box::new(url.parse().unwrap())),
            connections,
            is_for_writes: false,
            job_timeout: Some(ANSWER_TIMEOUT),
            lifetimes: None,
            health: Arc::default(),
        });
        let desk =
            Desk { leave: Semaphore::new(0), begun: Semaphore::new(0), panics: AtomicBool::new(false) };
        Self { batches: Batches::new(connections.clone(), connections, 1), desk: Arc::new(desk) }
    }

    fn ask(&self, name: &'static str) -> BoxFuture<'static, Result<Vec<&'static str>, BatchError>> {
        let (batches, call) = (self.batches.clone(), Ask(Arc::clone(&self.desk), name));
        let mut asking = async move { batches.ask(call).await }.boxed();
        assert!((&mut asking).now_or_never().is_none());
        asking
    }

    /// Waits until one more batch has begun.
    async fn begun(&self) {
        time::timeout(ANSWER_TIMEOUT, self.desk.begun.acquire())
            .await
            .expect("a batch begins")
            .unwrap()
            .forget();
    }

    /// Adds permits for `count` batches to end.
    fn let_end(&self, count: usize) {
        self.desk.leave.add_permits(count);
    }
}

#[tokio::test]
async fn the_first_call_runs_at_once_and_waiting_ones_are_batched_up_to_a_bound() {
    let test = Test::new(1);
    let first = test.ask("a");
    test.begun().await;
    let others = ["b", "c", "d", "e"].map(|name| test.ask(name));
    test.let_end(3);
    assert_eq!(first.await.unwrap(), ["a"], "nothing joins what is under way");
    let answers: Vec<_> = join_all(others).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, [vec!["b", "c", "d"], vec!["b", "c", "d"], vec!["b", "c", "d"], vec!["e"]]);
}

#[tokio::test]
async fn a_cancelled_caller_cancels_no_other() {
    let test = Test::new(1);
    let under_way = ["a", "b"].map(|name| test.ask(name));
    test.begun().await;
    let [given_up, stays] = under_way;
    drop(given_up);
    let [withdrawn, waits] = ["c", "d"].map(|name| test.ask(name));
    drop(withdrawn);
    test.let_end(2);
    assert_eq!(stays.await.unwrap(), ["a", "b"], "what has begun is finished");
    assert_eq!(waits.await.unwrap(), ["d"], "what has not begun is withdrawn");
}

#[tokio::test]
async fn a_batch_without_callers_is_not_begun() {
    let test = Test::new(1);
    let first = test.ask("a");
    test.begun().await;
    drop(test.ask("b"));
    test.let_end(1);
    first.await.unwrap();
    let next = test.ask("c");
    test.let_end(1);
    assert_eq!(next.await.unwrap(), ["c"]);
}

#[tokio::test]
async fn overdue_calls_get_a_second_connection() {
    let test = Test::new(2);
    let first = test.ask("a");
    test.begun().await;
    let second = test.ask("b");
    let both = tokio::spawn(join_all([first, second]));
    test.begun().await; // although the first has not ended
    test.let_end(2);
    let answers: Vec<_> = both.await.unwrap().into_iter().map(Result::unwrap).collect();
    assert_eq!(answers, [["a"], ["b"]]);
}

#[tokio::test]
async fn a_batch_that_panics_fails_its_calls_and_the_next_is_answered() {
    let test = Test::new(1);
    let unlucky = ["a", "b"].map(|name| test.ask(name));
    test.begun().await;
    let next = test.ask("c");
    test.desk.panics.store(true, Ordering::Relaxed);
    test.let_end(1);
    for answer in join_all(unlucky).await {
        assert!(matches!(answer, Err(BatchError { error: DbErr::Custom(_), is_shared: true })), "{answer:?}");
    }
    test.begun().await;
    test.desk.panics.store(false, Ordering::Relaxed);
    test.let_end(1);
    assert_eq!(next.await.unwrap(), ["c"]);
}

#[tokio::test]
async fn the_wait_in_the_queue_is_bounded() {
    let test = Test::new(1);
    let first = test.ask("a");
    test.begun().await;
    let late = test.ask("b").await;
    let Err(BatchError { error: DbErr::ConnectionAcquire(ConnAcquireErr::Timeout), .. }) = late else {
        panic!("{late:?}")
    };
    test.let_end(1);
    assert_eq!(first.await.unwrap(), ["a"]);
}

#[tokio::test]
async fn without_a_connection_all_waiting_calls_fail() {
    let test = Test::on("sqlite:///nowhere/at/all.db", 1);
    for answer in join_all(["a", "b"].map(|name| test.ask(name))).await {
        assert!(matches!(answer, Err(BatchError { error: DbErr::Conn(_), .. })), "{answer:?}");
    }
    let again = test.ask("c").await;
    assert!(matches!(again, Err(BatchError { error: DbErr::Conn(_), .. })), "{again:?}");
}

#[tokio::test]
async fn closing_finishes_the_running_batch_and_refuses_waiting_calls() {
    let test = Test::new(1);
    let first = test.ask("a");
    test.begun().await;
    let waiting = test.ask("b");
    let mut closing = Box::pin(test.batches.connections.close());
    assert!((&mut closing).now_or_never().is_none(), "a batch is under way");
    test.let_end(1);
    closing.await;
    assert_eq!(first.await.unwrap(), ["a"]);
    for refused in [waiting.await, test.batches.ask(Ask(Arc::clone(&test.desk), "c")).await] {
        let Err(BatchError { error, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(error, DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed));
    }
}
