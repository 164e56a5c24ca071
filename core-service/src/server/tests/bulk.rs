use futures_util::{StreamExt, future::join_all, stream};
use petstore_proto::v1::{
    BatchCreatePetsRequest, ImportLine, ImportPetsRequest, ImportPetsResponse, ListPetsRequest,
};
use petstore_test_servers::eventually;

use super::*;

/// Returns the longest name in bytes.
fn longest() -> String {
    "\u{1F415}".repeat(255)
}

fn line(line: i64, name: &str) -> ImportLine {
    ImportLine { line, pet: new_pet(name, PetStatus::Sold).pet }
}

fn message(lines: Vec<ImportLine>) -> ImportPetsRequest {
    ImportPetsRequest { import_id: "import-1".into(), lines, ..Default::default() }
}

async fn import(shop: &Shop, messages: Vec<ImportPetsRequest>) -> Result<ImportPetsResponse, Status> {
    Ok(shop.client().import_pets(stream::iter(messages)).await?.into_inner())
}

#[tokio::test]
async fn a_thousand_of_the_longest_names_fit_into_a_message_either_way_on_both_transports() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::ZERO).await;
    for mut client in [shop.client(), PetStoreClient::new(server.transport())] {
        let requests = vec![new_pet(&longest(), PetStatus::Sold); 1_000];
        let created =
            client.batch_create_pets(BatchCreatePetsRequest { requests }).await.unwrap().into_inner();
        assert_eq!(created.pets.len(), 1_000);
        assert_eq!(created.pets[999].name, longest());
    }
    let lines = (1..=1_000).map(|number| line(number, &longest())).collect();
    assert_eq!(import(&shop, vec![message(lines)]).await.unwrap().created, 1_000);
}

#[tokio::test]
async fn a_larger_message_is_refused_and_earlier_lines_of_the_stream_stay() {
    let shop = Shop::open().await;
    let huge = "x".repeat(MAX_BULK_MESSAGE);
    let batch = BatchCreatePetsRequest { requests: vec![new_pet(&huge, PetStatus::Sold)] };
    let error = shop.client().batch_create_pets(batch).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error:?}");
    let messages = vec![message(vec![line(1, "Rex")]), message(vec![line(2, &huge)])];
    assert_eq!(import(&shop, messages).await.unwrap_err().code(), Code::OutOfRange);
    assert_eq!(import(&shop, vec![message(vec![])]).await.unwrap().last_line, 1);
}

#[tokio::test]
async fn the_answer_to_an_import_of_only_invalid_lines_fits_into_a_message() {
    let shop = Shop::open().await;
    let faulty = |number| {
        let pet = NewPet { name: "x".repeat(256), status: 9, ..NewPet::default() };
        ImportLine { line: number, pet: Some(pet) }
    };
    let chunks = (0..11).map(|chunk| message((1..=1_000).map(|at| faulty(chunk * 1_000 + at)).collect()));
    let answer = import(&shop, chunks.collect()).await.unwrap();
    assert_eq!((answer.created, answer.rejected, answer.last_line), (0, 11_000, 11_000));
    assert_eq!(answer.rejected_lines.len(), 8_000);
    assert_eq!(answer.rejected_lines[7_999].line, 8_000);
}

#[tokio::test]
async fn a_silent_stream_times_out_and_its_earlier_lines_stay() {
    let mut shop = Shop::open().await;
    shop.core.import_idle_timeout = Duration::from_millis(500);
    let silent = stream::iter([message(vec![line(1, "Rex")])]).chain(stream::pending());
    let error = shop.client().import_pets(silent).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"));
    let pets = shop.client().list_pets(ListPetsRequest::default()).await.unwrap().into_inner().pets;
    assert_eq!(pets.len(), 1);
}

#[tokio::test]
async fn a_stream_has_its_callers_deadline() {
    let shop = Shop::open().await;
    // Each message arrives in time, but the stream never ends.
    let endless = stream::unfold((), async |()| {
        time::sleep(Duration::from_millis(5)).await;
        Some((message(vec![]), ()))
    });
    let mut request = Request::new(endless);
    request.set_timeout(Duration::from_millis(700));
    let error = shop.client().import_pets(request).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error:?}");
}

#[tokio::test]
async fn bulk_calls_wait_and_leave_capacity_to_others() {
    let shop = Shop::open().await;
    let all = shop.core.chunks.acquire_many(u32::try_from(CHUNKS).unwrap()).await.unwrap();
    let mut client = shop.client();
    let batch = BatchCreatePetsRequest { requests: vec![new_pet("Rex", PetStatus::Sold)] };
    let meanwhile = async {
        tokio::task::yield_now().await; // the batch first
        shop.client().create_pet(new_pet("Tom", PetStatus::Sold)).await.unwrap();
        drop(all);
    };
    let (created, ()) = tokio::join!(client.batch_create_pets(batch), meanwhile);
    let created = created.unwrap().into_inner().pets;
    assert_eq!((created[0].id, created[0].name.as_str()), (2, "Rex"));
}

/// A line without a pet takes 2 bytes of a message, and 56 in memory.
#[tokio::test]
async fn a_message_of_too_many_lines_is_refused_before_it_waits() {
    let shop = Shop::open().await;
    let _all = shop.core.chunks.acquire_many(u32::try_from(CHUNKS).unwrap()).await.unwrap();
    let error = import(&shop, vec![message(vec![ImportLine::default(); 1_001])]).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error:?}");
}

#[tokio::test]
async fn idle_imports_leave_capacity_to_other_bulk_calls() {
    let mut shop = Shop::open().await;
    shop.core.import_idle_timeout = Duration::from_mins(1);
    let idle = join_all((0..CHUNKS).map(async |number| {
        let import_id = format!("idle-{number}");
        let first = ImportPetsRequest { import_id, ..message(vec![line(1, "Rex")]) };
        shop.client().import_pets(stream::iter([first]).chain(stream::pending())).await
    }));
    let others = async {
        eventually(Duration::from_secs(20), async || {
            let pets = shop.client().list_pets(ListPetsRequest::default()).await.unwrap().into_inner().pets;
            if pets.len() == CHUNKS { Ok(()) } else { Err(format!("{} are idle", pets.len())) }
        })
        .await;
        assert_eq!(import(&shop, vec![message(vec![line(1, "Tom")])]).await.unwrap().created, 1);
    };
    tokio::select! {
        ended = idle => panic!("{ended:?}"),
        () = others => {}
    }
}
