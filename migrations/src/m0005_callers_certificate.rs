//! Name in the certificate of the process that called the core, in the audit log. A release that does not
//! know the column leaves it empty.

use petstore_database::SchemaChange;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbErr,
    sea_query::{ColumnDef, Table},
};

pub(crate) const CHANGE: SchemaChange = SchemaChange {
    name: "m0005_callers_certificate",
    up: |db| Box::pin(up(db)),
    down: |db| Box::pin(down(db)),
};

async fn up(db: &DatabaseTransaction) -> Result<(), DbErr> {
    let mut events = Table::alter();
    events.table("audit_events").add_column(ColumnDef::new("certificate").text());
    db.execute(&events).await.map(drop)
}

async fn down(db: &DatabaseTransaction) -> Result<(), DbErr> {
    db.execute(&Table::alter().table("audit_events").drop_column("certificate").take()).await.map(drop)
}
