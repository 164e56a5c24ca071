//! Batched reads of pets.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use petstore_database::{Batched, Session};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value, sea_query::ArrayType};

use crate::pets::{
    ListPets,
    entity::{self as pet, array_value, numbers, pet_arrays, pet_columns, status_column},
};

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
            let rows = session.query_all_raw(find_pets(session.get_database_backend(), &ids)).await?;
            let mut found: Vec<Option<pet::Model>> = vec![None; ids.len()];
            for row in &rows {
                let row = pet::Model::from_columns(row, 0)?;
                if let Some(answer) = ids.iter().position(|id| *id == row.id).and_then(|at| found.get_mut(at))
                {
                    *answer = Some(row);
                }
            }
            Ok(found)
        })
    }
}

/// Query for the first pet at or after each identifier, if its identifier is equal: only the primary key has
/// this order. A search for equal ones could also read all of another index, and a plan that was made while
/// the table was empty does.
const FIND_PETS: &str = concat!(
    "SELECT found.* FROM unnest($1) AS asked (id) CROSS JOIN LATERAL (SELECT ",
    pet_columns!(),
    " FROM pets WHERE id >= asked.id ORDER BY id LIMIT 1) AS found WHERE found.id = asked.id"
);

/// Query for one pet, as in [`FIND_PETS`], which PostgreSQL answers sooner.
const FIND_PET: &str = concat!(
    "SELECT * FROM (SELECT ",
    pet_columns!(),
    " FROM pets WHERE id >= $1 ORDER BY id LIMIT 1) AS found WHERE id = $1"
);

fn find_pets(engine: DbBackend, ids: &[i64]) -> Statement {
    match (engine, ids) {
        (DbBackend::Postgres, [id]) => Statement::from_sql_and_values(engine, FIND_PET, [(*id).into()]),
        (DbBackend::Postgres, _) => {
            Statement::from_sql_and_values(engine, FIND_PETS, [numbers(ids.iter().copied())])
        }
        (_, [id]) => Statement::from_sql_and_values(
            engine,
            concat!("SELECT ", pet_columns!(), " FROM pets WHERE id = ?"),
            [(*id).into()],
        ),
        _ => Statement::from_sql_and_values(
            engine,
            concat!("SELECT ", pet_columns!(), " FROM pets WHERE id IN (SELECT value FROM json_each(?))"),
            [format!("{ids:?}").into()], // as JSON writes it too
        ),
    }
}

/// The kind of call that reads a list. Equal lists are read once.
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
            status: list.status.map_or(0, status_column),
            after: list.after.map_or(i64::MIN, |id| id.0),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
        }
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
            let engine = session.get_database_backend();
            let mut pages = vec![Vec::new(); lists.len()];
            let at_once = if engine == DbBackend::Postgres { MOST_PAGES } else { SQLITE_PAGES };
            for (lists, pages) in lists.chunks(at_once).zip(pages.chunks_mut(at_once)) {
                let statement = match engine {
                    DbBackend::Postgres => read_lists_on_postgres(lists),
                    _ => read_lists_on_sqlite(lists),
                };
                for row in &session.query_all_raw(statement).await? {
                    let number: i64 = row.try_get_by_index(0)?;
                    let page = usize::try_from(number).ok().and_then(|number| pages.get_mut(number));
                    let page = page.ok_or_else(unknown_list)?;
                    match engine {
                        DbBackend::Postgres => *page = pet::Model::from_arrays(row, 1)?,
                        _ => page.push(pet::Model::from_columns(row, 1)?),
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

/// The columns of the pets that a condition selects, each as an array.
macro_rules! page {
    ($condition:literal) => {
        concat!(pet_arrays!(), " FROM (SELECT ", pet_columns!(), " FROM pets WHERE ", $condition, ") AS pet")
    };
}

/// Query that returns a row for each list, with an array for each column. A row for each pet would cost more
/// on both sides.
///
/// The lists of one status are read in the order of the index over status and identifier, and no other index
/// has that order. So a plan that was made once for any values is right for all of them.
const READ_LISTS: &str = concat!(
    "SELECT list - 1, page.* \
     FROM unnest($1, $2, $3) WITH ORDINALITY AS asked (status, after, size, list) \
     CROSS JOIN LATERAL (SELECT ",
    page!("id > asked.after ORDER BY id LIMIT asked.size"),
    ") AS page \
     WHERE asked.status = 0 \
     UNION ALL SELECT list - 1, page.* \
     FROM unnest($1, $2, $3) WITH ORDINALITY AS asked (status, after, size, list) \
     CROSS JOIN LATERAL (SELECT ",
    page!(
        "status <= asked.status AND (status, id) > (asked.status, asked.after) \
         ORDER BY status, id LIMIT asked.size"
    ),
    ") AS page \
     WHERE asked.status <> 0"
);

/// Query for one list of every status, as in [`READ_LISTS`]: after `$1`, at most `$2` pets.
const READ_LIST: &str = concat!("SELECT 0::bigint, ", page!("id > $1 ORDER BY id LIMIT $2"));

/// Query for one list of the status `$3`, as in [`READ_LISTS`].
const READ_LIST_OF_STATUS: &str = concat!(
    "SELECT 0::bigint, ",
    page!("status <= $3 AND (status, id) > ($3, $1) ORDER BY status, id LIMIT $2")
);

fn read_lists_on_postgres(lists: &[Rows]) -> Statement {
    if let [Rows { status, after, limit }] = *lists {
        let (after, limit) = (after.into(), limit.into());
        return if status == 0 {
            Statement::from_sql_and_values(DbBackend::Postgres, READ_LIST, [after, limit])
        } else {
            let values = [after, limit, status.into()];
            Statement::from_sql_and_values(DbBackend::Postgres, READ_LIST_OF_STATUS, values)
        };
    }
    let values = [
        array_value(ArrayType::SmallInt, lists.iter().map(|list| list.status)),
        numbers(lists.iter().map(|list| list.after)),
        numbers(lists.iter().map(|list| list.limit)),
    ];
    Statement::from_sql_and_values(DbBackend::Postgres, READ_LISTS, values)
}

/// Returns one `SELECT` for each list. The lists of every status come first, so that there are few different
/// texts, and each is prepared once. For the same reason the limits are sums: SQLite would prepare a
/// statement with a bare limit again for each value.
fn read_lists_on_sqlite(lists: &[Rows]) -> Statement {
    let mut parts = Vec::with_capacity(lists.len());
    let mut values: Vec<Value> = Vec::with_capacity(4 * lists.len());
    let numbered = || lists.iter().zip(0_i64..);
    let of_every_status = numbered().filter(|(list, _)| list.status == 0);
    let of_one_status = numbered().filter(|(list, _)| list.status != 0);
    for (list, number) in of_every_status.chain(of_one_status) {
        values.push(number.into());
        let filter = if list.status == 0 {
            "id > ?"
        } else {
            values.push(list.status.into());
            "status = ? AND id > ?"
        };
        values.extend([list.after.into(), list.limit.into()]);
        parts.push(format!(
            "SELECT * FROM (SELECT ? AS list, {} FROM pets WHERE {filter} ORDER BY id LIMIT ? + 0)",
            pet_columns!()
        ));
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

fn unknown_list() -> DbErr {
    DbErr::Custom("a row of a list that was not asked for".into())
}

#[cfg(test)]
mod tests;
