//! Another PostgreSQL server takes over behind one address, and the service continues without a restart.

use std::{collections::HashSet, time::Duration};

use petstore_testkit::{
    Client, Installation, Random, Server, eventually,
    faults::Proxy,
    history::{BUSY_DEADLINE, Conditions, all_pets},
    servers::{Database, PostgresOptions, PostgresServer},
};
use serde_json::json;

use super::durability::Load;
use crate::{
    key_without_limits,
    pets::{created, ids, next_link},
    petstore, rounds, serve,
    split::part_is,
};

/// Timeout of a change on a busy machine.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_has_everything_acknowledged_and_the_service_continues_on_it() {
    let mut random = Random::of_this_run();
    for round in 0..rounds(1, 10) {
        println!("round {round}, PETSTORE_TEST_SEED={}", random.seed());
        let mut pair = Pair::start().await;
        let (server, key) = pair.serve().await;
        let client = server.client(&key);
        let first: Vec<_> = [created(&add(&client).await), created(&add(&client).await)].into();
        let page = client.get("/v1/pets?limit=1").await;
        assert_eq!(ids(&page), first[..1]);

        let load = Load::start(&server, &key);
        tokio::time::sleep(random.between(Duration::from_millis(100), Duration::from_millis(600))).await;
        pair.primary.kill9().await;
        pair.address.lead_to(pair.standby.address());
        // The standby answers, and takes no writes yet.
        for _ in 0..3 {
            add(&client).await.assert_error(503, "UNAVAILABLE");
        }
        let before = load.history.acknowledged();
        pair.promote().await;
        eventually(CHANGE_TIMEOUT, async || {
            if load.history.acknowledged() > before { Ok(()) } else { Err("nothing is added".to_owned()) }
        })
        .await;
        let records = load.stop().await;

        let mut stored = all_pets(server.address("gRPC")).await;
        let distinct: HashSet<_> = stored.iter().map(|pet| pet.id).collect();
        assert_eq!(distinct.len(), stored.len(), "no identifier is assigned twice");
        assert!(first.iter().all(|id| distinct.contains(id)), "{first:?}");
        stored.retain(|pet| !pet.name.eq("Rex"));
        let conditions =
            Conditions { stored: Some(stored), deadline: Some(BUSY_DEADLINE), ..Conditions::default() };
        let report = conditions.check(&records);
        println!("{report}");
        report.assert_clean();
        let next = client.get(&next_link(&page).unwrap()).await;
        assert_eq!(ids(&next), first[1..], "a cursor stays valid");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_writes_leave_a_primary_that_was_made_read_only_for_its_successor() {
    let pair = Pair::start().await;
    let (server, key) = pair.serve().await;
    let client = server.client(&key);
    let first = created(&add(&client).await);
    client.sends_at_once(20, &format!("/v1/pets/{first}")).await; // every connection is open

    pair.primary.psql("ALTER SYSTEM SET default_transaction_read_only = on").await;
    pair.primary.psql("SELECT pg_reload_conf()").await;
    part_is(&server, "database", "degraded", "read_only").await; // without a write of a client
    part_is(&server, "core", "degraded", "database_not_writable").await;
    eventually(CHANGE_TIMEOUT, async || match add(&client).await {
        refused if refused.status() == 503 => Ok(()),
        added => Err(format!("{added:?}")),
    })
    .await;
    let kept = pair.database.psql("SELECT count(*) FROM pets").await;
    for _ in 0..5 {
        add(&client).await.assert_error(503, "UNAVAILABLE");
        client.get(&format!("/v1/pets/{first}")).await.assert_status(200);
    }
    pair.is_caught_up().await;
    pair.promote().await;
    // Open connections stay, as when a name or an address moves while the old server runs.
    pair.address.lead_to(pair.standby.address());

    part_is(&server, "database", "ok", "").await;
    eventually(CHANGE_TIMEOUT, async || match add(&client).await {
        added if added.status() == 201 => Ok(()),
        refused => Err(format!("{refused:?}")),
    })
    .await;
    for _ in 0..10 {
        let id = created(&add(&client).await);
        for found in client.sends_at_once(8, &format!("/v1/pets/{id}")).await {
            found.assert_status(200);
        }
        assert!(ids(&client.get("/v1/pets?limit=100").await).contains(&id));
    }
    assert_eq!(pair.database.psql("SELECT count(*) FROM pets").await, kept, "the old primary gets no pet");
    server.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_creation_is_not_acknowledged_before_the_standby_has_it() {
    const TIMES: usize = 2;
    let mut pair = Pair::start().await;
    let (server, key) = pair.serve().await;
    let client = server.client(&key);
    created(&add(&client).await);

    pair.standby.pause();
    let once = client.with_header("idempotency-key", "once");
    for _ in 0..TIMES {
        let answer = add(&once).await;
        assert!(matches!(answer.status(), 409 | 503 | 504), "the standby may lack it: {answer:?}");
        tokio::time::sleep(Duration::from_millis(1_200)).await; // all pass every timeout of core and server
    }
    pair.standby.resume();
    let id = eventually(CHANGE_TIMEOUT, async || match add(&once).await {
        added if added.status() == 201 => Ok(created(&added)),
        refused => Err(format!("{refused:?}")),
    })
    .await;
    pair.primary.kill9().await;
    pair.address.lead_to(pair.standby.address());
    pair.promote().await;
    eventually(CHANGE_TIMEOUT, async || match client.get(&format!("/v1/pets/{id}")).await {
        found if found.status() == 200 => Ok(()),
        refused => Err(format!("{refused:?}")),
    })
    .await;
    assert_eq!(created(&add(&once).await), id);
}

/// Primary whose commits wait for a standby, and an address that leads to the primary.
struct Pair {
    primary: PostgresServer,
    standby: PostgresServer,
    database: Database,
    address: Proxy,
}

impl Pair {
    async fn start() -> Self {
        let primary = PostgresServer::start(PostgresOptions::default()).await;
        let database = primary.database().await;
        let standby = PostgresServer::start_replica(&primary).await;
        // After the standby has copied the settings, so that it waits for none.
        primary.psql("ALTER SYSTEM SET synchronous_standby_names = '*'").await;
        primary.psql("SELECT pg_reload_conf()").await;
        eventually(CHANGE_TIMEOUT, async || {
            match primary.psql("SELECT sync_state FROM pg_stat_replication").await {
                state if state == "sync" => Ok(()),
                state => Err(state),
            }
        })
        .await;
        let address = Proxy::to(primary.address()).await;
        Self { primary, standby, database, address }
    }

    /// Starts the service at the address. Returns it with a key.
    async fn serve(&self) -> (Server, String) {
        let url = self.database.url_at(self.address.address());
        let installation: Installation = petstore().with_variable("PETSTORE_DATABASE_URL", &url);
        let server = installation.start(&serve(&[])).await;
        let key = key_without_limits(&installation).await;
        (server, key)
    }

    /// Waits until the standby has everything of the primary, which no longer takes writes.
    async fn is_caught_up(&self) {
        let written = self.primary.psql("SELECT pg_current_wal_lsn()").await;
        let question = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        eventually(CHANGE_TIMEOUT, async || match self.standby.psql(&question).await {
            answer if answer == "t" => Ok(()),
            answer => Err(answer),
        })
        .await;
    }

    async fn promote(&self) {
        assert_eq!(self.standby.psql("SELECT pg_promote()").await, "t");
    }
}

async fn add(client: &Client) -> petstore_testkit::Answer {
    client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await
}
