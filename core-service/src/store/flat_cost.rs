//! Lists and single animals cost the same however many animals there are, on both engines.
//!
//! `PETSTORE_TEST_LONG=1` (`scripts/test --long`) compares a thousand with five million, more closely.

use std::time::{Duration, Instant};

use sea_orm::{ConnectionTrait, DbBackend};

use super::{
    Store,
    test_support::{new_database, new_file},
};
use crate::domain::{ListPets, PageSize, PetId, PetStatus};

const FEW: i64 = 1_000;

/// How many are many, how often each call is made, and how many times as long it may take then. Calls on few and on
/// many animals take turns and their medians are compared, so that a busy machine slows both.
struct Comparison {
    many: i64,
    rounds: usize,
    bound: f64,
}

impl Comparison {
    fn of_this_run() -> Self {
        if std::env::var_os("PETSTORE_TEST_LONG").is_some() {
            Self { many: 5_000_000, rounds: 2_000, bound: 1.2 }
        } else {
            Self { many: 100_000, rounds: 300, bound: 2.0 }
        }
    }

    async fn compare(&self, few: &Store, many: &Store) {
        for (what, call) in CALLS {
            let (mut on_few, mut on_many) = (Vec::new(), Vec::new());
            for _ in 0..self.rounds {
                on_few.push(call.time(few, FEW).await);
                on_many.push(call.time(many, self.many).await);
            }
            let (on_few, on_many) = (median(on_few), median(on_many));
            let ratio = on_many.as_secs_f64() / on_few.as_secs_f64();
            println!("{what}: {on_few:?} among {FEW}, {on_many:?} among {}: {ratio:.2} times", self.many);
            assert!(ratio < self.bound, "{what} takes {ratio:.2} times as long");
        }
    }
}

#[derive(Clone, Copy)]
enum Call {
    Get,
    List { is_last: bool, status: Option<PetStatus> },
}

const SOLD: Option<PetStatus> = Some(PetStatus::Sold);
const CALLS: [(&str, Call); 5] = [
    ("one animal", Call::Get),
    ("the first page", Call::List { is_last: false, status: None }),
    ("the last page", Call::List { is_last: true, status: None }),
    ("the first page of a status", Call::List { is_last: false, status: SOLD }),
    ("the last page of a status", Call::List { is_last: true, status: SOLD }),
];

impl Call {
    /// How long it takes among so many animals.
    async fn time(self, store: &Store, count: i64) -> Duration {
        let start = Instant::now();
        match self {
            Self::Get => assert!(store.find_pet(PetId(count / 2)).await.unwrap().is_some()),
            Self::List { is_last, status } => {
                let page = i64::try_from(PageSize::DEFAULT.get()).unwrap();
                let end = count - if status.is_some() { 4 * page } else { page }; // every fourth has the status
                let after = is_last.then_some(PetId(end));
                let list = ListPets { size: PageSize::DEFAULT, after, status };
                let found = store.list_pets(list).await.unwrap();
                assert_eq!((found.rows.len(), found.next.is_none()), (PageSize::DEFAULT.get(), is_last));
            }
        }
        start.elapsed()
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Adds a part of the animals, each status and none in turn. The parts are small enough for the deadline of one
/// statement.
fn parts(engine: DbBackend, count: i64) -> impl Iterator<Item = String> {
    const PART: i64 = 250_000;
    (0..count).step_by(usize::try_from(PART).unwrap()).map(move |start| {
        let end = (start + PART).min(count);
        let numbers = match engine {
            DbBackend::Sqlite => format!(
                "WITH RECURSIVE numbers (n) AS (SELECT {start} + 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {end})"
            ),
            _ => format!("WITH numbers (n) AS (SELECT generate_series({start} + 1, {end}))"),
        };
        format!(
            "{numbers} INSERT INTO pets (name, category_id, status) SELECT 'Rex', 1, nullif(n % 4, 0) FROM numbers"
        )
    })
}

#[tokio::test]
async fn lists_and_animals_cost_the_same_among_few_and_many_on_sqlite() {
    let comparison = Comparison::of_this_run();
    let ((few, _home), (many, _other_home)) = (new_file().await, new_file().await);
    for (store, count) in [(&few, FEW), (&many, comparison.many)] {
        for part in parts(DbBackend::Sqlite, count) {
            store.writer.execute_unprepared(&part).await.unwrap();
        }
    }
    comparison.compare(&few, &many).await;
}

#[tokio::test]
async fn lists_and_animals_cost_the_same_among_few_and_many_on_postgresql() {
    let comparison = Comparison::of_this_run();
    let ((few, here), (many, there)) = (new_database().await, new_database().await);
    for (database, count) in [(&here, FEW), (&there, comparison.many)] {
        for part in parts(DbBackend::Postgres, count) {
            database.psql(&part).await;
        }
        database.psql("ANALYZE pets").await;
    }
    comparison.compare(&few, &many).await;
    there.remove().await;
}
