use std::collections::BTreeMap;

use petstore_proto::{
    internal::v1::{
        Answer, Call, CallRequest, CallResponse, CallStatus, answer::Outcome,
        batch_service_client::BatchServiceClient, call::Method,
    },
    v1::{GetPetRequest, ListOrdersRequest, ListPetsRequest},
};
use prost::Message;
use tonic::Streaming;

use super::*;

impl Shop {
    async fn batch(&self, calls: Vec<Call>) -> Result<Streaming<CallResponse>, Status> {
        batch_over(BoxCloneSyncService::new(in_memory(services(&self.core))), calls).await
    }
}

async fn batch_over(transport: Transport, calls: Vec<Call>) -> Result<Streaming<CallResponse>, Status> {
    Ok(BatchServiceClient::new(transport).call(CallRequest { calls }).await?.into_inner())
}

/// Returns the answers by their index, and the sizes of their messages.
async fn all(mut messages: Streaming<CallResponse>) -> (BTreeMap<u32, Outcome>, Vec<usize>) {
    let (mut answers, mut sizes) = (BTreeMap::new(), Vec::new());
    while let Some(message) = messages.message().await.unwrap() {
        sizes.push(message.encoded_len());
        for Answer { call, outcome } in message.answers {
            assert!(answers.insert(call, outcome.unwrap()).is_none(), "answered twice");
        }
    }
    (answers, sizes)
}

fn call(method: Method) -> Call {
    Call { method: Some(method), ..Call::default() }
}

fn get(pet_id: i64) -> Call {
    call(Method::GetPet(GetPetRequest { pet_id }))
}

fn create(name: &str) -> Call {
    call(Method::CreatePet(new_pet(name, PetStatus::Sold)))
}

fn status(outcome: &Outcome) -> Status {
    let Outcome::Failure(CallStatus { code, message, details }) = outcome else { panic!("{outcome:?}") };
    Status::with_details(Code::from_i32(*code), message, details.clone().into())
}

#[tokio::test]
async fn each_call_of_a_batch_is_answered_as_if_made_alone() {
    let shop = Shop::open().await;
    shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    let named = |call| Call { request_id: "the-request".into(), ..call };
    let calls = vec![
        get(1),
        named(get(404)),
        named(create(" ")),
        create("Tom"),
        call(Method::ListPets(ListPetsRequest { page_size: -1, ..Default::default() })),
        call(Method::ListOrders(ListOrdersRequest::default())),
        Call::default(),
    ];
    let (batch, _) = all(shop.batch(calls.clone()).await.unwrap()).await;
    let in_process = in_process(&shop.core);
    let mut alone = BTreeMap::new();
    for (at, call) in (0..).zip(calls) {
        alone.insert(at, in_process(call).await.outcome.unwrap());
    }
    for answers in [batch, alone] {
        let Outcome::GetPet(found) = &answers[&0] else { panic!("{answers:?}") };
        assert_eq!(found.pet.as_ref().unwrap().name, "Rex");
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
        assert!(
            matches!(&answers[&3], Outcome::CreatePet(created) if created.pet.as_ref().unwrap().name == "Tom")
        );
        assert_eq!(reason(&status(&answers[&4])), "INVALID_PARAMETER");
        assert!(matches!(&answers[&5], Outcome::ListOrders(page) if page.orders.is_empty()));
        assert_eq!(status(&answers[&6]).code(), Code::Unimplemented);
        assert_eq!(answers.len(), 7);
    }
}

#[tokio::test]
async fn a_call_is_answered_while_another_waits_and_each_keeps_its_own_deadline() {
    let shop = Shop::open().await;
    shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    let lock = lock_for_writing(&shop.home.url()).await;
    let within = |timeout_ms| Call { timeout_ms, ..create("Tom") };
    let mut messages = shop.batch(vec![within(4_000), get(1), within(300)]).await.unwrap();
    // In either order, and perhaps together: the call that waits for the lock is the first of the batch.
    let mut answers = BTreeMap::new();
    while answers.len() < 2 {
        for Answer { call, outcome } in messages.message().await.unwrap().unwrap().answers {
            answers.insert(call, outcome.unwrap());
        }
    }
    assert!(matches!(answers.get(&1), Some(Outcome::GetPet(_))), "{answers:?}");
    assert_eq!(reason(&status(&answers[&2])), "DEADLINE_EXCEEDED");
    lock.rollback().await.unwrap();
    let (rest, _) = all(messages).await;
    assert!(matches!(rest.get(&0), Some(Outcome::CreatePet(_))) && rest.len() == 1, "{rest:?}");
}

#[tokio::test]
async fn each_call_of_a_batch_uses_capacity_of_the_core() {
    let shop = Shop::open().await;
    let but_one = u32::try_from(BOUNDS.calls - 1).unwrap();
    let _others = shop.core.calls.capacity().of(Class::Write).acquire_many(but_one).await;
    let lock = lock_for_writing(&shop.home.url()).await;
    let mut messages = shop.batch(vec![create("Rex"), create("Tom")]).await.unwrap();
    let first = messages.message().await.unwrap().unwrap().answers;
    let [Answer { outcome: Some(refused), .. }] = &first[..] else { panic!("{first:?}") };
    assert_overloaded(&status(refused));
    lock.rollback().await.unwrap();
    let (answers, _) = all(messages).await;
    assert!(answers.values().all(|outcome| matches!(outcome, Outcome::CreatePet(_))) && answers.len() == 1);
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
    let list = |page_size| call(Method::ListPets(ListPetsRequest { page_size, ..Default::default() }));
    let mut calls = vec![list(100); 20];
    calls.extend(vec![list(1); 40]);
    let (answers, sizes) = all(batch_over(server.transport(), calls).await.unwrap()).await;
    assert_eq!(answers.len(), 60);
    assert!(sizes.iter().all(|size| *size <= LIMITS.message), "{sizes:?}");
    for (at, outcome) in answers {
        let Outcome::ListPets(page) = outcome else { panic!("{at}") };
        assert_eq!(page.pets.len(), if at < 20 { 100 } else { 1 });
    }
}

#[tokio::test]
async fn a_drain_loses_no_call_of_a_batch_in_flight() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::from_mins(1)).await;
    let lock = lock_for_writing(&shop.home.url()).await;
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
    assert!(answers.values().all(|outcome| matches!(outcome, Outcome::CreatePet(_))), "{answers:?}");
    assert_eq!(answers.len(), 10);
    assert!(stopping.await.unwrap() < Duration::from_secs(10));
}
