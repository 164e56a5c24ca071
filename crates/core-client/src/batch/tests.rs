use std::{convert::Infallible, io};

use futures_util::{
    FutureExt, StreamExt,
    future::join_all,
    stream::{BoxStream, FuturesUnordered},
};
use petstore_proto::{
    internal::v1::{
        CallResponse,
        batch_service_server::{BatchService, BatchServiceServer},
        call::Method,
    },
    rpc::GET_PET,
    v1::{GetPetRequest, GetPetResponse, Pet},
};
use tokio::sync::watch;
use tonic::{Code, Request, Response};
use tower::{BoxError, ServiceBuilder, service_fn};

use super::*;
use crate::{
    CoreTransport,
    transport::{is_transport_failure, named},
};

/// Number that does not exist.
const MISSING: i64 = 404;
/// Number whose lookup never ends.
const ENDLESS: i64 = 1_000;
const LONG_TIMEOUT: Duration = Duration::from_mins(1);

/// A core that answers batches, and nothing else.
#[derive(Clone)]
struct Core {
    batches: watch::Sender<Vec<Vec<Call>>>,
    /// While `true`, only failures are answered.
    is_held: watch::Sender<bool>,
    given_up: watch::Sender<usize>,
}

impl Core {
    fn new() -> Self {
        Self {
            batches: watch::Sender::default(),
            is_held: watch::Sender::new(false),
            given_up: watch::Sender::default(),
        }
    }

    fn transport(&self) -> CoreTransport {
        let service = BatchServiceServer::new(self.clone());
        CoreTransport::new(ServiceBuilder::new().map_err(|never: Infallible| match never {}).service(service))
    }

    fn queue(&self) -> Arc<CallQueue> {
        let core = named(self.transport(), Arc::default());
        CallQueue::new(core.clone(), CoreBreaker::new(core))
    }

    /// Returns the number of calls in each batch, once there are that many batches.
    async fn sizes(&self, batches: usize) -> Vec<usize> {
        let mut seen = self.batches.subscribe();
        let seen = seen.wait_for(|seen| seen.len() >= batches).await.unwrap();
        seen.iter().map(Vec::len).collect()
    }

    async fn answer(self, number: u32, call: Call) -> Answer {
        let Some(Method::Message(message)) = call.method else { panic!("{call:?}") };
        let asked = GetPetRequest::decode(message).unwrap().pet_id;
        if asked == ENDLESS {
            pending::<()>().await;
        }
        let outcome = if asked == MISSING {
            let (code, message) = (Code::NotFound.into(), "none".into());
            Outcome::Failure(CallStatus { code, message, details: vec![7] })
        } else {
            self.is_held.subscribe().wait_for(|is_held| !is_held).await.unwrap();
            let pet = Pet { id: asked, ..Pet::default() };
            Outcome::Message(GetPetResponse { pet: Some(pet) }.encode_to_vec().into())
        };
        Answer { call: number, outcome: Some(outcome) }
    }
}

/// Counts a batch that is dropped before its end.
struct UntilEnd(watch::Sender<usize>, bool);

impl Drop for UntilEnd {
    fn drop(&mut self) {
        if !self.1 {
            self.0.send_modify(|count| *count += 1);
        }
    }
}

#[tonic::async_trait]
impl BatchService for Core {
    type CallStream = BoxStream<'static, Result<CallResponse, Status>>;

    async fn call(&self, request: Request<CallRequest>) -> Result<Response<Self::CallStream>, Status> {
        let calls = request.into_inner().calls;
        self.batches.send_modify(|seen| seen.push(calls.clone()));
        let answers: FuturesUnordered<_> =
            (0..).zip(calls).map(|(number, call)| self.clone().answer(number, call)).collect();
        let until_end = UntilEnd(self.given_up.clone(), false);
        let messages =
            futures_util::stream::unfold((answers, until_end), async |(mut answers, mut until_end)| {
                let Some(answer) = answers.next().await else {
                    until_end.1 = true;
                    return None;
                };
                Some((Ok(CallResponse { answers: vec![answer] }), (answers, until_end)))
            });
        Ok(Response::new(messages.boxed()))
    }
}

fn get(number: i64) -> Call {
    let message = GetPetRequest { pet_id: number }.encode_to_vec().into();
    Call { path: GET_PET.path.into(), method: Some(Method::Message(message)), ..Call::default() }
}

async fn id(queue: &Arc<CallQueue>, number: i64) -> Result<i64, Status> {
    let response = queue.call(get(number), Instant::now() + LONG_TIMEOUT).await?;
    Ok(GetPetResponse::decode(response).unwrap().pet.unwrap().id)
}

#[tokio::test]
async fn the_first_call_is_sent_at_once_and_later_ones_are_batched() {
    let core = Core::new();
    let queue = core.queue();
    assert_eq!(id(&queue, 1).await.unwrap(), 1);
    core.is_held.send_replace(true);
    let calls = (2..=41).map(|number| {
        let (core, queue) = (core.clone(), Arc::clone(&queue));
        tokio::spawn(async move {
            // The first two are sent alone, one
            if number > 2 {
                core.sizes(2).await;
            }
            if number > 3 {
                core.sizes(3).await;
            }
            id(&queue, number).await.unwrap()
        })
    });
    let calls: Vec<_> = calls.collect();
    assert_eq!(core.sizes(4).await, [1, 1, 1, 38]);
    core.is_held.send_replace(false);
    for (number, call) in (2..).zip(calls) {
        assert_eq!(call.await.unwrap(), number);
    }
}

#[test]
fn one_batch_gathers_at_a_time_and_slots_are_bounded() {
    let queued = |state: &mut BatchState| {
        let (answer, answered) = oneshot::channel();
        state.queue.push_back(QueuedCall { call: get(1), deadline: Instant::now(), answer });
        answered
    };
    let mut state = BatchState::default();
    assert!(!state.take_slot() && state.is_single_call(), "there is no call");
    let mut callers = Vec::new();
    for slots in 1..=SLOTS {
        callers.extend([queued(&mut state), queued(&mut state)]);
        assert!(!state.is_single_call());
        assert!(state.take_slot() && !state.take_slot(), "a batch gathers already");
        assert_eq!((state.gather().len(), state.in_flight, state.slots), (2, 2 * slots, slots));
    }
    callers.push(queued(&mut state));
    assert!(!state.take_slot(), "all slots are taken");
    assert!(!state.is_single_call(), "others are in flight");
    state.in_flight = 0;
    assert!(state.is_single_call());
}

#[tokio::test]
async fn only_a_lost_batch_makes_the_breaker_probe_the_core() {
    for (is_lost, code) in [(true, Code::Unknown), (false, Code::ResourceExhausted)] {
        let probes = watch::Sender::new(0);
        let count = probes.clone();
        let transport = service_fn(move |request: http::Request<tonic::body::Body>| {
            let is_probe = request.uri().path() == super::super::breaker::PROBE;
            count.send_modify(|probes| *probes += usize::from(is_probe));
            async move {
                if is_lost {
                    return Err(BoxError::from(io::Error::from(io::ErrorKind::ConnectionReset)));
                }
                Ok(Status::resource_exhausted("full").into_http::<tonic::body::Body>())
            }
        });
        let core = named(CoreTransport::new(transport), Arc::default());
        let queue = CallQueue::new(core.clone(), CoreBreaker::new(core));
        let status = id(&queue, 1).await.unwrap_err();
        assert_eq!((status.code(), is_transport_failure(&status)), (code, is_lost), "{status:?}");
        if is_lost {
            probes.subscribe().wait_for(|probes| *probes > 0).await.unwrap();
        } else {
            for _ in 0..100 {
                yield_now().await;
            }
            assert_eq!(*probes.borrow(), 0);
        }
    }
}

#[tokio::test]
async fn each_call_carries_its_remaining_time() {
    let core = Core::new();
    let queue = core.queue();
    let deadlines = [10, 30].map(|secs| Instant::now() + Duration::from_secs(secs));
    let calls = deadlines.map(|deadline| queue.call(get(1), deadline));
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    let left: Vec<_> = core.batches.borrow().iter().flatten().map(|call| call.timeout_ms).collect();
    assert!(matches!(left[..], [5_001..=10_000, 25_001..=30_000]), "{left:?}");
}

#[tokio::test]
async fn the_failure_of_one_call_does_not_fail_the_others() {
    let core = Core::new();
    let queue = core.queue();
    let (missing, found) = tokio::join!(id(&queue, MISSING), id(&queue, 2));
    assert_eq!((core.sizes(1).await, found.unwrap()), (vec![2], 2));
    let status = missing.unwrap_err();
    assert_eq!((status.code(), status.message(), status.details()), (Code::NotFound, "none", &[7][..]));
    assert!(!is_transport_failure(&status));
}

#[tokio::test]
async fn cancelling_a_call_cancels_no_other_and_cancelling_all_cancels_the_batch() {
    let core = Core::new();
    let queue = core.queue();
    let call = |number| {
        let queue = Arc::clone(&queue);
        tokio::spawn(async move { id(&queue, number).await })
    };
    core.is_held.send_replace(true);
    let (endless, other) = (call(ENDLESS), call(2));
    assert_eq!(core.sizes(1).await, [2]);
    endless.abort();
    assert!(endless.await.unwrap_err().is_cancelled());
    core.is_held.send_replace(false);
    assert_eq!(other.await.unwrap().unwrap(), 2);
    core.given_up.subscribe().wait_for(|count| *count == 1).await.unwrap();
    assert_eq!(queue.state.lock().in_flight, 0);
}

#[tokio::test]
async fn a_call_cancelled_before_it_is_sent_is_not_sent() {
    let core = Core::new();
    let queue = core.queue();
    for _ in 0..=SLOTS {
        assert!(id(&queue, 1).now_or_never().is_none());
        while queue.state.lock().is_gathering {
            tokio::task::yield_now().await; // the batch finds no call, and gives its slot back
        }
    }
    assert_eq!(id(&queue, 2).await.unwrap(), 2);
    assert_eq!(core.batches.borrow().concat().len(), 1);
}

#[tokio::test]
async fn a_slow_call_delays_neither_other_answers_nor_the_next_batch() {
    let core = Core::new();
    let queue = core.queue();
    let slow = (0..10).map(|_| id(&queue, ENDLESS));
    let others = async {
        for number in 1..=100 {
            assert_eq!(id(&queue, number).await.unwrap(), number);
        }
    };
    tokio::select! {
        _ = join_all(slow) => panic!("there was no end"),
        () = others => {}
    }
}

#[tokio::test]
async fn a_batch_has_no_more_calls_than_a_core_accepts() {
    let core = Core::new();
    let queue = core.queue();
    let calls = join_all((0..300).map(|number| id(&queue, number))).await;
    assert!(calls.iter().all(Result::is_ok));
    assert!(core.batches.borrow().iter().all(|batch| batch.len() <= MAX_BATCH));
    assert_eq!(queue.state.lock().in_flight, 0);
}
