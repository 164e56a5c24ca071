//! Batched creation of pets, in one transaction.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::BoxFuture;
use petstore_clock::UnixMillis;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value, sea_query::ArrayType};
use sha2::{Digest, Sha256};

use super::reads::numbers;
use crate::{
    domain::{IdempotencyKey, NewPet, PetId},
    store::{
        Session,
        connection::{BatchError, Batched, Batches, Connections},
        entity::{moment_column, pet::status_column},
        fault,
    },
};

/// Maximum number of pets in a batch. Their names have up to 1,020 bytes each, so a batch has less than 100
/// KiB.
const MOST_PETS: usize = 64;

/// Batched creation of pets. Clones share it.
#[derive(Clone)]
pub(in crate::store) struct PetCreates {
    together: Batches<Creates>,
    /// Connections for calls that failed because of others in their batch.
    alone: Connections,
    in_flight: KeysInFlight,
}

impl PetCreates {
    pub(in crate::store) fn new(together: Connections, alone: Connections) -> Self {
        // One commit at a time, because two would only wait for each other. One more runs while one waits for
        // a lock.
        Self { together: Batches::new(together, 1), alone, in_flight: Arc::default() }
    }

    /// Registers a creation. Returns `None` if one with that key is in flight already.
    pub(in crate::store) fn begin(&self, key: &IdempotencyKey) -> Option<InFlightKey> {
        let mut keys = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = || Entry { in_flight: Arc::clone(&self.in_flight), key: key.clone() };
        keys.insert(key.clone()).then(|| InFlightKey(Arc::new(entry())))
    }

    pub(in crate::store) fn connections(&self) -> &Connections {
        self.together.connections()
    }

    pub(in crate::store) fn connections_mut(&mut self) -> [&mut Connections; 2] {
        [self.together.connections_mut(), &mut self.alone]
    }

    /// Returns the identifier of the pet, or `None` if the name of its creation is taken.
    pub(in crate::store) async fn add(
        &self,
        pet: &NewPet,
        name: Option<(&InFlightKey, UnixMillis)>,
    ) -> Result<Option<PetId>, DbErr> {
        let name = name.map(|(key, now)| (key.clone(), now));
        let new = NewRow { pet: pet.clone(), name, wait: "50ms" };
        match self.together.ask(new.clone()).await {
            Err(BatchError { error, is_shared })
                if is_name_in_use(&error) || (is_shared && fault::is_refusal(&error)) =>
            {
                Batches::<Creates>::ask_alone(&self.alone, NewRow { wait: "1s", ..new }).await
            }
            answer => answer.map_err(|error| error.error),
        }
    }
}

/// Keys of the creations that this process is working on: at most as many as concurrent calls.
type KeysInFlight = Arc<Mutex<HashSet<IdempotencyKey>>>;

/// Key of a creation in flight, which ends when the last clone is dropped.
#[derive(Clone)]
pub(in crate::store) struct InFlightKey(Arc<Entry>);

struct Entry {
    in_flight: KeysInFlight,
    key: IdempotencyKey,
}

impl InFlightKey {
    /// Returns the digest, which is stored instead of the key's text: a client may have put a secret into it.
    pub(in crate::store) fn digest(&self) -> Vec<u8> {
        Sha256::digest(self.0.key.as_str()).to_vec()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// Returns `true` if another core was still working on a creation with one of the names when the time to wait
/// for it had passed.
pub(in crate::store) fn is_name_in_use(error: &DbErr) -> bool {
    fault::is_key_timeout(error, "create_requests_pkey") // the table's primary key on PostgreSQL
}

/// The kind of call that adds a pet.
struct Creates;

#[derive(Clone)]
struct NewRow {
    pet: NewPet,
    /// Name of the creation, which stays in flight until the batch has ended, and the time of the call.
    name: Option<(InFlightKey, UnixMillis)>,
    /// Time to wait for the transaction of another core that works on one of the names. In a batch it is
    /// short: the call with that name then waits alone, as long as other statements wait for a lock.
    wait: &'static str,
}

impl Batched for Creates {
    type Call = NewRow;
    type Answer = Option<PetId>;
    type Batch = Vec<NewRow>;

    fn add(rows: &mut Vec<NewRow>, row: NewRow) -> Result<usize, NewRow> {
        if rows.len() == MOST_PETS {
            return Err(row);
        }
        rows.push(row);
        Ok(rows.len() - 1)
    }

    fn answer(session: &Session, rows: Vec<NewRow>) -> BoxFuture<'_, Result<Vec<Self::Answer>, DbErr>> {
        Box::pin(async move {
            match session.get_database_backend() {
                DbBackend::Postgres => add_on_postgres(session, &rows).await,
                _ => add_on_sqlite(session, &rows).await,
            }
        })
    }
}

/// Statement that adds pets and the names of their creations in one round trip. It skips pets whose name is
/// taken. Two concurrent statements that add one name both see it free: one waits for the other to commit,
/// and then violates the primary key.
///
/// Identifiers are assigned in the order of the calls, since PostgreSQL assigns them after it has sorted.
/// Names are added in sorted order, so that two cores never deadlock. `OFFSET 0` keeps the planner from
/// making a join of the search for a name, which could read all names.
const ADD: &str = "WITH asked AS MATERIALIZED (\
        SELECT set_config('lock_timeout', $6, true), asked.* \
        FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY \
            AS asked (digest, created_at, name, category_id, status, number) \
        WHERE NOT EXISTS (SELECT FROM create_requests WHERE digest = asked.digest OFFSET 0)\
    ), added AS (\
        INSERT INTO pets (name, category_id, status) \
        SELECT name, category_id, nullif(status, 0) FROM asked ORDER BY number RETURNING id\
    ), matched AS (\
        SELECT number, digest, created_at, id \
        FROM (SELECT *, row_number() OVER (ORDER BY number) AS place FROM asked) AS asked \
        JOIN (SELECT id, row_number() OVER (ORDER BY id) AS place FROM added) AS added USING (place)\
    ), named AS (\
        INSERT INTO create_requests (digest, pet_id, created_at) \
        SELECT digest, id, created_at FROM matched WHERE digest <> '' ORDER BY digest\
    ) SELECT number - 1, id FROM matched";

async fn add_on_postgres(session: &Session, rows: &[NewRow]) -> Result<Vec<Option<PetId>>, DbErr> {
    let mut added = vec![None; rows.len()];
    for row in session.query_all_raw(add_statement(rows)).await? {
        let number: i64 = row.try_get_by_index(0)?;
        *place(&mut added, number)? = Some(PetId(row.try_get_by_index(1)?));
    }
    Ok(added)
}

fn add_statement(rows: &[NewRow]) -> Statement {
    let array = |kind, values: Vec<Value>| Value::Array(kind, Some(Box::new(values)));
    let digest = |row: &NewRow| row.name.as_ref().map_or_else(Vec::new, |(key, _)| key.digest());
    let values = [
        array(ArrayType::Bytes, rows.iter().map(|row| digest(row).into()).collect()),
        numbers(rows.iter().map(created_at)),
        array(ArrayType::String, rows.iter().map(|row| row.pet.name.as_str().into()).collect()),
        numbers(rows.iter().map(|row| row.pet.category_id)),
        array(
            ArrayType::SmallInt,
            rows.iter().map(|row| row.pet.status.map_or(0, status_column).into()).collect(),
        ),
        rows.first().map_or("1s", |row| row.wait).into(),
    ];
    Statement::from_sql_and_values(DbBackend::Postgres, ADD, values)
}

/// The last identifier that SQLite has assigned.
macro_rules! last_id {
    () => {
        "SELECT max((SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'pets'), \
                    (SELECT coalesce(max(id), 0) FROM pets)) AS last_id"
    };
}

/// Transaction that adds pets on SQLite, which runs it in one call. It holds the write lock from its
/// beginning, so the result of its first search stays true. Its rows are the last identifier that was
/// assigned before, and the identifiers of the pets that were added. The distance from the first row is the
/// position of the call, counted from 1.
const ADD_ON_SQLITE: &str = concat!(
    "BEGIN IMMEDIATE; ",
    last_id!(),
    "; INSERT INTO create_requests (digest, pet_id, created_at) \
        SELECT unhex(value ->> 0), last_id + key + 1, value ->> 1 FROM json_each(?1), (",
    last_id!(),
    ") WHERE value ->> 0 IS NOT NULL ON CONFLICT DO NOTHING; \
    INSERT INTO pets (id, name, category_id, status) \
        SELECT last_id + key + 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1), (",
    last_id!(),
    ") WHERE value ->> 0 IS NULL \
        OR last_id + key + 1 = (SELECT pet_id FROM create_requests WHERE digest = unhex(value ->> 0)) \
        RETURNING id; \
    COMMIT"
);

async fn add_on_sqlite(session: &Session, rows: &[NewRow]) -> Result<Vec<Option<PetId>>, DbErr> {
    let json: Vec<_> = rows.iter().map(as_json).collect();
    let text = serde_json::to_string(&json).map_err(|error| DbErr::Json(error.to_string()))?;
    let text = Statement::from_sql_and_values(DbBackend::Sqlite, ADD_ON_SQLITE, [text.into()]);
    let mut added = vec![None; rows.len()];
    let mut ids = session.transact(text).await?.into_iter();
    let last_id: i64 = ids.next().ok_or_else(unknown_pet)?.try_get_by_index(0)?;
    for row in ids {
        let id: i64 = row.try_get_by_index(0)?;
        *place(&mut added, id - last_id - 1)? = Some(PetId(id));
    }
    Ok(added)
}

/// Returns digest, time, name, category and status.
fn as_json(row: &NewRow) -> (Option<String>, i64, &str, i64, Option<i16>) {
    let NewRow { pet, name, .. } = row;
    let digest = name.as_ref().map(|(key, _)| hexadecimal(&key.digest()));
    (digest, created_at(row), pet.name.as_str(), pet.category_id, pet.status.map(status_column))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |four_bits: u8| char::from_digit(u32::from(four_bits), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn created_at(row: &NewRow) -> i64 {
    row.name.as_ref().map_or(0, |(_, now)| moment_column(*now))
}

fn place(added: &mut [Option<PetId>], number: i64) -> Result<&mut Option<PetId>, DbErr> {
    usize::try_from(number).ok().and_then(|number| added.get_mut(number)).ok_or_else(unknown_pet)
}

fn unknown_pet() -> DbErr {
    DbErr::Custom("the database added a pet that it was not given".into())
}

#[cfg(test)]
mod tests;
