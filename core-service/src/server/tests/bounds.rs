use petstore_proto::{internal::v1::ListChangesRequest, v1::ListPetsRequest};

use super::*;

#[tokio::test]
async fn the_callers_deadline_holds_on_both_transports() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::ZERO).await;
    let _lock = lock_for_writing(&shop.home).await;
    for mut client in [shop.client(), PetStoreClient::new(server.transport())] {
        let mut answer = None;
        // The remote client enforces the deadline too: on a busy machine its error may arrive before the
        // server's.
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
async fn calls_over_the_cores_capacity_are_refused_at_once() {
    let shop = Shop::open().await;
    let all = shop.core.calls.capacity(Class::Write).acquire_many(u32::try_from(BOUNDS.calls).unwrap()).await;
    assert_overloaded(&shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap_err());
    shop.client().list_pets(ListPetsRequest::default()).await.expect("reads are still answered");
    shop.keys().list_changes(ListChangesRequest::default()).await.expect("gateways are still answered");
    drop(all);
    shop.client().create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
}
