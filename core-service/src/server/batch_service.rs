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
    internal::v1::{
        Answer, Call, CallRequest, CallResponse, CallStatus, answer::Outcome,
        batch_service_server::BatchService, call::Method,
    },
    v1::{pet_store_server::PetStore, store_service_server::StoreService},
};
use prost::{Message, bytes::Bytes};
use tokio::task::yield_now;
use tonic::{Request, Response, Status};

use crate::{Core, grpc::MAX_BATCH};

#[tonic::async_trait]
impl BatchService for Core {
    type CallStream = BoxStream<'static, Result<CallResponse, Status>>;

    /// Answers the calls of a batch. Every call has separate limits (`Calls::answer`); all of them are
    /// cancelled if the gateway cancels the batch.
    async fn call(&self, mut request: Request<CallRequest>) -> Result<Response<Self::CallStream>, Status> {
        let context = take_context(&mut request);
        let calls = request.into_inner().calls;
        if !(1..=MAX_BATCH).contains(&calls.len()) {
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
        let value = |text: String| HeaderValue::try_from(text).ok().filter(|value| !value.is_empty());
        let context = CallContext {
            id: value(call.request_id).as_ref().and_then(RequestId::parse),
            timeout: (call.timeout_ms > 0).then(|| Duration::from_millis(call.timeout_ms.into())),
            trace: value(call.traceparent).map(|value| (TRACEPARENT, value)).into_iter().collect(),
            ..of_batch
        };
        let answered = match call.method {
            Some(Method::Message(message)) => {
                self.answer_call(&call.path, message, context).await.map(Outcome::Message)
            }
            older => self.answer_older_call(older, context).await,
        };
        let outcome = answered.unwrap_or_else(|status| {
            Outcome::Failure(CallStatus {
                code: status.code().into(),
                message: status.message().to_owned(),
                details: status.details().to_vec(),
            })
        });
        Answer { call: number, outcome: Some(outcome) }
    }

    /// Answers a call of a gateway before 1.2, which has a form of its own, in this form. Until 1.3.
    async fn answer_older_call(
        &self,
        method: Option<Method>,
        context: CallContext,
    ) -> tonic::Result<Outcome> {
        Ok(match method {
            Some(Method::GetPet(it)) => {
                Outcome::GetPet(self.get_pet(within(context, it)).await?.into_inner())
            }
            Some(Method::ListPets(it)) => {
                Outcome::ListPets(self.list_pets(within(context, it)).await?.into_inner())
            }
            Some(Method::CreatePet(it)) => {
                Outcome::CreatePet(self.create_pet(within(context, it)).await?.into_inner())
            }
            Some(Method::ListOrders(it)) => {
                Outcome::ListOrders(self.list_orders(within(context, it)).await?.into_inner())
            }
            Some(Method::Message(_)) | None => return Err(unknown_method()),
        })
    }
}

pub(crate) fn unknown_method() -> Status {
    Status::unimplemented("no method that this core knows")
}

pub(crate) fn decoded<M: Message + Default>(
    message: Bytes,
    context: CallContext,
) -> tonic::Result<Request<M>> {
    let invalid = |_| Status::internal("the message of a call in a batch cannot be decoded");
    M::decode(message).map(|message| within(context, message)).map_err(invalid)
}

fn within<M>(context: CallContext, message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(context);
    request
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
