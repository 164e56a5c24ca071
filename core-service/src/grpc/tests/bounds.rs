use petstore_proto::v1::ListPetsRequest;

use super::*;

#[tokio::test]
async fn the_callers_deadline_is_kept_on_both_transports_and_answered_with_its_reason() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::ZERO).await;
    let _lock = lock_for_writing(&shop.home.url()).await;
    for mut client in [shop.client(), PetStoreClient::new(server.transport())] {
        let mut answer = None;
        // The remote client keeps the deadline too: on a busy machine its own verdict may come before ours.
        for _ in 0..5 {
            let mut request = Request::new(new_pet("Rex", PetStatus::Sold));
            request.set_timeout(Duration::from_millis(500));
            let error = client.create_pet(request).await.unwrap_err();
            answer = Some((error.code(), reason(&error)));
            if error.code() == Code::DeadlineExceeded {
                break;
            }
        }
        assert_eq!(answer, Some((Code::DeadlineExceeded, "DEADLINE_EXCEEDED".to_owned())));
    }
}

#[tokio::test]
async fn a_panic_is_one_failed_call() {
    let shop = Shop::open().await;
    let error = shop
        .core
        .answer::<_, (), _>("Test", Request::new(()), async |()| panic!("planted"))
        .await
        .unwrap_err();
    assert_eq!(verdict(&error), refused(Code::Internal, "INTERNAL", "the service failed to answer"));
    shop.core.answer("Test", Request::new(()), async |()| Ok(())).await.unwrap();
}

#[tokio::test]
async fn more_calls_than_the_core_can_take_are_refused_at_once() {
    let shop = Shop::open().await;
    let all = shop.core.capacity.acquire_many(u32::try_from(crate::MAX_CALLS).unwrap()).await.unwrap();
    let error = shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::Unavailable, "OVERLOADED"));
    assert!(error.get_error_details().retry_info().is_some());
    drop(all);
    shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::ZERO).await;
    for mut client in [shop.client(), PetStoreClient::new(server.transport())] {
        let error = client.create_pet(new_pet(&"x".repeat(MAX_MESSAGE), PetStatus::Sold)).await.unwrap_err();
        assert_eq!(error.code(), Code::OutOfRange, "{error:?}");
        client.create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    }
}

#[tokio::test]
async fn a_page_of_the_longest_names_fits_in_a_message() {
    let shop = Shop::open().await;
    for _ in 0..100 {
        shop.client().create_pet(new_pet(&"\u{1F415}".repeat(255), PetStatus::Sold)).await.unwrap();
    }
    let list = ListPetsRequest { page_size: 100, ..Default::default() };
    assert_eq!(shop.client().list_pets(list).await.unwrap().into_inner().pets.len(), 100);
}
