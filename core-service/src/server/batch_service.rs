//! `petstore.internal.v1.BatchService`: batches of waiting calls of a gateway, each batch in one message.

use std::{sync::Arc, time::Duration};

use futures_util::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream, FuturesUnordered},
};
use http::{HeaderName, HeaderValue};
use petstore_caller::call::{CallContext, RequestId};
use petstore_grpc_server::take_context;
use petstore_proto::{
    Answer, Call, Outcome,
    internal::v1::{CallRequest, CallResponse, CallStatus, batch_service_server::BatchService},
};
use prost::{Message, bytes::Bytes};
use tokio::task::yield_now;
use tonic::{Request, Response, Status};

use crate::{Core, grpc::LIMITS};

#[tonic::async_trait]
impl BatchService for Core {
    type CallStream = BoxStream<'static, Result<CallResponse, Status>>;

    /// Answers the calls of a batch. Every call has separate limits (`Calls::answer`); all of them are
    /// cancelled if the gateway cancels the batch.
    async fn call(&self, mut request: Request<CallRequest>) -> Result<Response<Self::CallStream>, Status> {
        let context = take_context(&mut request);
        let calls = request.into_inner().calls;
        if !(1..=LIMITS.batch).contains(&calls.len()) {
            return Err(Status::invalid_argument("a batch has 1 to 128 calls"));
        }
        let core = Arc::new(self.clone());
        let answer = |(number, call)| Arc::clone(&core).answer_one(number, call, context.clone());
        let answers: FuturesUnordered<_> = (0..).zip(calls).map(answer).collect();
        let mut messages = Box::pin(messages(answers));
        // The head goes out with the first answers, in one write.
        let first = messages.next().await;
        Ok(Response::new(stream::iter(first).chain(messages).map(Ok).boxed()))
    }
}

impl Core {
    async fn answer_one(self: Arc<Self>, number: u32, call: Call, of_batch: CallContext) -> Answer {
        let value = |value: &Bytes| HeaderValue::from_maybe_shared(value.clone()).ok();
        let context = CallContext {
            id: value(&call.request_id).as_ref().and_then(RequestId::parse),
            timeout: (call.timeout_ms > 0).then(|| Duration::from_millis(call.timeout_ms.into())),
            trace: value(&call.traceparent).map(|value| (TRACEPARENT, value)).into_iter().collect(),
            ..of_batch
        };
        let outcome = match self.answer_call(&call, context).await {
            Ok(response) => call.answered(response),
            Err(status) => Outcome::Failure(CallStatus {
                code: status.code().into(),
                message: status.message().to_owned(),
                details: status.details().to_vec(),
            }),
        };
        Answer { call: number, outcome: Some(outcome) }
    }
}

pub(crate) fn decoded<M: Message + Default>(
    message: &Bytes,
    context: CallContext,
) -> tonic::Result<Request<M>> {
    let invalid = |_| Status::internal("the message of a call in a batch cannot be decoded");
    let mut request = Request::new(M::decode(message.clone()).map_err(invalid)?);
    request.extensions_mut().insert(context);
    Ok(request)
}

pub(crate) fn encoded(answered: tonic::Result<Response<impl Message>>) -> tonic::Result<Bytes> {
    Ok(answered?.get_ref().encode_to_vec().into())
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
