//! Orders for pets.

use sea_orm_migration::prelude::*;

use crate::column;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(orders()).await?;
        manager
            .create_index(
                // Serves the foreign key: without it, a change of one pet would read all orders.
                Index::create().name("orders_pet_id").table("orders").col("pet_id").take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("orders").take()).await
    }
}

pub(crate) fn orders() -> TableCreateStatement {
    Table::create()
        .table("orders")
        .col(column::assigned_id())
        .col(ColumnDef::new("pet_id").big_integer().not_null())
        .col(ColumnDef::new("quantity").big_integer().not_null())
        .col(column::unix_millis("ship_date").null())
        .col(ColumnDef::new("status").small_integer().not_null())
        .foreign_key(ForeignKey::create().from("orders", "pet_id").to("pets", "id"))
        .take()
}
