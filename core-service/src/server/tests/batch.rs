use std::collections::BTreeMap;

use petstore_proto::{
    Answer, Call, LocalCall, NAMED, UnaryRequest,
    internal::v1::{
        CallRequest, CallResponse, CallStatus, ListChangesRequest, batch_service_client::BatchServiceClient,
    },
    v1::{
        BatchCreatePetsRequest, GetOrderRequest, GetPetRequest, GetPetResponse, ListOrdersRequest,
        ListPetsRequest,
    },
};
use prost::Message;
use tonic::Streaming;

use super::*;
use crate::grpc::methods::is_batched;

impl Shop {
    async fn batch(&self, calls: Vec<Call>) -> Result<Streaming<CallResponse>, Status> {
        batch_over(BoxCloneSyncService::new(in_memory(services(&self.core))), calls).await
    }
}

async fn batch_over(transport: Transport, calls: Vec<Call>) -> Result<Streaming<CallResponse>, Status> {
    Ok(BatchServiceClient::new(transport).call(CallRequest { calls }).await?.into_inner())
}

/// Returns the answers by their index, and the sizes of their messages.
async fn all(mut messages: Streaming<CallResponse>) -> (BTreeMap<u32, Answer>, Vec<usize>) {
    let (mut answers, mut sizes) = (BTreeMap::new(), Vec::new());
    while let Some(message) = messages.message().await.unwrap() {
        sizes.push(message.encoded_len());
        for answer in message.answers {
            assert!(answers.insert(answer.call, answer).is_none(), "answered twice");
        }
    }
    (answers, sizes)
}

fn get(pet_id: i64) -> Call {
    Call::new(&GetPetRequest { pet_id })
}

fn create(name: &str) -> Call {
    Call::new(&new_pet(name, PetStatus::Sold))
}

/// Returns a call that names its method, as one of a method that 1.0.0 lacks.
fn named<M: UnaryRequest>(request: &M) -> Call {
    Call { field: NAMED, path: M::PATH.into(), ..Call::new(request) }
}

fn response<M: UnaryRequest>(answer: &Answer) -> M::Response {
    assert_eq!(answer.failure, None);
    answer.clone().response::<M>().expect("an answer to this method").unwrap()
}

fn is_created(answer: &Answer) -> bool {
    answer.clone().response::<CreatePetRequest>().is_some()
}

fn status(answer: &Answer) -> Status {
    let CallStatus { code, message, details } = answer.failure.clone().expect("a failure");
    Status::with_details(Code::from_i32(code), message, details.into())
}

/// A call as 1.0.0 writes it.
#[derive(Clone, PartialEq, Message)]
struct CallOf100 {
    #[prost(string, tag = "1")]
    request_id: String,
    #[prost(string, tag = "2")]
    traceparent: String,
    #[prost(uint32, tag = "3")]
    timeout_ms: u32,
    #[prost(message, tag = "5")]
    list_pets: Option<ListPetsRequest>,
}

#[test]
fn a_call_has_the_form_of_the_last_release() {
    let request = ListPetsRequest { page_size: 7, page_token: "token".into(), ..Default::default() };
    let call = Call {
        request_id: Some("a-request".parse().unwrap()),
        traceparent: Some("00-01".parse().unwrap()),
        timeout_ms: 300,
        ..Call::new(&request)
    };
    let old = CallOf100 {
        request_id: "a-request".into(),
        traceparent: "00-01".into(),
        timeout_ms: 300,
        list_pets: Some(request),
    };
    assert_eq!(CallOf100::decode(&*call.encode_to_vec()).unwrap(), old);
    assert_eq!(Call::decode(&*old.encode_to_vec()).unwrap(), call);
    assert_eq!(call.encode_to_vec().len(), call.encoded_len());
}

#[tokio::test]
async fn each_call_of_a_batch_is_answered_as_if_made_alone() {
    let shop = Shop::open().await;
    shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    let missing = Call { request_id: Some("the-request".parse().unwrap()), ..get(404) };
    let unknown = Call { path: "petstore.v2.PetStore/GetPet".into(), ..named(&GetPetRequest::default()) };
    let calls = vec![
        get(1),
        missing,
        create(" "),
        create("Tom"),
        Call::new(&ListPetsRequest { page_size: -1, ..Default::default() }),
        Call::new(&ListOrdersRequest::default()),
        Call::default(),
        named(&GetPetRequest { pet_id: 1 }),
        named(&GetOrderRequest { order_id: 7 }),
        unknown,
    ];
    let (answers, _) = all(shop.batch(calls).await.unwrap()).await;
    assert_eq!(response::<GetPetRequest>(&answers[&0]).pet.unwrap().name, "Rex");
    let missing = status(&answers[&1]);
    assert_eq!(
        verdict(&missing),
        refused(Code::NotFound, "PET_NOT_FOUND", "there is no pet with the id 404")
    );
    assert_eq!(missing.get_error_details().request_info().unwrap().request_id, "the-request");
    let invalid = status(&answers[&2]);
    assert_eq!(
        verdict(&invalid),
        refused(Code::InvalidArgument, "VALIDATION_FAILED", "name must not be blank")
    );
    assert_eq!(invalid.get_error_details().bad_request().unwrap().field_violations.len(), 1);
    assert_eq!(response::<CreatePetRequest>(&answers[&3]).pet.unwrap().name, "Tom");
    assert_eq!(reason(&status(&answers[&4])), "INVALID_PARAMETER");
    assert_eq!(response::<ListOrdersRequest>(&answers[&5]).orders, []);
    assert_eq!(status(&answers[&6]).code(), Code::Unimplemented);
    assert_eq!(answers[&7].field, NAMED - 1, "it is answered in the form of the call");
    assert_eq!(answers[&7].message, answers[&0].message);
    assert_eq!(reason(&status(&answers[&8])), "ORDER_NOT_FOUND");
    assert_eq!(status(&answers[&9]).code(), Code::Unimplemented);
    assert_eq!(answers.len(), 10);
}

#[tokio::test]
async fn a_batch_carries_every_method_that_a_gateway_may_call_in_one() {
    let shop = Shop::open().await;
    for method in METHODS.rows.iter().filter(|method| is_batched(method)) {
        let call = Call { field: NAMED, path: method.path.into(), ..Call::default() };
        let (answers, _) = all(shop.batch(vec![call]).await.unwrap()).await;
        let code = answers[&0].failure.as_ref().map(|failure| failure.code);
        assert_ne!(code, Some(Code::Unimplemented.into()), "{}", method.path);
    }
}

#[tokio::test]
async fn a_batch_carries_no_method_whose_messages_may_be_larger_or_that_is_internal() {
    let shop = Shop::open().await;
    let calls = vec![named(&BatchCreatePetsRequest::default()), named(&ListChangesRequest::default())];
    let (answers, _) = all(shop.batch(calls).await.unwrap()).await;
    assert!(answers.values().all(|answer| status(answer).code() == Code::Unimplemented), "{answers:?}");
}

#[tokio::test]
async fn a_call_from_this_process_is_answered_as_if_made_in_a_batch() {
    let shop = Shop::open().await;
    shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    let core = in_process(&shop.core);
    let call = async |pet_id| {
        let request_id = &"the-request".parse().unwrap();
        let (mut request, mut response) = (Some(GetPetRequest { pet_id }), None::<GetPetResponse>);
        let (request, answer) = (&mut request, &mut response);
        let (trace, timeout) = (http::HeaderMap::new(), Duration::from_secs(5));
        core(LocalCall { request_id, trace, timeout, request, response: answer }).await.map(|()| response)
    };
    assert_eq!(call(1).await.unwrap().unwrap().pet.unwrap().name, "Rex");
    let missing = call(404).await.unwrap_err();
    assert_eq!(reason(&missing), "PET_NOT_FOUND");
    assert_eq!(missing.get_error_details().request_info().unwrap().request_id, "the-request");
}

#[tokio::test]
async fn a_call_is_answered_while_another_waits_and_each_keeps_its_own_deadline() {
    let shop = Shop::open().await;
    shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    let lock = lock_for_writing(&shop.home).await;
    let within = |timeout_ms| Call { timeout_ms, ..create("Tom") };
    let mut messages = shop.batch(vec![within(4_000), get(1), within(300)]).await.unwrap();
    // In either order, and perhaps together: the call that waits for the lock is the first of the batch.
    let mut answers = BTreeMap::new();
    while answers.len() < 2 {
        for answer in messages.message().await.unwrap().unwrap().answers {
            answers.insert(answer.call, answer);
        }
    }
    response::<GetPetRequest>(&answers[&1]);
    assert_eq!(reason(&status(&answers[&2])), "DEADLINE_EXCEEDED");
    lock.rollback().await.unwrap();
    let (rest, _) = all(messages).await;
    assert!(is_created(&rest[&0]) && rest.len() == 1, "{rest:?}");
}

#[tokio::test]
async fn each_call_of_a_batch_uses_capacity_of_the_core() {
    let shop = Shop::open().await;
    let but_one = u32::try_from(BOUNDS.calls - 1).unwrap();
    let _others = shop.core.calls.capacity().of(Class::Write).acquire_many(but_one).await;
    let lock = lock_for_writing(&shop.home).await;
    let mut messages = shop.batch(vec![create("Rex"), create("Tom")]).await.unwrap();
    let first = messages.message().await.unwrap().unwrap().answers;
    let [refused] = &first[..] else { panic!("{first:?}") };
    assert_overloaded(&status(refused));
    lock.rollback().await.unwrap();
    let (answers, _) = all(messages).await;
    assert!(answers.values().all(is_created) && answers.len() == 1);
}

#[tokio::test]
async fn a_batch_has_1_to_128_calls() {
    let shop = Shop::open().await;
    for (count, fits) in [(0, false), (1, true), (128, true), (129, false)] {
        let answer = shop.batch(vec![get(1); count]).await;
        assert_eq!(
            answer.map_err(|status| status.code()).map(|_| ()),
            if fits { Ok(()) } else { Err(Code::InvalidArgument) }
        );
    }
}

#[tokio::test]
async fn many_pages_of_the_longest_names_are_split_into_messages() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::ZERO).await;
    for _ in 0..100 {
        shop.client().create_pet(new_pet(&"\u{1F415}".repeat(255), PetStatus::Sold)).await.unwrap();
    }
    let list = |page_size| Call::new(&ListPetsRequest { page_size, ..Default::default() });
    let mut calls = vec![list(100); 20];
    calls.extend(vec![list(1); 40]);
    let (answers, sizes) = all(batch_over(server.transport(), calls).await.unwrap()).await;
    assert_eq!(answers.len(), 60);
    assert!(sizes.iter().all(|size| *size <= LIMITS.message), "{sizes:?}");
    for (at, answer) in answers {
        let page = response::<ListPetsRequest>(&answer);
        assert_eq!(page.pets.len(), if at < 20 { 100 } else { 1 });
    }
}

#[tokio::test]
async fn a_drain_loses_no_call_of_a_batch_in_flight() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::from_mins(1)).await;
    let lock = lock_for_writing(&shop.home).await;
    let mut client = BatchServiceClient::new(server.channel());
    let calls = (0..10).map(|_| create("Rex")).collect();
    let batch = tokio::spawn(async move { client.call(CallRequest { calls }).await });
    while shop.core.calls.capacity().of(Class::Write).available_permits() > BOUNDS.calls - 10 {
        tokio::task::yield_now().await; // until the calls are in flight
    }
    let address = server.address;
    let stopping = tokio::spawn(server.stop());
    while tokio::net::TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await; // until no call is admitted any more
    }
    lock.rollback().await.unwrap();
    let (answers, _) = all(batch.await.unwrap().unwrap().into_inner()).await;
    assert!(answers.values().all(is_created), "{answers:?}");
    assert_eq!(answers.len(), 10);
    assert!(stopping.await.unwrap() < Duration::from_secs(10));
}
