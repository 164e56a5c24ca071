//! Insertion of rows by one statement.

use sea_orm::{
    ActiveModelTrait, DbBackend, DbErr, EntityTrait, FromQueryResult, IntoActiveModel, Iterable, QueryTrait,
    sea_query::{Expr, Query},
};

use super::Store;

type ModelOf<A> = <<A as ActiveModelTrait>::Entity as EntityTrait>::Model;

impl Store {
    /// Adds rows, all or none. It is one statement, on PostgreSQL in one round trip. Returns the rows as the
    /// database stored them, in no particular order.
    pub(super) async fn insert_rows<A>(&self, rows: Vec<A>) -> Result<Vec<ModelOf<A>>, DbErr>
    where
        A: ActiveModelTrait + Send + 'static,
        ModelOf<A>: IntoActiveModel<A> + Send,
    {
        let insert = A::Entity::insert_many(rows);
        if self.writer.backend() == DbBackend::Postgres {
            let columns = <A::Entity as EntityTrait>::Column::iter().map(Expr::col);
            let returning = Query::returning().exprs(columns);
            let statement = DbBackend::Postgres.build(insert.into_query().returning(returning));
            let rows = self.writer.query(statement).await?;
            rows.iter().map(|row| ModelOf::<A>::from_query_result(row, "")).collect()
        } else {
            self.writer.transaction(|transaction| Box::pin(insert.exec_with_returning(transaction))).await
        }
    }
}
