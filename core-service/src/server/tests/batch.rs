use std::collections::BTreeMap;

use petstore_proto::{
    internal::v1::{
        Answer, Call, CallRequest, CallResponse, CallStatus, answer::Outcome,
        batch_service_client::BatchServiceClient, call::Method,
    },
    rpc::{BATCH_CREATE_PETS, CREATE_PET, GET_ORDER, GET_PET, LIST_CHANGES, LIST_ORDERS, LIST_PETS, Rpc},
    v1::{
        CreatePetResponse, GetOrderRequest, GetPetRequest, GetPetResponse, ListOrdersRequest,
        ListOrdersResponse, ListPetsRequest, ListPetsResponse,
    },
};
use prost::{Message, bytes::Bytes};
use tonic::Streaming;

use super::*;
use crate::grpc::is_batched;

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

fn call(rpc: Rpc, request: &impl Message) -> Call {
    let method = Some(Method::Message(request.encode_to_vec().into()));
    Call { path: rpc.path.into(), method, ..Call::default() }
}

fn get(pet_id: i64) -> Call {
    call(GET_PET, &GetPetRequest { pet_id })
}

fn create(name: &str) -> Call {
    call(CREATE_PET, &new_pet(name, PetStatus::Sold))
}

fn is_created(answer: &Answer) -> bool {
    matches!(answer.outcome, Some(Outcome::Message(_)))
}

/// Returns the response to a call that names its method, or panics with the failure.
fn response<T: Message + Default>(answer: &Answer) -> T {
    let Some(Outcome::Message(message)) = answer.outcome.clone() else { panic!("{answer:?}") };
    T::decode(message).unwrap()
}

fn status(answer: &Answer) -> Status {
    let Some(Outcome::Failure(CallStatus { code, message, details })) = answer.outcome.clone() else {
        panic!("{answer:?}")
    };
    Status::with_details(Code::from_i32(code), message, details.into())
}

#[tokio::test]
async fn a_call_of_an_older_gateway_is_answered_in_its_form() {
    let shop = Shop::open().await;
    shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    let older = |method| Call { method: Some(method), ..Call::default() };
    let calls = vec![
        older(Method::GetPet(GetPetRequest { pet_id: 1 })),
        older(Method::ListPets(ListPetsRequest::default())),
        older(Method::CreatePet(new_pet("Tom", PetStatus::Sold))),
        older(Method::ListOrders(ListOrdersRequest::default())),
    ];
    let (answers, _) = all(shop.batch(calls).await.unwrap()).await;
    let outcomes: Vec<_> = answers.into_values().filter_map(|answer| answer.outcome).collect();
    assert!(
        matches!(
            &outcomes[..],
            [Outcome::GetPet(_), Outcome::ListPets(_), Outcome::CreatePet(_), Outcome::ListOrders(_)]
        ),
        "{outcomes:?}"
    );
}

#[tokio::test]
async fn each_call_of_a_batch_is_answered_as_if_made_alone() {
    let shop = Shop::open().await;
    shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    let missing = Call { request_id: "the-request".into(), ..get(404) };
    let unknown =
        Call { path: "petstore.v2.PetStore/GetPet".into(), ..call(GET_PET, &GetPetRequest::default()) };
    let calls = vec![
        get(1),
        missing,
        create(" "),
        create("Tom"),
        call(LIST_PETS, &ListPetsRequest { page_size: -1, ..Default::default() }),
        call(LIST_ORDERS, &ListOrdersRequest::default()),
        Call::default(),
        call(GET_ORDER, &GetOrderRequest { order_id: 7 }),
        unknown,
    ];
    let (answers, _) = all(shop.batch(calls).await.unwrap()).await;
    assert_eq!(response::<GetPetResponse>(&answers[&0]).pet.unwrap().name, "Rex");
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
    assert_eq!(response::<CreatePetResponse>(&answers[&3]).pet.unwrap().name, "Tom");
    assert_eq!(reason(&status(&answers[&4])), "INVALID_PARAMETER");
    assert_eq!(response::<ListOrdersResponse>(&answers[&5]).orders, []);
    assert_eq!(status(&answers[&6]).code(), Code::Unimplemented);
    assert_eq!(reason(&status(&answers[&7])), "ORDER_NOT_FOUND");
    assert_eq!(status(&answers[&8]).code(), Code::Unimplemented);
    assert_eq!(answers.len(), 9);
}

#[tokio::test]
async fn a_batch_carries_every_method_that_a_gateway_may_call_in_one() {
    let shop = Shop::open().await;
    for method in METHODS.rows.iter().filter(|method| is_batched(method)) {
        let message = Some(Method::Message(Bytes::new()));
        let call = Call { path: method.path.into(), method: message, ..Call::default() };
        let (answers, _) = all(shop.batch(vec![call]).await.unwrap()).await;
        let outcome = answers[&0].outcome.clone();
        let is_unknown = |code| code == i32::from(Code::Unimplemented);
        assert!(
            !matches!(outcome, Some(Outcome::Failure(CallStatus { code, .. })) if is_unknown(code)),
            "{}",
            method.path
        );
    }
}

#[tokio::test]
async fn a_batch_carries_no_method_whose_messages_may_be_larger_or_that_is_internal() {
    let shop = Shop::open().await;
    let calls = [BATCH_CREATE_PETS, LIST_CHANGES].map(|rpc| call(rpc, &GetPetRequest::default()));
    let calls = calls.to_vec();
    let (answers, _) = all(shop.batch(calls).await.unwrap()).await;
    assert!(answers.values().all(|answer| status(answer).code() == Code::Unimplemented), "{answers:?}");
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
    response::<GetPetResponse>(&answers[&1]);
    assert_eq!(reason(&status(&answers[&2])), "DEADLINE_EXCEEDED");
    lock.rollback().await.unwrap();
    let (rest, _) = all(messages).await;
    assert!(is_created(&rest[&0]) && rest.len() == 1, "{rest:?}");
}

#[tokio::test]
async fn each_call_of_a_batch_uses_capacity_of_the_core() {
    let shop = Shop::open().await;
    let but_one = u32::try_from(BOUNDS.calls - 1).unwrap();
    let _others = shop.core.calls.capacity(Class::Write).acquire_many(but_one).await;
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
    let list = |page_size| call(LIST_PETS, &ListPetsRequest { page_size, ..Default::default() });
    let mut calls = vec![list(100); 20];
    calls.extend(vec![list(1); 40]);
    let (answers, sizes) = all(batch_over(server.transport(), calls).await.unwrap()).await;
    assert_eq!(answers.len(), 60);
    assert!(sizes.iter().all(|size| *size <= MAX_MESSAGE), "{sizes:?}");
    for (at, answer) in answers {
        let page = response::<ListPetsResponse>(&answer);
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
    while shop.core.calls.capacity(Class::Write).available_permits() > BOUNDS.calls - 10 {
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
