//! Statements and transactions on an open database, each with a deadline.

use futures_util::future::BoxFuture;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, DbBackend, DbErr, EntityTrait,
    FromQueryResult, IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QueryResult, QuerySelect,
    Select, sea_query::SelectStatement,
};
use tokio::time;

use crate::{Batched, BatchedReads, Database, DatabaseError, Session, fault, replicas, revision};

type ModelOf<A> = <<A as ActiveModelTrait>::Entity as EntityTrait>::Model;

impl Database {
    /// Runs a query that the database can only answer by reading.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Unavailable`] if it does not answer.
    pub fn ping(&self) -> BoxFuture<'_, Result<(), DatabaseError>> {
        Box::pin(async move { self.all(revision::row()).await.map(drop) })
    }

    /// Returns the result of work in an exclusive transaction. A transaction that read first and locked later
    /// could fail half-way, or decide on stale data. On SQLite it holds the write lock, on PostgreSQL the
    /// lock of the [revision's row](revision). It is committed if the result is `Ok`.
    ///
    /// # Errors
    ///
    /// The error of the work, or of the database.
    pub async fn transaction<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbErr> + From<DatabaseError> + Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Clone + Send + 'static,
    {
        self.transaction_beside_others(|session| {
            Box::pin(async move {
                if session.get_database_backend() == DbBackend::Postgres {
                    revision::row().lock_exclusive().all(session).await?;
                }
                work(session).await
            })
        })
        .await
    }

    /// Returns the result of work in a transaction that may run concurrently with others on PostgreSQL: for
    /// work that decides nothing by rows that others change.
    ///
    /// # Errors
    ///
    /// The error of the work, or of the database.
    pub async fn transaction_beside_others<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbErr> + From<DatabaseError> + Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Clone + Send + 'static,
    {
        self.within(self.writer.transaction(work)).await
    }

    /// Returns the result of a read. It is retried once if the connection was lost.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn read<T, F>(&self, query: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c Session) -> BoxFuture<'c, Result<T, DbErr>> + Clone + Send + 'static,
    {
        self.retry_read(|| self.reader.read(query.clone())).await
    }

    /// Adds rows, all or none. It is one statement, on PostgreSQL in one round trip. Returns the rows as the
    /// database stored them, in no particular order.
    ///
    /// # Errors
    ///
    /// If the database fails, or refuses a row.
    pub async fn insert_rows<A>(&self, rows: Vec<A>) -> Result<Vec<ModelOf<A>>, DatabaseError>
    where
        A: ActiveModelTrait + Send + 'static,
        ModelOf<A>: IntoActiveModel<A> + Send,
    {
        self.within(async {
            let inserted = if self.writer.backend() == DbBackend::Postgres {
                let insert = A::Entity::insert_many(rows);
                self.writer.read(|session| Box::pin(insert.exec_with_returning(session))).await
            } else {
                let inserted = self.writer.transaction(|session| {
                    Box::pin(A::Entity::insert_many(rows).exec_with_returning(session))
                });
                inserted.await
            };
            Ok(inserted?)
        })
        .await
    }

    /// Returns the rows that the query finds.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn all<E>(&self, find: Select<E>) -> Result<Vec<E::Model>, DatabaseError>
    where
        E: EntityTrait<Model: Send>,
    {
        self.read(move |db| Box::pin(find.clone().all(db))).await
    }

    /// Returns the rows of a query that no entity describes.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn rows(&self, query: SelectStatement) -> Result<Vec<QueryResult>, DatabaseError> {
        self.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await
    }

    /// Returns the rows that the query finds before a position, newest first: one more than `size`, if there
    /// is one. The first page includes the total.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn page<E>(
        &self,
        find: Select<E>,
        id: E::Column,
        before: Option<i64>,
        size: usize,
    ) -> Result<(Vec<E::Model>, Option<i64>), DatabaseError>
    where
        E: EntityTrait<Model: FromQueryResult + Send + Sync>,
    {
        let total = if before.is_none() { Some(self.count(find.clone()).await?) } else { None };
        let before = Condition::all().add_option(before.map(|before| id.lt(before)));
        let find = find.filter(before).order_by_desc(id).limit(size as u64 + 1);
        Ok((self.all(find).await?, total))
    }

    /// Returns the number of rows that the query finds.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn count<E>(&self, find: Select<E>) -> Result<i64, DatabaseError>
    where
        E: EntityTrait<Model: FromQueryResult + Send + Sync>,
    {
        let rows = self.read(move |db| Box::pin(PaginatorTrait::count(find.clone(), db))).await?;
        Ok(i64::try_from(rows).unwrap_or(i64::MAX))
    }

    /// Returns the primary's answer to a call that reads. It is retried once if the connection was lost.
    ///
    /// # Errors
    ///
    /// If the call was not answered.
    pub async fn ask<B: Batched>(
        &self,
        reads: &BatchedReads<B>,
        call: B::Call,
    ) -> Result<B::Answer, DatabaseError> {
        self.retry_read(|| replicas::ask(&reads.primary, call.clone())).await
    }

    /// Returns the result of any read, with the same retry.
    async fn retry_read<T, F>(&self, read: impl Fn() -> F) -> Result<T, DatabaseError>
    where
        F: Future<Output = Result<T, DbErr>>,
    {
        self.within(async {
            match read().await {
                Err(error) if fault::is_passing(&error) => Ok(read().await?),
                result => Ok(result?),
            }
        })
        .await
    }

    /// Returns the work's result, or [`DatabaseError::Unavailable`] if it takes too long; the database then
    /// still finishes it or rolls it back. Every call to the database goes through here.
    ///
    /// # Errors
    ///
    /// The error of the work, or that it takes too long.
    pub async fn within<T, E>(&self, work: impl Future<Output = Result<T, E>>) -> Result<T, E>
    where
        E: From<DatabaseError>,
    {
        if self.health.is_replaced() {
            let cause = "the store's file was replaced or removed while the service runs";
            return Err(DatabaseError::Unavailable(cause.into()).into());
        }
        match time::timeout(self.deadline, work).await {
            Ok(result) => result,
            Err(elapsed) => {
                self.writer.mark_stale();
                Err(DatabaseError::Unavailable(elapsed.into()).into())
            }
        }
    }
}
