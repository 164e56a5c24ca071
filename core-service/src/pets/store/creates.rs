//! Batched creation of pets, in one transaction.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use petstore_clock::UnixMillis;
use petstore_database::{BatchError, Batched, Batches, Database, Session, fault};
use sea_orm::{ActiveModelTrait, ConnectionTrait, DbBackend, DbErr, Statement, sea_query::ArrayType};

use super::reads::{array_value, numbers};
use crate::pets::{IdempotencyKey, NewPet, PetId, PetStatus, entity as pet};

/// Maximum number of pets in a batch. Their names have up to 1,020 bytes each, so a batch has less than 100
/// KiB.
const MOST_PETS: usize = 64;

/// Batched creation of pets. Clones share it.
#[derive(Clone)]
pub(in crate::pets) struct PetCreates {
    batches: Batches<Creates>,
    /// Keys of the creations that this process is working on: at most as many as concurrent calls.
    in_flight: Arc<Mutex<Vec<Weak<IdempotencyKey>>>>,
}

impl PetCreates {
    pub(in crate::pets) fn new(database: &mut Database) -> Self {
        // One commit at a time, because two would only wait for each other. One more runs while one waits for
        // a lock.
        Self { batches: database.batched_writes("creates", 1), in_flight: Arc::default() }
    }

    /// Registers a creation until the last clone of the key is dropped. Returns `None` if one with that key
    /// is already in flight.
    pub(in crate::pets) fn begin(&self, key: &IdempotencyKey) -> Option<Arc<IdempotencyKey>> {
        let mut keys = self.in_flight.lock();
        keys.retain(|other| other.strong_count() > 0);
        if keys.iter().any(|other| other.upgrade().is_some_and(|other| *other == *key)) {
            return None;
        }
        let key = Arc::new(key.clone());
        keys.push(Arc::downgrade(&key));
        Some(key)
    }

    /// Returns the identifier of the pet, or `None` if the name of its creation is taken.
    pub(in crate::pets) async fn add(
        &self,
        pet: &NewPet,
        name: Option<(&Arc<IdempotencyKey>, UnixMillis)>,
    ) -> Result<Option<PetId>, DbErr> {
        let name = name.map(|(key, now)| (Arc::clone(key), now));
        let new = NewRow { pet: pet.clone(), name };
        match self.batches.ask(new.clone()).await {
            Err(BatchError { error, is_shared: true })
                if is_name_in_use(&error) || fault::is_refusal(&error) =>
            {
                self.batches.ask_alone(new).await
            }
            answer => answer.map_err(|error| error.error),
        }
    }
}

/// Returns `true` if another core was still working on a creation with one of the names when the time to wait
/// for it had passed.
pub(in crate::pets) fn is_name_in_use(error: &DbErr) -> bool {
    fault::is_key_timeout(error, NAMES)
}

/// Primary key of the names of creations, on PostgreSQL. SQLite skips a name that is taken.
pub(in crate::pets) const NAMES: &str = "create_requests_pkey";

/// The kind of call that adds a pet.
#[derive(Clone)]
struct Creates;

#[derive(Clone)]
struct NewRow {
    pet: NewPet,
    /// Name of the creation, which stays in flight until the batch has ended, and the time of the call.
    name: Option<(Arc<IdempotencyKey>, UnixMillis)>,
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
            match (session.get_database_backend(), &rows[..]) {
                (_, [NewRow { pet, name: None }]) => {
                    let added = pet::ActiveModel::from(pet.clone()).insert(session).await?;
                    Ok(vec![Some(PetId(added.id))])
                }
                (DbBackend::Postgres, [NewRow { pet, name: Some((key, now)) }]) => {
                    let added = session.query_one_raw(add_named(pet, key, *now)).await?;
                    let id = added.map(|row| row.try_get_by_index(0)).transpose()?;
                    Ok(vec![id.map(PetId)])
                }
                (DbBackend::Postgres, _) => add_on_postgres(session, &rows).await,
                _ => add_on_sqlite(session, &rows).await,
            }
        })
    }
}

async fn add_on_postgres(session: &Session, rows: &[NewRow]) -> Result<Vec<Option<PetId>>, DbErr> {
    let mut added = vec![None; rows.len()];
    for row in session.query_all_raw(add_statement(rows, "50ms")).await? {
        let number: i64 = row.try_get_by_index(0)?;
        *place(&mut added, number)? = Some(PetId(row.try_get_by_index(1)?));
    }
    Ok(added)
}

/// Returns the statement that adds a pet and the name of its creation, unless the name is taken. It takes
/// half of the server's time of [`add_statement`], and waits for another core that works on the name as long
/// as other statements wait for a lock.
fn add_named(pet: &NewPet, key: &IdempotencyKey, now: UnixMillis) -> Statement {
    let NewPet { name, category_id, status } = pet;
    let values = [
        key.digest().into(),
        now.as_i64().into(),
        name.as_str().into(),
        (*category_id).into(),
        status.map(PetStatus::number).into(),
    ];
    let text = include_str!("sql/postgres/create_named_pet.sql");
    Statement::from_sql_and_values(DbBackend::Postgres, text, values)
}

/// Returns the statement that adds pets and the names of their creations in one round trip. It skips pets
/// whose name is taken. For another core that works on one of the names it `waits` only shortly: the call
/// with that name is then repeated alone.
fn add_statement(rows: &[NewRow], waits: &str) -> Statement {
    let digest = |row: &NewRow| row.name.as_ref().map_or_else(Vec::new, |(key, _)| key.digest());
    let values = [
        waits.into(),
        array_value(ArrayType::Bytes, rows.iter().map(digest)),
        numbers(rows.iter().map(created_at)),
        array_value(ArrayType::String, rows.iter().map(|row| row.pet.name.as_str())),
        numbers(rows.iter().map(|row| row.pet.category_id)),
        array_value(ArrayType::SmallInt, rows.iter().map(|row| row.pet.status.map_or(0, PetStatus::number))),
    ];
    let text = include_str!("sql/postgres/create_pets.sql");
    Statement::from_sql_and_values(DbBackend::Postgres, text, values)
}

/// Adds the pets in one transaction, which SQLite runs in one call. Its rows are the last identifier that was
/// assigned before, and the identifiers of the pets that were added. The distance from the first row is the
/// position of the call, counted from 1.
async fn add_on_sqlite(session: &Session, rows: &[NewRow]) -> Result<Vec<Option<PetId>>, DbErr> {
    let digest = |row: &NewRow| row.name.as_ref().map(|(key, _)| hexadecimal(&key.digest()));
    let json: Vec<_> = rows
        .iter()
        .map(|row| {
            let NewPet { name, category_id, status } = &row.pet;
            (digest(row), created_at(row), name.as_str(), *category_id, status.map(PetStatus::number))
        })
        .collect();
    let json = serde_json::to_string(&json).map_err(|error| DbErr::Json(error.to_string()))?;
    let text = include_str!("sql/sqlite/create_pets.sql");
    let text = Statement::from_sql_and_values(DbBackend::Sqlite, text, [json.into()]);
    let mut added = vec![None; rows.len()];
    let mut ids = session.transact(text).await?.into_iter();
    let last_id: i64 = ids.next().ok_or_else(unknown_pet)?.try_get_by_index(0)?;
    for row in ids {
        let id: i64 = row.try_get_by_index(0)?;
        *place(&mut added, id - last_id - 1)? = Some(PetId(id));
    }
    Ok(added)
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |four_bits: u8| char::from_digit(u32::from(four_bits), 16).unwrap_or_default();
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn created_at(row: &NewRow) -> i64 {
    row.name.as_ref().map_or(0, |(_, now)| now.as_i64())
}

fn place(added: &mut [Option<PetId>], number: i64) -> Result<&mut Option<PetId>, DbErr> {
    usize::try_from(number).ok().and_then(|number| added.get_mut(number)).ok_or_else(unknown_pet)
}

fn unknown_pet() -> DbErr {
    DbErr::Custom("the database added a pet that it was not given".into())
}

#[cfg(test)]
mod tests;
