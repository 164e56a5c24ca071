//! Orders in the database.

use petstore_clock::UnixMillis;
use petstore_database::{DatabaseError, fault};
use sea_orm::{ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, QueryFilter, sea_query::Expr};

use super::{NewOrder, Order, OrderId, OrderStatus, entity as order};
use crate::{
    errors::PetStoreError,
    pages::{Page, PageRequest},
    store::Store,
};

impl Store {
    /// Places an order, and assigns its identifier. The foreign key checks that the pet exists.
    pub(crate) async fn insert_order(&self, new: NewOrder) -> Result<Order, PetStoreError> {
        let row = order::ActiveModel {
            pet_id: Set(new.pet_id.0),
            quantity: Set(new.quantity.get().into()),
            ship_date: Set(new.ship_date.map(UnixMillis::as_i64)),
            status: Set(OrderStatus::Placed.number()),
            ..Default::default()
        };
        let inserted = self.database.insert_rows(vec![row]).await.map_err(|error| match error {
            DatabaseError::Failed(error) if fault::is_missing_reference(&error) => new.pet_id.not_found(),
            error => error.into(),
        });
        let row: order::Model = inserted?.into_iter().next().ok_or(DbErr::RecordNotInserted)?;
        row.try_into()
    }

    /// Returns the order, if it exists.
    pub(crate) async fn find_order(&self, id: OrderId) -> Result<Option<Order>, PetStoreError> {
        let row = self.database.read(move |db| Box::pin(order::Entity::find_by_id(id.0).one(db))).await?;
        row.map(Order::try_from).transpose()
    }

    /// Returns one page.
    pub(crate) async fn list_orders(&self, list: PageRequest) -> Result<Page<Order>, PetStoreError> {
        self.page(order::Entity::find(), order::Column::Id, list, |order: &Order| order.id.0).await
    }

    /// Advances an order to `to`, if its status is the one before that. It is one statement, so that exactly
    /// one of any number of concurrent calls succeeds.
    pub(crate) async fn advance_order(&self, id: OrderId, to: OrderStatus) -> Result<Order, PetStoreError> {
        self.database
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let updated = order::Entity::update_many()
                        .col_expr(order::Column::Status, Expr::value(to.number()))
                        .filter(order::Column::Id.eq(id.0))
                        .filter(order::Column::Status.is_in(to.predecessor().map(OrderStatus::number)))
                        .exec_with_returning(transaction)
                        .await?;
                    if let Some(row) = updated.into_iter().next() {
                        return row.try_into();
                    }
                    let row = order::Entity::find_by_id(id.0).one(transaction).await?;
                    let from = row.map(Order::try_from).transpose()?.ok_or_else(|| id.not_found())?.status;
                    let (id, from, to) = (id.0, from.to_string(), to.to_string());
                    Err(PetStoreError::InvalidOrderTransition { id, from, to })
                })
            })
            .await
    }
}

#[cfg(test)]
mod tests;
