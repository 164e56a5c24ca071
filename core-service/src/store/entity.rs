//! The tables, as `petstore-migrations` creates them.

use petstore_clock::UnixMillis;
use sea_orm::{entity::prelude::*, sea_query::ArrayType};

pub(super) mod account;
pub(super) mod api_key;
pub(super) mod ban;
pub(super) mod pet;
pub(super) mod refusal;

/// Returns the time in a column.
pub(super) fn stored_moment(millis: i64) -> UnixMillis {
    UnixMillis(u64::try_from(millis).unwrap_or_default())
}

/// Returns the column value for a time.
pub(super) fn moment_column(moment: UnixMillis) -> i64 {
    moment.as_i64()
}

/// Returns the values as an array of PostgreSQL.
pub(super) fn array_value<T: Into<Value>>(kind: ArrayType, values: impl Iterator<Item = T>) -> Value {
    Value::Array(kind, Some(Box::new(values.map(Into::into).collect())))
}

/// Returns the numbers as a `bigint[]`.
pub(super) fn numbers(numbers: impl Iterator<Item = i64>) -> Value {
    array_value(ArrayType::BigInt, numbers)
}

/// The relations of a table that no query joins to another one.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

/// Table `create_requests`.
pub(super) mod create_request {
    use sea_orm::entity::prelude::*;

    use super::Relation;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "create_requests")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub digest: Vec<u8>,
        pub pet_id: i64,
        pub created_at: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `imports`.
pub(super) mod import {
    use sea_orm::entity::prelude::*;

    use super::Relation;
    use crate::domain::ImportProgress;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "imports")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub import_id: String,
        pub last_line: i64,
        pub created: i64,
        pub updated_at: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}

    impl From<Model> for ImportProgress {
        fn from(row: Model) -> Self {
            Self { last_line: row.last_line, created: row.created }
        }
    }
}

/// Table `installation`: one row.
pub(super) mod installation {
    use sea_orm::entity::prelude::*;

    use super::Relation;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "installation")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i16,
        pub name: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `orders`.
pub(super) mod order {
    use petstore_clock::UnixMillis;
    use sea_orm::entity::prelude::*;

    use super::Relation;
    use crate::domain::{Order, OrderId, OrderStatus, PetId, PetStoreError, Quantity};

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
            let quantity =
                i32::try_from(row.quantity).ok().and_then(|quantity| Quantity::parse(quantity).ok());
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
}
