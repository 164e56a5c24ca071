//! Creations with an idempotency key: a call that is repeated with the same key adds one pet.

use petstore_clock::UnixMillis;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DbBackend, DbErr, EntityTrait, FromQueryResult, QueryFilter, QueryOrder,
    QuerySelect, Statement, TryInsertResult,
};

use super::{
    Session, Store,
    entity::{account::moment_column, create_request, pet},
    fault,
    insert::committed,
    pets::{pet_row, status_column},
};
use crate::domain::{Created, IdempotencyKey, NewPet, Pet, PetStoreError};

mod in_flight;

pub(super) use in_flight::InFlight;
use in_flight::InFlightKey;

/// How often one call tries: again after an expired key was removed, and again on another connection.
const ATTEMPTS: usize = 3;

/// Adds a pet and its key on PostgreSQL in one round trip, where a transaction of two statements takes four. Returns
/// no row if the key is taken. Two statements that key at once both see it free: one waits for the other to commit,
/// and then violates the primary key.
const ADD_WITH_KEY: &str = concat!(
    "WITH added AS (\
        INSERT INTO pets (name, category_id, status) SELECT $3, $4, $5 \
        WHERE NOT EXISTS (SELECT FROM create_requests WHERE digest = $1) \
        RETURNING id, name, category_id, status\
    ), keyed AS (\
        INSERT INTO create_requests (digest, pet_id, created_at) SELECT $1, id, $2 FROM added\
    ) SELECT id, name, category_id, status, ",
    committed!(),
    " FROM added"
);

/// The primary key of table `create_requests` on PostgreSQL.
const PRIMARY_KEY: &str = "create_requests_pkey";

/// Why a pet was not added.
enum NotAdded {
    /// A pet was added with that key already.
    KeyTaken,
    /// Another core is working on a creation with that key.
    InProgress,
    Failed(DbErr),
}

impl From<DbErr> for NotAdded {
    fn from(error: DbErr) -> Self {
        Self::Failed(error)
    }
}

/// The creations of pets with an idempotency key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creations<'a>(pub(super) &'a Store);

impl Creations<'_> {
    /// Adds a pet, or finds the one that an earlier call with the same key has added. The database settles races: the
    /// key is stored with the pet in one transaction, and is a primary key.
    pub(crate) async fn insert_once(
        self,
        key: &IdempotencyKey,
        new: NewPet,
        now: UnixMillis,
    ) -> Result<Created, PetStoreError> {
        // Held by the job that still works on it, even after the caller has given up.
        let key = self.0.in_flight.begin(key).ok_or(PetStoreError::RequestInProgress)?;
        let work = async {
            let mut lost_connections = 0;
            for _ in 0..ATTEMPTS {
                match Box::pin(self.try_insert(&key, &new, now)).await {
                    Ok(pet) => return Ok(Created { pet, replayed: false }),
                    Err(NotAdded::InProgress) => return Err(PetStoreError::RequestInProgress),
                    Err(NotAdded::KeyTaken) => {
                        if let Some(pet) = self.find_created(&key, now).await? {
                            let is_same = (&pet.name, pet.category_id, pet.status)
                                == (&new.name, new.category_id, new.status);
                            return if is_same {
                                Ok(Created { pet, replayed: true })
                            } else {
                                Err(PetStoreError::IdempotencyKeyReused)
                            };
                        }
                    }
                    // Whether it was added is not known: the next attempt finds out by the key.
                    Err(NotAdded::Failed(error)) if lost_connections == 0 && fault::is_passing(&error) => {
                        lost_connections += 1;
                    }
                    Err(NotAdded::Failed(error)) => return Err(error.into()),
                }
            }
            Err(PetStoreError::RequestInProgress) // the key appears and expires: other calls are working on it
        };
        self.0.within(work).await
    }

    async fn try_insert(self, key: &InFlightKey, new: &NewPet, now: UnixMillis) -> Result<Pet, NotAdded> {
        let pet = match self.0.writer.backend() {
            DbBackend::Postgres => self.insert_in_one_statement(key, new, now).await?,
            _ => self.insert_in_steps(key, new, now).await?,
        };
        pet.try_into().map_err(|error: PetStoreError| NotAdded::Failed(DbErr::Custom(error.to_string())))
    }

    async fn insert_in_one_statement(
        self,
        key: &InFlightKey,
        NewPet { name, category_id, status }: &NewPet,
        now: UnixMillis,
    ) -> Result<pet::Model, NotAdded> {
        let values = [
            key.digest().into(),
            moment_column(now).into(),
            name.as_str().into(),
            category_id.0.into(),
            status.map(status_column).into(),
        ];
        let statement = Statement::from_sql_and_values(DbBackend::Postgres, ADD_WITH_KEY, values);
        match self.0.writer.write(statement, key.clone()).await {
            Ok(rows) => match rows.first() {
                Some(row) => Ok(pet::Model::from_query_result(row, "")?),
                None => Err(NotAdded::KeyTaken),
            },
            Err(error) if fault::is_duplicate(&error) => Err(NotAdded::KeyTaken),
            Err(error) if fault::postgres::is_key_timeout(&error, PRIMARY_KEY) => Err(NotAdded::InProgress),
            Err(error) => Err(error.into()),
        }
    }

    async fn insert_in_steps(
        self,
        key: &InFlightKey,
        new: &NewPet,
        now: UnixMillis,
    ) -> Result<pet::Model, NotAdded> {
        let (key, row) = (key.clone(), pet_row(new.clone()));
        self.0
            .writer
            .transaction(move |transaction| {
                Box::pin(async move {
                    let pet = pet::Entity::insert(row).exec_with_returning(transaction).await?;
                    insert_key(transaction, key.digest(), pet.id, now).await?;
                    Ok(pet)
                })
            })
            .await
    }

    /// The pet that an earlier creation with this key has added.
    async fn find_created(self, key: &InFlightKey, now: UnixMillis) -> Result<Option<Pet>, PetStoreError> {
        let Some(request) = self.find_request(key, now).await? else { return Ok(None) };
        let find = pet::Entity::find_by_id(request.pet_id);
        let pet = self.0.reader.read(|db| Box::pin(find.all(db))).await?.into_iter().next();
        let pet =
            pet.ok_or_else(|| PetStoreError::Bug(format!("pet {} is missing", request.pet_id).into()))?;
        pet.try_into().map(Some)
    }

    /// What is stored under this key, or `None` after removing a key that has expired.
    async fn find_request(
        self,
        key: &InFlightKey,
        now: UnixMillis,
    ) -> Result<Option<create_request::Model>, DbErr> {
        use create_request::Column as C;
        let find = create_request::Entity::find_by_id(key.digest());
        let requests = self.0.reader.read(|db| Box::pin(find.all(db))).await?;
        let Some(request) = requests.into_iter().next() else { return Ok(None) };
        if request.created_at > moment_column(expiry(now)) {
            return Ok(Some(request));
        }
        let (key, created_at) = (key.clone(), request.created_at);
        self.0
            .writer
            .transaction(move |transaction| {
                Box::pin(async move {
                    let expired = create_request::Entity::delete_many()
                        .filter(C::Digest.eq(key.digest()))
                        .filter(C::CreatedAt.eq(created_at));
                    expired.exec(transaction).await.map(drop)
                })
            })
            .await
            .map(|()| None)
    }

    /// Deletes keys that have expired, the oldest first: at most `most`, and those of the same millisecond as the last.
    /// Returns how many there were. Selects the bound first, since PostgreSQL reads the whole table to delete what a
    /// subquery selects.
    pub(crate) async fn forget_expired(self, now: UnixMillis, most: u64) -> Result<u64, PetStoreError> {
        use create_request::Column as C;
        let expiry = moment_column(expiry(now));
        self.0
            .transaction_beside_others(move |transaction| {
                Box::pin(async move {
                    let full = create_request::Entity::find()
                        .filter(C::CreatedAt.lte(expiry))
                        .order_by_asc(C::CreatedAt)
                        .offset(most.saturating_sub(1))
                        .limit(1)
                        .all(transaction)
                        .await?;
                    let last = full.first().map_or(expiry, |row| row.created_at);
                    let deleted = create_request::Entity::delete_many()
                        .filter(C::CreatedAt.lte(last))
                        .exec(transaction)
                        .await?;
                    Ok(deleted.rows_affected)
                })
            })
            .await
    }
}

/// Stores the key in the transaction that adds the pet, so that both are there or neither.
async fn insert_key(
    transaction: &Session,
    digest: Vec<u8>,
    pet_id: i64,
    now: UnixMillis,
) -> Result<(), NotAdded> {
    let request = create_request::ActiveModel {
        digest: Set(digest),
        pet_id: Set(pet_id),
        created_at: Set(moment_column(now)),
    };
    // A key that is taken is expected, and must not fail the statement.
    let insert = create_request::Entity::insert(request).on_conflict_do_nothing();
    match insert.exec_without_returning(transaction).await {
        Ok(TryInsertResult::Inserted(1..)) => Ok(()),
        Ok(_) => Err(NotAdded::KeyTaken),
        Err(error) => Err(error.into()),
    }
}

/// Keys that were stored at this moment or earlier have expired.
fn expiry(now: UnixMillis) -> UnixMillis {
    let kept = u64::try_from(IdempotencyKey::KEPT.as_millis()).unwrap_or(u64::MAX);
    UnixMillis(now.0.saturating_sub(kept))
}

#[cfg(test)]
mod tests;
