//! Creations that can be asked for again: who asks twice by the same name gets one animal.

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
    running::Run,
};
use crate::domain::{Created, NewPet, Pet, PetStoreError, RequestId};

/// How often one call tries: again after an expired name was removed, and again on another connection.
const ATTEMPTS: usize = 3;

/// Adds an animal and its name on PostgreSQL in one round trip, where a transaction of two statements takes four. No
/// row comes back if the name is taken. Of two that run at once both see it free: one waits for the other to commit,
/// and then violates the primary key.
const ADD_WITH_NAME: &str = concat!(
    "WITH added AS (\
        INSERT INTO pets (name, category_id, status) SELECT $3, $4, $5 \
        WHERE NOT EXISTS (SELECT FROM create_requests WHERE digest = $1) \
        RETURNING id, name, category_id, status\
    ), named AS (\
        INSERT INTO create_requests (digest, pet_id, created_at) SELECT $1, id, $2 FROM added\
    ) SELECT id, name, category_id, status, ",
    committed!(),
    " FROM added"
);

/// Of the names, on PostgreSQL.
const PRIMARY_KEY: &str = "create_requests_pkey";

/// Why an animal was not added.
enum NotAdded {
    /// There is a creation of that name.
    NameTaken,
    /// Another core works on one of that name.
    InProgress,
    Failed(DbErr),
}

impl From<DbErr> for NotAdded {
    fn from(error: DbErr) -> Self {
        Self::Failed(error)
    }
}

/// The creations of pets that may be asked for more than once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creations<'a>(pub(super) &'a Store);

impl Creations<'_> {
    /// Adds an animal, or finds the one that an earlier call of that name has added. The database settles races:
    /// the name is stored with the animal in one transaction, and is a primary key.
    pub(crate) async fn insert_once(
        self,
        id: &RequestId,
        new: NewPet,
        now: UnixMillis,
    ) -> Result<Created, PetStoreError> {
        // Held by whatever still works on it, also when the caller has given up.
        let run = self.0.running.begin(id).ok_or(PetStoreError::RequestInProgress)?;
        let work = async {
            let mut lost_connections = 0;
            for _ in 0..ATTEMPTS {
                match Box::pin(self.try_insert(&run, &new, now)).await {
                    Ok(pet) => return Ok(Created { pet, replayed: false }),
                    Err(NotAdded::InProgress) => return Err(PetStoreError::RequestInProgress),
                    Err(NotAdded::NameTaken) => {
                        if let Some(pet) = self.find_created(&run, now).await? {
                            let is_same = (&pet.name, pet.category_id, pet.status)
                                == (&new.name, new.category_id, new.status);
                            return if is_same {
                                Ok(Created { pet, replayed: true })
                            } else {
                                Err(PetStoreError::RequestIdReused)
                            };
                        }
                    }
                    // Whether it was added is not known; the name will tell.
                    Err(NotAdded::Failed(error)) if lost_connections == 0 && fault::is_passing(&error) => {
                        lost_connections += 1;
                    }
                    Err(NotAdded::Failed(error)) => return Err(error.into()),
                }
            }
            Err(PetStoreError::RequestInProgress) // the name comes and goes: others are at it
        };
        self.0.within(work).await
    }

    async fn try_insert(self, run: &Run, new: &NewPet, now: UnixMillis) -> Result<Pet, NotAdded> {
        let pet = match self.0.writer.backend() {
            DbBackend::Postgres => self.insert_in_one_statement(run, new, now).await?,
            _ => self.insert_in_steps(run, new, now).await?,
        };
        pet.try_into().map_err(|error: PetStoreError| NotAdded::Failed(DbErr::Custom(error.to_string())))
    }

    async fn insert_in_one_statement(
        self,
        run: &Run,
        NewPet { name, category_id, status }: &NewPet,
        now: UnixMillis,
    ) -> Result<pet::Model, NotAdded> {
        let values = [
            run.digest().into(),
            moment_column(now).into(),
            name.as_str().into(),
            category_id.0.into(),
            status.map(status_column).into(),
        ];
        let statement = Statement::from_sql_and_values(DbBackend::Postgres, ADD_WITH_NAME, values);
        match self.0.writer.write(statement, run.clone()).await {
            Ok(rows) => match rows.first() {
                Some(row) => Ok(pet::Model::from_query_result(row, "")?),
                None => Err(NotAdded::NameTaken),
            },
            Err(error) if fault::is_duplicate(&error) => Err(NotAdded::NameTaken),
            Err(error) if fault::postgres::is_key_timeout(&error, PRIMARY_KEY) => Err(NotAdded::InProgress),
            Err(error) => Err(error.into()),
        }
    }

    async fn insert_in_steps(self, run: &Run, new: &NewPet, now: UnixMillis) -> Result<pet::Model, NotAdded> {
        let (run, row) = (run.clone(), pet_row(new.clone()));
        self.0
            .writer
            .transaction(move |transaction| {
                Box::pin(async move {
                    let pet = pet::Entity::insert(row).exec_with_returning(transaction).await?;
                    claim(transaction, run.digest(), pet.id, now).await?;
                    Ok(pet)
                })
            })
            .await
    }

    /// The animal that a creation of that name has added.
    async fn find_created(self, run: &Run, now: UnixMillis) -> Result<Option<Pet>, PetStoreError> {
        let Some(request) = self.find_request(run, now).await? else { return Ok(None) };
        let find = pet::Entity::find_by_id(request.pet_id);
        let pet = self.0.reader.read(|db| Box::pin(find.all(db))).await?.into_iter().next();
        let pet =
            pet.ok_or_else(|| PetStoreError::Bug(format!("pet {} is missing", request.pet_id).into()))?;
        pet.try_into().map(Some)
    }

    /// What is stored under that name; a name that has expired is removed instead.
    async fn find_request(self, run: &Run, now: UnixMillis) -> Result<Option<create_request::Model>, DbErr> {
        use create_request::Column as C;
        let find = create_request::Entity::find_by_id(run.digest());
        let requests = self.0.reader.read(|db| Box::pin(find.all(db))).await?;
        let Some(request) = requests.into_iter().next() else { return Ok(None) };
        if request.created_at > moment_column(expiry(now)) {
            return Ok(Some(request));
        }
        let (run, created_at) = (run.clone(), request.created_at);
        self.0
            .writer
            .transaction(move |transaction| {
                Box::pin(async move {
                    let expired = create_request::Entity::delete_many()
                        .filter(C::Digest.eq(run.digest()))
                        .filter(C::CreatedAt.eq(created_at));
                    expired.exec(transaction).await.map(drop)
                })
            })
            .await
            .map(|()| None)
    }

    /// Forgets names that have expired, the oldest first, at most so many and those of the same millisecond as the
    /// last. How many those were. The bound is asked for first, since PostgreSQL reads the whole table to delete what a
    /// subquery names.
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

/// Stores the name in the transaction that adds the animal, so that both are there or neither.
async fn claim(transaction: &Session, digest: Vec<u8>, pet_id: i64, now: UnixMillis) -> Result<(), NotAdded> {
    let request = create_request::ActiveModel {
        digest: Set(digest),
        pet_id: Set(pet_id),
        created_at: Set(moment_column(now)),
    };
    // A taken name is to be expected, and no failure of a statement.
    let insert = create_request::Entity::insert(request).on_conflict_do_nothing();
    match insert.exec_without_returning(transaction).await {
        Ok(TryInsertResult::Inserted(1..)) => Ok(()),
        Ok(_) => Err(NotAdded::NameTaken),
        Err(error) => Err(error.into()),
    }
}

/// What is as old as this has expired.
fn expiry(now: UnixMillis) -> UnixMillis {
    let kept = u64::try_from(RequestId::KEPT.as_millis()).unwrap_or(u64::MAX);
    UnixMillis(now.0.saturating_sub(kept))
}

#[cfg(test)]
mod tests;
