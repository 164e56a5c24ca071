//! `petstore.v1.PetStore`.

use petstore_proto::v1::{
    BatchCreatePetsRequest, BatchCreatePetsResponse, CreatePetRequest, CreatePetResponse, GetPetRequest,
    GetPetResponse, ImportPetsRequest, ImportPetsResponse, ListPetsRequest, ListPetsResponse,
    pet_store_server::PetStore,
};
use tonic::{Request, Response, Status, Streaming};

use super::{convert, import::import};
use crate::{
    Core,
    catalogue::{Created, PetId},
    domain::PetStoreError,
    grpc::{
        call::{CallResult, service},
        methods::IMPORT_PETS,
    },
};

service! {
    PetStore {
        list_pets LIST_PETS ListPetsRequest ListPetsResponse page;
        create_pet CREATE_PET CreatePetRequest CreatePetResponse add;
        get_pet GET_PET GetPetRequest GetPetResponse pet;
        batch_create_pets CREATE_PETS BatchCreatePetsRequest BatchCreatePetsResponse add_batch;
    }

    async fn import_pets(
        &self,
        request: Request<Streaming<ImportPetsRequest>>,
    ) -> Result<Response<ImportPetsResponse>, Status> {
        let capacity = self.calls.capacity().of(IMPORT_PETS.class);
        let import = |messages| Box::pin(import(self, messages));
        let answer = self.calls.answer(capacity, &IMPORT_PETS, request, import).await?;
        let (metadata, result, extensions) = answer.into_parts();
        Ok(Response::from_parts(metadata, result?, extensions))
    }
}

pub(crate) async fn page(core: &Core, request: ListPetsRequest) -> CallResult<ListPetsResponse> {
    let list = convert::list_pets(&request)?;
    let status = convert::pet_status(list.status);
    let page = core.store.catalogue.list_pets(list).await?;
    Ok(ListPetsResponse {
        pets: page.rows.into_iter().map(convert::pet).collect(),
        next_page_token: page.next.map(|token| token.to_string()).unwrap_or_default(),
        status,
    })
}

pub(crate) async fn add(core: &Core, request: CreatePetRequest) -> CallResult<CreatePetResponse> {
    let created = match convert::create_pet(request)? {
        (Some(key), new) => core.store.catalogue.insert_pet_once(&key, new, core.clock.now()).await?,
        (None, new) => Created { pet: core.store.catalogue.insert_pet(new).await?, replayed: false },
    };
    Ok(CreatePetResponse { pet: Some(convert::pet(created.pet)), replayed: created.replayed })
}

pub(crate) async fn pet(core: &Core, request: GetPetRequest) -> CallResult<GetPetResponse> {
    let id = PetId(request.pet_id);
    let pet = core.store.catalogue.find_pet(id).await?.ok_or(PetStoreError::PetNotFound(id.0))?;
    Ok(GetPetResponse { pet: Some(convert::pet(pet)) })
}

async fn add_batch(core: &Core, request: BatchCreatePetsRequest) -> CallResult<BatchCreatePetsResponse> {
    let batch = convert::batch(request)?;
    let _permit = core.chunks.acquire().await; // never closed
    let pets = core.store.catalogue.insert_pets(batch).await?;
    Ok(BatchCreatePetsResponse { pets: pets.into_iter().map(convert::pet).collect() })
}
