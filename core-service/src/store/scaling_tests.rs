//! Lists and single pets cost the same for any number of pets, on both engines.
//!
//! The tests compare the work that the database does, which does not depend on the load of the machine: for a
//! thousand pets and for a hundred thousand. `PETSTORE_TEST_LONG=1` (`scripts/test --long`) compares a
//! thousand with five million, and prints times, which decide nothing: they depend on the machine.

use std::time::{Duration, Instant};

use sea_orm::{ConnectionTrait, DbBackend};

use super::{
    Store,
    test_support::{new_database, new_file, open_file},
};
use crate::{
    pages::PageSize,
    pets::{ListPets, PetId, PetStatus},
};

mod work;

const FEW: i64 = 1_000;

fn is_long() -> bool {
    std::env::var_os("PETSTORE_TEST_LONG").is_some()
}

fn many() -> i64 {
    if is_long() { 5_000_000 } else { 100_000 }
}

/// Number of times that each call is timed.
const ROUNDS: usize = 2_000;

/// Prints times. Calls on few and on many pets alternate, and their medians are compared, so that a busy
/// machine slows both.
async fn print_times(few: &Store, many: &Store) {
    for (what, call) in CALLS {
        let (mut on_few, mut on_many) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            on_few.push(call.time(few, FEW).await);
            on_many.push(call.time(many, self::many()).await);
        }
        let (on_few, on_many) = (median(on_few), median(on_many));
        let ratio = on_many.as_secs_f64() / on_few.as_secs_f64();
        println!("{what}: {on_few:?} among {FEW}, {on_many:?} among {}: {ratio:.2} times", self::many());
    }
}

#[derive(Clone, Copy)]
enum Call {
    Get,
    List { is_last: bool, status: Option<PetStatus> },
}

const SOLD: Option<PetStatus> = Some(PetStatus::Sold);
const CALLS: [(&str, Call); 5] = [
    ("one pet", Call::Get),
    ("the first page", Call::List { is_last: false, status: None }),
    ("the last page", Call::List { is_last: true, status: None }),
    ("the first page of a status", Call::List { is_last: false, status: SOLD }),
    ("the last page of a status", Call::List { is_last: true, status: SOLD }),
];

impl Call {
    /// Returns the duration of the call among `count` pets.
    async fn time(self, store: &Store, count: i64) -> Duration {
        let start = Instant::now();
        self.make(store, count).await;
        start.elapsed()
    }

    async fn make(self, store: &Store, count: i64) {
        match self {
            Self::Get => assert!(store.pets.find_pet(PetId(count / 2)).await.unwrap().is_some()),
            Self::List { is_last, status } => {
                let page = i64::try_from(PageSize::DEFAULT.get()).unwrap();
                // Every fourth has the status.
                let end = count - if status.is_some() { 4 * page } else { page };
                let after = is_last.then_some(PetId(end));
                let list = ListPets { size: PageSize::DEFAULT, after, status };
                let found = store.pets.list_pets(list).await.unwrap();
                assert_eq!((found.rows.len(), found.next.is_none()), (PageSize::DEFAULT.get(), is_last));
            }
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Returns statements that each add a part of the pets, each status and none in turn. The parts are small
/// enough for the deadline of one statement.
fn parts(engine: DbBackend, count: i64) -> impl Iterator<Item = String> {
    const PART: i64 = 250_000;
    (0..count).step_by(usize::try_from(PART).unwrap()).map(move |start| {
        let end = (start + PART).min(count);
        let numbers = match engine {
            DbBackend::Sqlite => format!(
                "WITH RECURSIVE numbers (n) AS (SELECT {start} + 1 UNION ALL \
                 SELECT n + 1 FROM numbers WHERE n < {end})"
            ),
            _ => format!("WITH numbers (n) AS (SELECT generate_series({start} + 1, {end}))"),
        };
        format!(
            "{numbers} INSERT INTO pets (name, category_id, status) \
             SELECT 'Rex', 1, nullif(n % 4, 0) FROM numbers"
        )
    })
}

#[tokio::test]
async fn lists_and_pets_cost_the_same_among_few_and_many_on_sqlite() {
    let ((few, _home), (many, _other_home)) = (new_file().await, new_file().await);
    for (store, count) in [(&few, FEW), (&many, self::many())] {
        for part in parts(DbBackend::Sqlite, count) {
            store.database().writer().execute_unprepared(&part).await.unwrap();
        }
    }
    work::assert_same(&work::steps(&few, FEW).await, &work::steps(&many, self::many()).await, 0);
    if is_long() {
        print_times(&few, &many).await;
    }
}

#[tokio::test]
async fn lists_and_pets_cost_the_same_among_few_and_many_on_postgresql() {
    let ((few, here), (many, there)) = (new_database().await, new_database().await);
    for (database, count) in [(&here, FEW), (&there, self::many())] {
        for part in parts(DbBackend::Postgres, count) {
            database.psql(&part).await;
        }
        database.psql("ANALYZE pets").await;
    }
    // The trees of the indexes may be higher, by a level or two.
    work::assert_same(&work::pages(&few, FEW).await, &work::pages(&many, self::many()).await, 2);
    if is_long() {
        print_times(&few, &many).await;
    }
    there.remove().await;
}

/// Rows in the store when the database collects its statistics. They must not matter once there are many
/// pets.
const FIRST_ROWS: [&str; 2] = [
    "SELECT 1", // none
    "INSERT INTO pets (name, category_id, status) VALUES ('Rex', 1, 1), ('Tom', 1, 1)",
];

fn many_later() -> i64 {
    if is_long() { 100_000 } else { 20_000 }
}

#[tokio::test]
async fn statistics_of_an_almost_empty_store_slow_no_call_on_sqlite() {
    let (few, _home) = new_file().await;
    for part in parts(DbBackend::Sqlite, FEW) {
        few.database().writer().execute_unprepared(&part).await.unwrap();
    }
    let few = work::steps(&few, FEW).await;
    for first_rows in FIRST_ROWS {
        let (store, home) = new_file().await;
        let later = parts(DbBackend::Sqlite, many_later());
        let before = [first_rows, "ANALYZE", "DELETE FROM pets", "DELETE FROM sqlite_sequence"];
        for sql in before.map(str::to_owned).into_iter().chain(later) {
            store.database().writer().execute_unprepared(&sql).await.unwrap();
        }
        store.database().close().await;
        let many = work::steps(&open_file(home.path()).await, many_later()).await;
        work::assert_same(&few, &many, 0);
    }
}

#[tokio::test]
async fn closing_an_almost_empty_store_slows_no_call_on_sqlite() {
    let (few, _home) = new_file().await;
    for part in parts(DbBackend::Sqlite, FEW) {
        few.database().writer().execute_unprepared(&part).await.unwrap();
    }
    let (mut store, home) = new_file().await;
    let rest = parts(DbBackend::Sqlite, many_later() - 2);
    for sql in [FIRST_ROWS[1].to_owned()].into_iter().chain(rest) {
        store.database().writer().execute_unprepared(&sql).await.unwrap();
        let list = ListPets { size: PageSize::DEFAULT, after: Some(PetId(1)), status: None };
        store.pets.list_pets(list).await.unwrap();
        store.database().close().await;
        store = open_file(home.path()).await;
    }
    let many = work::steps(&store, many_later()).await;
    work::assert_same(&work::steps(&few, FEW).await, &many, 0);
}

#[tokio::test]
async fn statistics_of_an_almost_empty_store_slow_no_call_on_postgresql() {
    let (few, database) = new_database().await;
    for part in parts(DbBackend::Postgres, FEW) {
        database.psql(&part).await;
    }
    database.psql("ANALYZE pets").await;
    let few = work::pages(&few, FEW).await;
    for first_rows in FIRST_ROWS {
        let (many, database) = new_database().await;
        let later = parts(DbBackend::Postgres, many_later());
        let before = [
            "ALTER TABLE pets SET (autovacuum_enabled = off)",
            first_rows,
            "ANALYZE",
            "DELETE FROM pets",
            "ALTER SEQUENCE pets_id_seq RESTART",
        ];
        for sql in before.map(str::to_owned).into_iter().chain(later) {
            database.psql(&sql).await;
        }
        work::assert_same(&few, &work::pages(&many, many_later()).await, 2);
    }
}
