//! `petstore.internal.v1.BatchService`: batches of waiting calls of a gateway, each batch in one message.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream, FuturesUnordered},
};
use http::{HeaderMap, HeaderValue};
use petstore_grpc_server::{CallContext, CallId, started};
use petstore_proto::internal::v1::{
    Answer, Call, CallRequest, CallResponse, CallStatus, answer::Outcome, batch_service_server::BatchService,
    call::Method,
};
use prost::Message;
use tokio::{task::yield_now, time::Instant};
use tonic::{Request, Response, Status};

use super::{
    limits::LIMITS,
    methods::{CREATE_PET, GET_PET, LIST_ORDERS, LIST_PETS},
    pet_store, store_service,
};
use crate::Core;

#[tonic::async_trait]
impl BatchService for Core {
    type CallStream = BoxStream<'static, Result<CallResponse, Status>>;

    /// Answers the calls of a batch. Every call has separate limits (`Calls::answer_call`); all of them are
    /// cancelled if the gateway cancels the batch.
    async fn call(&self, request: Request<CallRequest>) -> Result<Response<Self::CallStream>, Status> {
        let started = started(&request);
        let calls = request.into_inner().calls;
        if !(1..=LIMITS.batch).contains(&calls.len()) {
            return Err(Status::invalid_argument("a batch has 1 to 128 calls"));
        }
        let core = Arc::new(self.clone());
        let answer = |(number, call)| Arc::clone(&core).answer_one(number, call, started);
        let answers: FuturesUnordered<_> = (0..).zip(calls).map(answer).collect();
        let mut messages = Box::pin(messages(answers));
        // The head goes out with the first answers, in one write.
        let first = messages.next().await;
        Ok(Response::new(stream::iter(first).chain(messages).map(Ok).boxed()))
    }
}

/// Makes single calls in this process. Each behaves as in a batch, without a network message.
pub fn in_process(
    core: &Core,
) -> impl Fn(Call) -> BoxFuture<'static, Answer> + Clone + Send + Sync + use<> + 'static {
    let core = Arc::new(core.clone());
    move |call| Arc::clone(&core).answer_one(0, call, Instant::now()).boxed()
}

impl Core {
    async fn answer_one(self: Arc<Self>, number: u32, call: Call, started: Instant) -> Answer {
        let context = CallContext {
            id: CallId::parse(&call.request_id),
            timeout: (call.timeout_ms > 0).then(|| Duration::from_millis(call.timeout_ms.into())),
            trace: trace(&call.traceparent),
            started,
        };
        let (core, context) = (&*self, &context);
        let outcome = match call.method {
            Some(Method::GetPet(request)) => core
                .calls
                .answer_call(&GET_PET, context, || pet_store::pet(core, request))
                .await
                .map(Outcome::GetPet),
            Some(Method::ListPets(request)) => {
                let answered =
                    core.calls.answer_call(&LIST_PETS, context, || pet_store::page(core, request)).await;
                answered.map(Outcome::ListPets)
            }
            Some(Method::CreatePet(request)) => {
                let answered =
                    core.calls.answer_call(&CREATE_PET, context, || pet_store::add(core, request)).await;
                answered.map(Outcome::CreatePet)
            }
            Some(Method::ListOrders(request)) => {
                let work = || store_service::page(core, request);
                core.calls.answer_call(&LIST_ORDERS, context, work).await.map(Outcome::ListOrders)
            }
            None => Err(Status::unimplemented("no method that this core knows")),
        };
        Answer { call: number, outcome: Some(outcome.unwrap_or_else(|status| failure(&status))) }
    }
}

fn failure(status: &Status) -> Outcome {
    Outcome::Failure(CallStatus {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: status.details().to_vec(),
    })
}

/// Returns the header fields that name the caller's span.
fn trace(traceparent: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !traceparent.is_empty()
        && let Ok(value) = HeaderValue::try_from(traceparent)
    {
        headers.insert("traceparent", value);
    }
    headers
}

/// Returns the answers as a stream. Answers that are known at the same time are sent in one message.
fn messages(answers: FuturesUnordered<impl Future<Output = Answer>>) -> impl Stream<Item = CallResponse> {
    stream::unfold((answers, None), async |(mut answers, left_over)| {
        let first = match left_over {
            Some(answer) => answer,
            None => answers.next().await?,
        };
        if !answers.is_empty() {
            yield_now().await; // the store has more of them ready when it has answered one
        }
        let mut size = first.encoded_len();
        let mut message = CallResponse { answers: vec![first] };
        while let Some(Some(answer)) = answers.next().now_or_never() {
            size += answer.encoded_len();
            if size > 128 * 1024 {
                return Some((message, (answers, Some(answer))));
            }
            message.answers.push(answer);
        }
        Some((message, (answers, None)))
    })
}
