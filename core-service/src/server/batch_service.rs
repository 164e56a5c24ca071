//! `petstore.internal.v1.BatchService`: batches of waiting calls of a gateway, each batch in one message.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream, FuturesUnordered},
};
use http::HeaderName;
use petstore_grpc_server::{CallContext, CallId, caller, started};
use petstore_proto::{
    Answer, Call, LocalCall,
    internal::v1::{CallRequest, CallResponse, CallStatus, batch_service_server::BatchService},
};
use prost::Message;
use tokio::{task::yield_now, time::Instant};
use tonic::{Request, Response, Status};

use crate::{
    Core,
    grpc::{call::Messages, limits::LIMITS},
};

#[tonic::async_trait]
impl BatchService for Core {
    type CallStream = BoxStream<'static, Result<CallResponse, Status>>;

    /// Answers the calls of a batch. Every call has separate limits (`Calls::answer_call`); all of them are
    /// cancelled if the gateway cancels the batch.
    async fn call(&self, request: Request<CallRequest>) -> Result<Response<Self::CallStream>, Status> {
        let (started, caller) = (started(&request), caller(&request));
        let calls = request.into_inner().calls;
        if !(1..=LIMITS.batch).contains(&calls.len()) {
            return Err(Status::invalid_argument("a batch has 1 to 128 calls"));
        }
        let core = Arc::new(self.clone());
        let answer = |(number, call)| Arc::clone(&core).answer_one(number, call, started, caller.clone());
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
) -> impl for<'a> Fn(LocalCall<'a>) -> BoxFuture<'a, Result<(), Status>> + Send + Sync + use<> {
    let core = Arc::new(core.clone());
    move |call| {
        let core = Arc::clone(&core);
        async move {
            let LocalCall { request_id, trace, timeout, request, response } = call;
            let context = CallContext {
                id: CallId::from_value(request_id),
                caller: None,
                timeout: Some(timeout),
                trace,
                started: Instant::now(),
            };
            core.answer_call(&context, &mut Messages::Local { request, response }).await
        }
        .boxed()
    }
}

impl Core {
    async fn answer_one(
        self: Arc<Self>,
        number: u32,
        call: Call,
        started: Instant,
        caller: Option<Arc<str>>,
    ) -> Answer {
        let traceparent = call.traceparent.clone().map(|value| (TRACEPARENT, value));
        let context = CallContext {
            id: call.request_id.as_ref().and_then(CallId::from_value),
            caller,
            timeout: (call.timeout_ms > 0).then(|| Duration::from_millis(call.timeout_ms.into())),
            trace: traceparent.into_iter().collect(),
            started,
        };
        let mut answer = Answer { call: number, ..Answer::default() };
        let messages = &mut Messages::Encoded { call: &call, answer: &mut answer };
        if let Err(status) = self.answer_call(&context, messages).await {
            answer.failure = Some(CallStatus {
                code: status.code().into(),
                message: status.message().to_owned(),
                details: status.details().to_vec(),
            });
        }
        answer
    }
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

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
