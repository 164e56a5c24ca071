//! Table `orders`.

use petstore_clock::UnixMillis;
use sea_orm::entity::prelude::*;

use crate::{
    errors::PetStoreError,
    orders::{Order, OrderId, OrderStatus, Quantity},
    pets::PetId,
};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "orders")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub pet_id: i64,
    pub quantity: i64,
    pub ship_date: Option<i64>,
    pub status: i16,
}

impl ActiveModelBehavior for ActiveModel {}

impl TryFrom<Model> for Order {
    type Error = PetStoreError;

    fn try_from(row: Model) -> Result<Self, Self::Error> {
        let broken =
            |column: &str| PetStoreError::Bug(format!("order {} has a broken {column}", row.id).into());
        let quantity = i32::try_from(row.quantity).ok().and_then(|quantity| Quantity::parse(quantity).ok());
        Ok(Self {
            id: OrderId(row.id),
            pet_id: PetId(row.pet_id),
            quantity: quantity.ok_or_else(|| broken("quantity"))?,
            ship_date: match row.ship_date {
                None => None,
                Some(millis) => Some(UnixMillis::from_i64(millis).ok_or_else(|| broken("ship_date"))?),
            },
            status: OrderStatus::from_number(row.status).ok_or_else(|| broken("status"))?,
        })
    }
}
