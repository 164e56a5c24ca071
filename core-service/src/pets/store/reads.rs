//! Batched reads of pets.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use petstore_database::{Batched, Session};
use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, QueryOrder, QueryResult, QuerySelect, RuntimeErr, Select, Statement,
    Value,
    entity::prelude::*,
    sea_query::{ArrayType, ExprTrait},
    sqlx::{Decode, Postgres, Row, Type, postgres::PgRow},
};

use crate::pets::{ListPets, PetStatus, entity as pet};

/// Maximum number of single pets that one statement reads. Calls that wait at the bound on calls fit into a
/// few batches.
const MOST_PETS: usize = 128;
/// Maximum number of different pages that one statement reads. The more there are, the more often two are
/// equal.
const MOST_PAGES: usize = 32;
/// Maximum number of pages in one statement on SQLite. The text of the statement depends on their number.
/// Each connection keeps recent texts prepared, at 3 kB for each page: with 32 pages they would take 20 MB.
const SQLITE_PAGES: usize = 8;
/// Maximum number of rows on the pages of one statement, unless there is only one page. Each caller waits for
/// all of them.
const MOST_ROWS: i64 = 1_024;

/// The kind of call that reads a single pet.
#[derive(Clone)]
pub(in crate::pets) struct Gets;

impl Batched for Gets {
    type Call = i64;
    type Answer = Option<pet::Model>;
    type Batch = Vec<i64>;

    fn add(ids: &mut Vec<i64>, id: i64) -> Result<usize, i64> {
        add_once(ids, id, MOST_PETS)
    }

    fn answer(session: &Session, ids: Vec<i64>) -> BoxFuture<'_, Result<Vec<Self::Answer>, DbErr>> {
        Box::pin(async move {
            if let [id] = ids[..] {
                let found = get_pet(id).one(session).await?;
                return Ok(vec![found.filter(|row| row.id == id)]);
            }
            let rows = session.query_all_raw(get_pets(session.get_database_backend(), &ids)).await?;
            let mut found: Vec<Option<pet::Model>> = vec![None; ids.len()];
            for row in &rows {
                let row = from_columns(row, 0)?;
                if let Some(answer) = ids.iter().position(|id| *id == row.id).and_then(|at| found.get_mut(at))
                {
                    *answer = Some(row);
                }
            }
            Ok(found)
        })
    }
}

/// Returns the query for a pet: the first at or after the identifier, since only the primary key has this
/// order. `find_by_id` may use any index with the identifier in a plan that PostgreSQL made while the table
/// was empty.
pub(super) fn get_pet(id: i64) -> Select<pet::Entity> {
    pet::Entity::find().filter(pet::Column::Id.gte(id)).order_by_asc(pet::Column::Id)
}

/// Returns the statement for pets that are wanted together.
fn get_pets(engine: DbBackend, ids: &[i64]) -> Statement {
    let (text, values) = match engine {
        DbBackend::Postgres => (include_str!("sql/postgres/get_pets.sql"), numbers(ids.iter().copied())),
        _ => (include_str!("sql/sqlite/get_pets.sql"), format!("{ids:?}").into()), // as JSON writes it too
    };
    Statement::from_sql_and_values(engine, text, [values])
}

/// Returns the pet whose columns begin at index `first`.
fn from_columns(row: &QueryResult, first: usize) -> Result<pet::Model, DbErr> {
    Ok(pet::Model {
        id: row.try_get_by_index(first)?,
        name: row.try_get_by_index(first + 1)?,
        category_id: row.try_get_by_index(first + 2)?,
        status: row.try_get_by_index(first + 3)?,
    })
}

/// Returns the pets whose arrays begin at index `first`; none where they are NULL. Only a row of PostgreSQL
/// has arrays.
fn from_arrays(row: &QueryResult, first: usize) -> Result<Vec<pet::Model>, DbErr> {
    let row = row.try_as_pg_row().ok_or_else(|| DbErr::Type("no row of PostgreSQL".to_owned()))?;
    let ids: Vec<i64> = array(row, first)?;
    let names: Vec<String> = array(row, first + 1)?;
    let categories: Vec<i64> = array(row, first + 2)?;
    let statuses: Vec<Option<i16>> = array(row, first + 3)?;
    let columns = ids.into_iter().zip(names).zip(categories.into_iter().zip(statuses));
    let pet = |((id, name), (category_id, status))| pet::Model { id, name, category_id, status };
    Ok(columns.map(pet).collect())
}

fn array<'r, T>(row: &'r PgRow, index: usize) -> Result<Vec<T>, DbErr>
where
    Vec<T>: Decode<'r, Postgres> + Type<Postgres>,
{
    let array: Result<Option<Vec<T>>, _> = row.try_get(index);
    array.map(Option::unwrap_or_default).map_err(|error| DbErr::Query(RuntimeErr::SqlxError(error.into())))
}

/// Returns the values as an array of PostgreSQL.
pub(super) fn array_value<T: Into<Value>>(kind: ArrayType, values: impl Iterator<Item = T>) -> Value {
    Value::Array(kind, Some(Box::new(values.map(Into::into).collect())))
}

/// Returns the numbers as a `bigint[]`.
pub(super) fn numbers(numbers: impl Iterator<Item = i64>) -> Value {
    array_value(ArrayType::BigInt, numbers)
}

/// The kind of call that reads a list. Equal lists are read once.
#[derive(Clone)]
pub(in crate::pets) struct Lists;

/// Consecutive rows of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pets) struct Rows {
    /// Status as it is stored; 0 selects pets of every status, and of none.
    status: i16,
    /// Identifier that the rows follow.
    after: i64,
    limit: i64,
}

impl Rows {
    /// Returns the first rows of a list, up to a limit.
    pub(in crate::pets) fn of(list: ListPets, limit: usize) -> Self {
        Self {
            status: list.status.map_or(0, PetStatus::number),
            after: list.after.map_or(i64::MIN, |id| id.0),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
        }
    }

    /// Returns the query for the rows. On PostgreSQL, that of one status is in the order of the index over
    /// status and identifier, which no other index has: for `status = $1 AND id > $2` it may read all pets in
    /// the order of the primary key, by a plan that it made for any values.
    fn select(self, engine: DbBackend) -> Select<pet::Entity> {
        use pet::Column as C;
        let Self { status, after, limit } = self;
        let all = pet::Entity::find().limit(limit.unsigned_abs());
        let rows = match (engine, status) {
            (_, 0) => all.filter(C::Id.gt(after)),
            (DbBackend::Postgres, _) => {
                let position = Expr::tuple([C::Status.into_expr(), C::Id.into_expr()]);
                all.filter(C::Status.lte(status))
                    .filter(position.gt(Expr::tuple([status.into(), after.into()])))
                    .order_by_asc(C::Status)
            }
            _ => all.filter(C::Status.eq(status)).filter(C::Id.gt(after)),
        };
        rows.order_by_asc(C::Id)
    }
}

impl Batched for Lists {
    type Call = Rows;
    type Answer = Arc<Vec<pet::Model>>;
    type Batch = Vec<Rows>;

    fn add(lists: &mut Vec<Rows>, list: Rows) -> Result<usize, Rows> {
        let rows: i64 = lists.iter().map(|list| list.limit).sum();
        let most = if rows.saturating_add(list.limit) > MOST_ROWS { lists.len().max(1) } else { MOST_PAGES };
        add_once(lists, list, most)
    }

    fn answer(session: &Session, lists: Vec<Rows>) -> BoxFuture<'_, Result<Vec<Self::Answer>, DbErr>> {
        Box::pin(async move {
            if let [list] = lists[..] {
                return Ok(vec![Arc::new(list.select(session.get_database_backend()).all(session).await?)]);
            }
            let engine = session.get_database_backend();
            let mut pages = vec![Vec::new(); lists.len()];
            let at_once = if engine == DbBackend::Postgres { MOST_PAGES } else { SQLITE_PAGES };
            for (lists, pages) in lists.chunks(at_once).zip(pages.chunks_mut(at_once)) {
                let statement = match engine {
                    DbBackend::Postgres => list_pets_on_postgres(lists),
                    _ => list_pets_on_sqlite(lists),
                };
                for row in &session.query_all_raw(statement).await? {
                    let number: i64 = row.try_get_by_index(0)?;
                    let page = usize::try_from(number).ok().and_then(|number| pages.get_mut(number));
                    let page = page.ok_or_else(|| DbErr::Custom("a row of no list".into()))?;
                    match engine {
                        DbBackend::Postgres => *page = from_arrays(row, 1)?,
                        _ => page.push(from_columns(row, 1)?),
                    }
                }
            }
            // The indexes return them in this order, but only an ORDER BY around the whole statement would
            // guarantee it.
            for page in &mut pages {
                page.sort_unstable_by_key(|row| row.id);
            }
            Ok(pages.into_iter().map(Arc::new).collect())
        })
    }
}

fn list_pets_on_postgres(lists: &[Rows]) -> Statement {
    let values = [
        array_value(ArrayType::SmallInt, lists.iter().map(|list| list.status)),
        numbers(lists.iter().map(|list| list.after)),
        numbers(lists.iter().map(|list| list.limit)),
    ];
    let text = include_str!("sql/postgres/list_pets.sql");
    Statement::from_sql_and_values(DbBackend::Postgres, text, values)
}

/// Returns one `SELECT` for each list. The lists of every status come first, so that there are few different
/// texts, and each is prepared once.
fn list_pets_on_sqlite(lists: &[Rows]) -> Statement {
    let mut parts = Vec::with_capacity(lists.len());
    let mut values: Vec<Value> = Vec::with_capacity(4 * lists.len());
    let numbered = || lists.iter().zip(0_i64..);
    let of_every_status = numbered().filter(|(list, _)| list.status == 0);
    let of_one_status = numbered().filter(|(list, _)| list.status != 0);
    for (list, number) in of_every_status.chain(of_one_status) {
        values.push(number.into());
        parts.push(if list.status == 0 {
            include_str!("sql/sqlite/list_pets.sql")
        } else {
            values.push(list.status.into());
            include_str!("sql/sqlite/list_pets_of_status.sql")
        });
        values.extend([list.after.into(), list.limit.into()]);
    }
    Statement::from_sql_and_values(DbBackend::Sqlite, parts.join(" UNION ALL "), values)
}

/// Adds the item if it is new and there are fewer than `most`. Returns its index.
fn add_once<T: PartialEq>(all: &mut Vec<T>, one: T, most: usize) -> Result<usize, T> {
    match all.iter().position(|other| *other == one) {
        Some(index) => Ok(index),
        None if all.len() == most => Err(one),
        None => {
            all.push(one);
            Ok(all.len() - 1)
        }
    }
}

#[cfg(test)]
mod tests;
