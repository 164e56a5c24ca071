use petstore_proto::v1::{GetPetRequest, ListPetsRequest, Pet};

use super::*;

#[tokio::test]
async fn both_transports_give_the_same_answers() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::ZERO).await;
    for (id, transport) in [(1, shop.client()), (2, PetStoreClient::new(server.transport()))] {
        let mut client = transport;
        let mut rex = Pet { id, name: "Rex".into(), category_id: 7, ..Pet::default() };
        rex.set_status(PetStatus::Sold);
        let created = client.create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap().into_inner();
        assert_eq!(created.pet.as_ref(), Some(&rex));
        #[expect(deprecated, reason = "removed on REST alone")]
        let found = client.get_pet(GetPetRequest { pet_id: id }).await.unwrap().into_inner();
        assert_eq!(found.pet, Some(rex));
        #[expect(deprecated, reason = "removed on REST alone")]
        let missing = client.get_pet(GetPetRequest { pet_id: -7 }).await.unwrap_err();
        assert_eq!(
            verdict(&missing),
            refused(Code::NotFound, "PET_NOT_FOUND", "there is no pet with the id -7")
        );
        let invalid = client.create_pet(CreatePetRequest::default()).await.unwrap_err();
        assert_eq!(
            verdict(&invalid),
            refused(
                Code::InvalidArgument,
                "VALIDATION_FAILED",
                "name must not be blank; categoryId is required"
            )
        );
    }
}

#[tokio::test]
async fn an_absent_status_stays_absent_and_an_unknown_one_is_refused() {
    let shop = Shop::open().await;
    let created =
        shop.client().create_pet(new_pet("Rex", PetStatus::Unspecified)).await.unwrap().into_inner();
    assert_eq!(created.pet.unwrap().status(), PetStatus::Unspecified);
    for number in [-1, 4, i32::MAX] {
        let mut request = new_pet("Rex", PetStatus::Sold);
        request.pet.as_mut().unwrap().status = number;
        let refusal = shop.client().create_pet(request).await.unwrap_err();
        let message = "status must be one of available, pending, sold";
        assert_eq!(verdict(&refusal), refused(Code::InvalidArgument, "VALIDATION_FAILED", message));
        let list = ListPetsRequest { status: number, ..Default::default() };
        let refusal = shop.client().list_pets(list).await.unwrap_err();
        assert_eq!(verdict(&refusal), refused(Code::InvalidArgument, "VALIDATION_FAILED", message));
    }
}

#[tokio::test]
async fn a_list_continues_at_its_token() {
    let shop = Shop::open().await;
    for status in [PetStatus::Sold, PetStatus::Available, PetStatus::Sold, PetStatus::Sold] {
        shop.client().create_pet(new_pet("Rex", status)).await.unwrap();
    }
    let list = async |page_size, page_token: &str, status: PetStatus| {
        let request = ListPetsRequest { page_size, page_token: page_token.into(), status: status.into() };
        shop.client().list_pets(request).await.map(|answer| {
            let page = answer.into_inner();
            (page.pets.iter().map(|pet| pet.id).collect::<Vec<_>>(), page.next_page_token)
        })
    };
    let (ids, token) = list(2, "", PetStatus::Sold).await.unwrap();
    assert_eq!(ids, [1, 3]);
    let (ids, end) = list(0, &token, PetStatus::Unspecified).await.unwrap();
    assert_eq!((ids, end.as_str()), (vec![4], ""));

    let refusal = list(2, &token, PetStatus::Available).await.unwrap_err();
    let message = "cursor belongs to a list with another filter";
    assert_eq!(verdict(&refusal), refused(Code::InvalidArgument, "INVALID_CURSOR", message));
    let refusal = list(2, &token[1..], PetStatus::Sold).await.unwrap_err();
    let message = "cursor must be the one returned with the previous page, unchanged";
    assert_eq!(verdict(&refusal), refused(Code::InvalidArgument, "INVALID_CURSOR", message));
    let refusal = list(-1, "", PetStatus::Sold).await.unwrap_err();
    let message = "pageSize must not be negative";
    assert_eq!(verdict(&refusal), refused(Code::InvalidArgument, "INVALID_PARAMETER", message));
}
