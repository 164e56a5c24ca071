//! The catalogue over gRPC: `petstore.v1.PetStore`, and `petstore.v1.StoreService`, which are the orders.

mod convert;
mod import;
pub(crate) mod pet_store;
pub(crate) mod store_service;

/// Parses a pet to add, and returns it as it is answered, but without an identifier.
///
/// # Errors
///
/// If it is refused.
#[cfg(feature = "fuzzing")]
pub fn fuzz_pet(
    pet: petstore_proto::v1::NewPet,
) -> Result<petstore_proto::v1::Pet, crate::domain::PetStoreError> {
    let pet = convert::new_pet(Some(pet))?;
    Ok(convert::pet(pet.with_id(crate::catalogue::PetId(0))))
}

/// Parses the request for a page of pets.
///
/// # Errors
///
/// If it is refused.
#[cfg(feature = "fuzzing")]
pub fn fuzz_list(
    request: &petstore_proto::v1::ListPetsRequest,
) -> Result<crate::catalogue::ListPets, crate::domain::PetStoreError> {
    convert::list_pets(request)
}
