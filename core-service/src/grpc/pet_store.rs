//! `petstore.v1.PetStore`.

use petstore_proto::v1::{
    BatchCreatePetsRequest, BatchCreatePetsResponse, CreatePetRequest, CreatePetResponse, GetPetRequest,
    GetPetResponse, ImportPetsRequest, ImportPetsResponse, ListPetsRequest, ListPetsResponse,
    pet_store_server::PetStore,
};
use tonic::{Request, Response, Status, Streaming};

use super::{
    convert,
    import::import,
    methods::{CREATE_PET, CREATE_PETS, GET_PET, IMPORT_PETS, LIST_PETS},
};
use crate::{
    Core,
    domain::{Created, PetId, PetStoreError},
};

/// Work of the methods that can also be called in batches.
impl Core {
    pub(super) async fn page_of_pets(
        &self,
        request: ListPetsRequest,
    ) -> Result<ListPetsResponse, PetStoreError> {
        let list = convert::list_pets(&request)?;
        let status = convert::pet_status(list.status).into();
        let page = self.store.list_pets(list).await?;
        Ok(ListPetsResponse {
            pets: page.rows.into_iter().map(convert::pet).collect(),
            next_page_token: page.next.map(|token| token.to_string()).unwrap_or_default(),
            status,
        })
    }

    pub(super) async fn add_pet(
        &self,
        request: CreatePetRequest,
    ) -> Result<CreatePetResponse, PetStoreError> {
        let created = match convert::create_pet(request)? {
            (Some(key), new) => self.store.insert_pet_once(&key, new, self.clock.now()).await?,
            (None, new) => Created { pet: self.store.insert_pet(new).await?, replayed: false },
        };
        Ok(CreatePetResponse { pet: Some(convert::pet(created.pet)), replayed: created.replayed })
    }

    pub(super) async fn pet(&self, request: GetPetRequest) -> Result<GetPetResponse, PetStoreError> {
        let id = PetId(request.pet_id);
        let pet = self.store.find_pet(id).await?.ok_or(PetStoreError::PetNotFound(id))?;
        Ok(GetPetResponse { pet: Some(convert::pet(pet)) })
    }
}

#[tonic::async_trait]
impl PetStore for Core {
    async fn list_pets(
        &self,
        request: Request<ListPetsRequest>,
    ) -> Result<Response<ListPetsResponse>, Status> {
        self.answer(&LIST_PETS, request, |request| self.page_of_pets(request)).await
    }

    async fn create_pet(
        &self,
        request: Request<CreatePetRequest>,
    ) -> Result<Response<CreatePetResponse>, Status> {
        self.answer(&CREATE_PET, request, |request| self.add_pet(request)).await
    }

    async fn get_pet(&self, request: Request<GetPetRequest>) -> Result<Response<GetPetResponse>, Status> {
        self.answer(&GET_PET, request, |request| self.pet(request)).await
    }

    async fn batch_create_pets(
        &self,
        request: Request<BatchCreatePetsRequest>,
    ) -> Result<Response<BatchCreatePetsResponse>, Status> {
        self.answer(&CREATE_PETS, request, |request| async move {
            let batch = convert::batch(request)?;
            let _permit = self.capacity.chunks.acquire().await; // never closed
            let pets = self.store.insert_pets(batch).await?;
            Ok(BatchCreatePetsResponse { pets: pets.into_iter().map(convert::pet).collect() })
        })
        .await
    }

    async fn import_pets(
        &self,
        request: Request<Streaming<ImportPetsRequest>>,
    ) -> Result<Response<ImportPetsResponse>, Status> {
        let answer = self.answer(&IMPORT_PETS, request, |messages| Box::pin(import(self, messages))).await?;
        let (metadata, result, extensions) = answer.into_parts();
        Ok(Response::from_parts(metadata, result?, extensions))
    }
}
