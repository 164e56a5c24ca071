//! Batched reads of pets.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use petstore_test_servers::{Engine, Home};
use sea_orm::QueryTrait;

use super::*;
use crate::{
    pages::{Page, PageSize},
    pets::{NewPet, Pet, PetId, PetStatus},
    store::{Store, test_support::new_store},
};

/// Returns a store with `count` pets, of each status and none in turn.
async fn filled(count: usize) -> (Store, Home) {
    let (store, home) = new_store().await;
    let pets = (0..count).map(|number| {
        let status = PetStatus::from_number(i64::try_from(number % 4).unwrap());
        store.pets.insert_pet(NewPet { status, ..NewPet::named(&format!("pet {number}")) })
    });
    for added in join_all(pets).await {
        added.unwrap();
    }
    (store, home)
}

/// Returns the store and a counter of the statements that it has sent.
fn counted(mut store: Store) -> (Store, Arc<AtomicUsize>) {
    let count = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&count);
    store.observe(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    (store, count)
}

/// Returns different lists: all statuses, positions and sizes.
fn lists() -> Vec<ListPets> {
    let mut lists = Vec::new();
    for status in [None].into_iter().chain(PetStatus::ALL.map(Some)) {
        for after in [None, Some(PetId(7)), Some(PetId(38)), Some(PetId(i64::MAX))] {
            for size in [1, 3, 100] {
                lists.push(ListPets { size: PageSize::parse(size).unwrap(), after, status });
            }
        }
    }
    lists
}

#[tokio::test]
async fn waiting_lists_are_few_statements_of_bounded_size() {
    let (store, _home) = filled(40).await;
    let (store, sent) = counted(store);
    let lists = lists();
    for page in join_all(lists.iter().map(|list| store.pets.list_pets(*list))).await {
        page.unwrap();
    }
    let rows: usize = lists.iter().map(|list| list.size.get() + 1).sum();
    let bound = usize::try_from(MOST_ROWS).unwrap();
    let batches = rows.div_ceil(bound);
    let most = match store.database().writer().backend() {
        DbBackend::Postgres => batches,
        _ => lists.len() / SQLITE_PAGES + batches,
    };
    let sent = sent.load(Ordering::Relaxed);
    assert!((batches..=most).contains(&sent), "{sent} statements for {rows} rows");
}

#[tokio::test]
async fn equal_waiting_lists_are_read_once() {
    let (store, _home) = filled(5).await;
    let (store, sent) = counted(store);
    let list = ListPets { size: PageSize::DEFAULT, after: None, status: None };
    let pages: Vec<Page<Pet>> =
        join_all((0..50).map(|_| store.pets.list_pets(list))).await.into_iter().map(Result::unwrap).collect();
    assert!(pages.iter().all(|page| page.rows.len() == 5 && *page == pages[0]), "{pages:?}");
    assert_eq!(sent.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn pets_read_in_one_batch_are_the_requested_ones() {
    let (store, _home) = filled(30).await;
    let (store, sent) = counted(store);
    let ids = [7, 1, 31, 7, -1, 30, 0, i64::MAX, i64::MIN, 12];
    let found = join_all(ids.map(|id| store.pets.find_pet(PetId(id)))).await;
    for (id, found) in ids.into_iter().zip(found) {
        assert_eq!(found.unwrap().map(|pet| pet.id.0), (1..=30).contains(&id).then_some(id));
    }
    assert_eq!(sent.load(Ordering::Relaxed), 1);
    let many = (0..i64::try_from(2 * MOST_PETS).unwrap()).map(|id| store.pets.find_pet(PetId(id)));
    assert_eq!(join_all(many).await.into_iter().filter(|found| matches!(found, Ok(Some(_)))).count(), 30);
    assert_eq!(sent.load(Ordering::Relaxed), 3, "and it is bounded how many");
}

#[tokio::test]
async fn a_found_pet_is_cached_and_a_missing_one_is_not() {
    let (store, _home) = filled(2).await;
    let (store, sent) = counted(store.with_pet_cache(1_000));
    let find =
        async |id| store.pets.find_pet(PetId(id)).await.unwrap().map(|pet| pet.name.as_str().to_owned());
    for _ in 0..3 {
        assert_eq!(find(1).await.as_deref(), Some("pet 0"));
    }
    assert_eq!(sent.load(Ordering::Relaxed), 1);
    assert_eq!(find(3).await, None);
    let added = store.pets.insert_pet(NewPet::named("Rex")).await.unwrap();
    assert_eq!((added.id, find(3).await.as_deref()), (PetId(3), Some("Rex")));
}

/// Returns a page of the status, or of every status for 0.
fn of_status(status: i16) -> Rows {
    Rows { status, after: 1, limit: 20 }
}

/// Tests that a plan that was made once is right for all values, even if it was made while the table was
/// empty.
#[tokio::test]
async fn generic_plans_use_an_index_on_postgresql() {
    if Engine::of_this_run() != Engine::Postgres {
        return;
    }
    let (mut store, home) = new_store().await;
    let Home::Database(database) = &home else { unreachable!() };
    for settings in [
        store.pets.gets.primary().connections(),
        store.pets.lists.primary().connections(),
        store.pets.creates.connections(),
    ] {
        let show = Statement::from_string(DbBackend::Postgres, "SHOW plan_cache_mode");
        let mode: String = settings.query_all_raw(show).await.unwrap()[0].try_get_by_index(0).unwrap();
        assert_eq!(mode, "force_generic_plan");
    }
    let fill = "INSERT INTO pets (name, category_id, status) \
                SELECT 'Rex', 1, nullif(n % 4, 0) FROM generate_series(1, 20000) n";
    for before in ["SELECT 1", fill] {
        database.psql(before).await;
        database.psql("ANALYZE pets").await;
        let plans = database
            .psql(&format!(
                "SET plan_cache_mode = force_generic_plan; \
                 SET enable_seqscan = off; SET enable_bitmapscan = off; \
                 PREPARE gets (bigint[]) AS {}; EXPLAIN EXECUTE gets('{{1,2}}'); \
                 PREPARE lists (smallint[], bigint[], bigint[]) AS {}; \
                 EXPLAIN EXECUTE lists('{{0,1}}', '{{1,1}}', '{{9,9}}'); \
                 PREPARE get (bigint, bigint) AS {}; EXPLAIN EXECUTE get(1, 1); \
                 PREPARE list (bigint, bigint) AS {}; EXPLAIN EXECUTE list(1, 9); \
                 PREPARE of_status (smallint, smallint, bigint, bigint) AS {}; \
                 EXPLAIN EXECUTE of_status(1, 1, 1, 9)",
                get_pets(DbBackend::Postgres, &[1]).sql,
                list_pets_on_postgres(&[of_status(0)]).sql,
                get_pet(1).limit(1).build(DbBackend::Postgres).sql,
                of_status(0).select(DbBackend::Postgres).build(DbBackend::Postgres).sql,
                of_status(1).select(DbBackend::Postgres).build(DbBackend::Postgres).sql,
            ))
            .await;
        assert_eq!(plans.matches("Index Scan using pets_pkey on pets").count(), 4, "{plans}");
        assert_eq!(plans.matches("Index Scan using pets_status_id on pets").count(), 2, "{plans}");
        assert!(
            plans.contains("Index Cond: ((status <= wanted_1.status) AND (ROW(status, id) > "),
            "{plans}"
        );
        assert!(!plans.contains("Sort") && !plans.contains("Seq Scan"), "{plans}");
    }
}

#[test]
fn lists_read_in_one_batch_have_few_statement_texts_on_sqlite() {
    // Each connection keeps the statements of all texts prepared, at 3 kB for each page in them.
    let mut texts = std::collections::HashSet::new();
    for count in 1..=MOST_PAGES {
        for of_one_status in 0..=count {
            let lists: Vec<_> =
                (0..count).map(|number| of_status(i16::from(number < of_one_status))).collect();
            texts.extend(lists.chunks(SQLITE_PAGES).map(|lists| list_pets_on_sqlite(lists).sql));
        }
    }
    assert_eq!(texts.len(), (1..=SQLITE_PAGES).map(|pages| pages + 1).sum::<usize>());
}
