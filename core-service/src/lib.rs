//! The core of the Animal Store Service: it keeps the pets, the accounts and their API keys, and serves them
//! over gRPC.
//!
//! - [`pets`], [`orders`], [`accounts`]: a folder for each resource.
//! - [`server`]: their services, on a socket or in memory.
//! - [`errors`], [`violations`], [`pages`]: what they have in common.
//!
//! The services are listed in [`services`], and what gateways call in batches in `answer_call`, below.
//!
//! A resource has its values and rules, which are pure; `entity` and `store`, which alone use `SeaORM`; and
//! `grpc`, which alone uses tonic, with one function per method: it parses, calls the store and responds.
//! Orders know pets. Otherwise no resource knows another one.

use petstore_caller::call::CallContext;
use petstore_grpc_server::Method;
use petstore_proto::{
    internal::v1::{
        batch_service_server::BatchServiceServer, key_service_server::KeyServiceServer,
        usage_service_server::UsageServiceServer,
    },
    rpc::{ADVANCE_ORDER, CREATE_PET, GET_ORDER, GET_PET, LIST_ORDERS, LIST_PETS, PLACE_ORDER, Rpc},
    v1::{
        pet_store_server::{PetStore, PetStoreServer},
        store_service_server::{StoreService, StoreServiceServer},
    },
};
use prost::bytes::Bytes;
use tonic::service::Routes;

pub use self::state::Core;
use crate::{
    grpc::{MAX_BULK_MESSAGE, MAX_KEYS_ANSWER, MAX_MESSAGE, METHODS},
    server::batch_service::{decoded, encoded, unknown_method},
};

mod background;
pub mod errors;
mod grpc;
pub mod pages;
pub mod server;
mod state;
pub mod store;
pub mod violations;

/// Pets, the ways of adding them, and their lists.
pub mod pets {
    mod creation;
    pub(crate) mod entity;
    pub(crate) mod grpc;
    mod pet;
    pub(crate) mod store;

    #[cfg(feature = "fuzzing")]
    pub use self::grpc::{fuzz_list, fuzz_pet};
    pub use self::{creation::*, pet::*};
}

/// Orders for pets.
pub mod orders {
    pub(crate) mod entity;
    pub(crate) mod grpc;
    mod order;
    pub(crate) mod store;

    pub use self::order::*;
}

pub mod accounts {
    //! Accounts, their plans and keys, bans of keys, the feed of changes that gateways follow, and the counts
    //! of requests.
    //!
    //! # Promises
    //!
    //! - The store has no key, only its digest, so that a key is shown once, when it is created.
    //! - A change of an account, its keys or their bans and the revision under which gateways learn of it are
    //!   one transaction. A gateway whose revision comes from before a restore of the database is told to
    //!   forget all.
    //! - No report of a gateway counts twice, shortens a ban or undoes a later change of an operator, even if
    //!   it is sent again.
    //! - What is no longer in use is deleted in bounded steps ([`retention`]).
    //!
    //! The types and their rules are pure. [`store`] makes the queries; it answers gateways in the messages
    //! of the internal contract. Functions there that take a transaction leave it to their caller, which may
    //! record in it who makes the change.
    //!
    //! How it fails: a call that is refused, and one that the database does not answer, is a
    //! [`PetStoreError`](crate::errors::PetStoreError).

    mod account;
    mod api_key;
    mod ban;
    pub(crate) mod grpc;
    mod remark;
    pub mod retention;
    pub mod store;
    mod usage;

    pub use petstore_caller::plans::Quota;
    pub use petstore_clock::{Day, Minute};

    pub use self::{account::*, api_key::*, ban::*, remark::Remark, usage::*};
}

/// Returns the core's services, to which a program may add others.
pub fn services(core: &Core) -> Routes {
    macro_rules! limited {
        ($server:ident, $request:expr, $answer:expr) => {
            $server::new(core.clone()).max_decoding_message_size($request).max_encoding_message_size($answer)
        };
    }
    let message = MAX_MESSAGE;
    let routes = Routes::new(limited!(PetStoreServer, message, message))
        .add_service(limited!(StoreServiceServer, message, message))
        .add_service(limited!(BatchServiceServer, message, message))
        .add_service(limited!(KeyServiceServer, message, MAX_KEYS_ANSWER))
        .add_service(limited!(UsageServiceServer, message, message));
    // tonic limits messages per service only, so methods with larger ones have a server each.
    let bulk = limited!(PetStoreServer, MAX_BULK_MESSAGE, MAX_BULK_MESSAGE);
    let larger = METHODS.rows.iter().filter(|method| method.max_message > MAX_MESSAGE);
    let path = |method: &Method| format!("/{}", method.path);
    let all = routes.into_axum_router();
    larger.fold(all, |all, method| all.route_service(&path(method), bulk.clone())).into()
}

impl Core {
    /// Calls the method that a call of a batch names, if gateways may call it in one.
    pub(crate) async fn answer_call(
        &self,
        path: &str,
        message: Bytes,
        context: CallContext,
    ) -> tonic::Result<Bytes> {
        match Rpc::find(path).ok_or_else(unknown_method)? {
            GET_PET => encoded(self.get_pet(decoded(message, context)?).await),
            LIST_PETS => encoded(self.list_pets(decoded(message, context)?).await),
            CREATE_PET => encoded(self.create_pet(decoded(message, context)?).await),
            GET_ORDER => encoded(self.get_order(decoded(message, context)?).await),
            LIST_ORDERS => encoded(self.list_orders(decoded(message, context)?).await),
            PLACE_ORDER => encoded(self.place_order(decoded(message, context)?).await),
            ADVANCE_ORDER => encoded(self.advance_order(decoded(message, context)?).await),
            _ => Err(unknown_method()),
        }
    }
}
