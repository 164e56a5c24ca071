//! `petstore.v1.PetStore`.

use petstore_proto::{
    rpc::{BATCH_CREATE_PETS, CREATE_PET, GET_PET, IMPORT_PETS, LIST_PETS},
    v1::{
        BatchCreatePetsRequest, BatchCreatePetsResponse, CreatePetRequest, CreatePetResponse, GetPetRequest,
        GetPetResponse, ImportPetsRequest, ImportPetsResponse, ListPetsRequest, ListPetsResponse,
        pet_store_server::PetStore,
    },
};
use tonic::{Request, Response, Result, Streaming, async_trait};

use super::{convert, import::import};
use crate::{
    Core,
    catalogue::{Created, PetId},
    domain::PetStoreError,
    grpc::CallResult,
};

#[async_trait]
impl PetStore for Core {
    async fn list_pets(&self, request: Request<ListPetsRequest>) -> Result<Response<ListPetsResponse>> {
        self.answer(LIST_PETS, request, |request| page(self, request)).await
    }

    async fn create_pet(&self, request: Request<CreatePetRequest>) -> Result<Response<CreatePetResponse>> {
        self.answer(CREATE_PET, request, |request| add(self, request)).await
    }

    async fn get_pet(&self, request: Request<GetPetRequest>) -> Result<Response<GetPetResponse>> {
        self.answer(GET_PET, request, |request| pet(self, request)).await
    }

    async fn batch_create_pets(
        &self,
        request: Request<BatchCreatePetsRequest>,
    ) -> Result<Response<BatchCreatePetsResponse>> {
        self.answer(BATCH_CREATE_PETS, request, |request| add_batch(self, request)).await
    }

    async fn import_pets(
        &self,
        request: Request<Streaming<ImportPetsRequest>>,
    ) -> Result<Response<ImportPetsResponse>> {
        let import = |messages| Box::pin(import(self, messages));
        let (metadata, result, extensions) = self.answer(IMPORT_PETS, request, import).await?.into_parts();
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
