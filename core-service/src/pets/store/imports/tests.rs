use petstore_clock::UnixMillis;

use super::*;
use crate::{
    pages::PageSize,
    pets::{ListPets, NewPet, PetStatus},
    store::{
        Store,
        test_support::{new_store, open},
    },
};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

fn new_pet(name: &str, status: Option<PetStatus>) -> NewPet {
    NewPet { category_id: -7, status, ..NewPet::named(name) }
}

fn chunk(lines: impl IntoIterator<Item = i64>) -> ImportChunk {
    let lines: Vec<_> =
        lines.into_iter().map(|line| (line, new_pet(&format!("line {line}"), None))).collect();
    let last_line = lines.last().map_or(0, |(line, _)| *line);
    ImportChunk { lines, last_line }
}

fn id() -> String {
    "import-1".to_owned()
}

async fn names(store: &Store) -> Vec<String> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = store.pets.list_pets(ListPets { size: PageSize::MAX, after, status: None }).await.unwrap();
        names.extend(page.rows.iter().map(|pet| pet.name.as_str().to_owned()));
        after = page.rows.last().map(|pet| pet.id);
        if page.next.is_none() {
            return names;
        }
    }
}

#[tokio::test]
async fn an_import_adds_each_line_once_despite_repetitions() {
    let (store, _home) = new_store().await;
    assert_eq!(store.pets.import_progress(&id()).await.unwrap(), ImportProgress::default());
    for (lines, created, last_line, in_all) in [
        (1..=3, 3, 3, 3),
        (1..=3, 0, 3, 3), // the answer was lost
        (2..=5, 2, 5, 5), // cut elsewhere than before
        (8..=8, 1, 8, 6), // lines between had nothing to be added
        (6..=7, 0, 8, 6), // too late: the import has passed them
    ] {
        let imported = store.pets.import_chunk(&id(), chunk(lines), NOW).await.unwrap();
        assert_eq!(imported, (created, ImportProgress { last_line, created: in_all }));
        assert_eq!(store.pets.import_progress(&id()).await.unwrap(), imported.1);
    }
    let expected = [1, 2, 3, 4, 5, 8].map(|line| format!("line {line}"));
    assert_eq!(names(&store).await, expected);
    let other = "import-2".to_owned();
    assert_eq!(store.pets.import_chunk(&other, chunk(1..=2), NOW).await.unwrap().0, 2, "another import");
}

#[tokio::test]
async fn a_chunk_without_pets_moves_the_position() {
    let (store, _home) = new_store().await;
    let empty = ImportChunk { lines: Vec::new(), last_line: 9 };
    let imported = store.pets.import_chunk(&id(), empty, NOW).await.unwrap();
    assert_eq!(imported, (0, ImportProgress { last_line: 9, created: 0 }));
    assert!(names(&store).await.is_empty());
}

#[tokio::test]
async fn concurrent_imports_of_the_same_lines_add_them_once() {
    let (store, home) = new_store().await;
    let other = open(&home).await;
    let senders = (0..6).map(|number| {
        let store = if number % 2 == 0 { store.clone() } else { other.clone() };
        tokio::spawn(async move {
            let mut created = 0;
            for first in (1..=200).step_by(50) {
                // A busy database may refuse a chunk. The client then sends it again.
                loop {
                    match store.pets.import_chunk(&id(), chunk(first..first + 50), NOW).await {
                        Ok((more, _)) => break created += more,
                        Err(PetStoreError::Unavailable(_)) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }
            created
        })
    });
    let mut created = 0;
    for sender in senders.collect::<Vec<_>>() {
        created += sender.await.unwrap();
    }
    assert_eq!(created, 200);
    assert_eq!(names(&store).await, (1..=200).map(|line| format!("line {line}")).collect::<Vec<_>>());
}
