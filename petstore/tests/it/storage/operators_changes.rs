//! Changes that operators make to a PostgreSQL database: they copy rows without their sequences, change a
//! column, and grant few connections.

use petstore_testkit::{
    Answer, Client, Installation, Server, eventually,
    servers::{PostgresOptions, PostgresServer},
};
use serde_json::json;

use crate::{key_without_limits, pets::created, petstore, serve};

async fn add(client: &Client, key: &str) -> Answer {
    let body = json!({"name": "Rex", "categoryId": 1}).to_string();
    let named = [("content-type", "application/json"), ("idempotency-key", key)];
    client.send("POST", "/v1/pets", if key.is_empty() { &named[..1] } else { &named }, body).await
}

async fn shop(url: &str) -> (Installation, Server, Client) {
    let installation = petstore().with_variable("PETSTORE_DATABASE_URL", url);
    let server = installation.start(&serve(&[])).await;
    let client = server.client(&key_without_limits(&installation).await);
    (installation, server, client)
}

#[tokio::test]
async fn rows_copied_without_their_sequences_refuse_no_name_and_one_command_sets_the_sequences_right() {
    let database = PostgresServer::shared().await.database().await;
    let (installation, server, client) = shop(&database.url()).await;
    for table in ["pets", "accounts", "operators"] {
        let columns = "SELECT string_agg(column_name, ', ') FROM information_schema.columns \
                       WHERE is_identity = 'NO' AND is_nullable = 'NO' AND table_name = ";
        let columns = database.psql(&format!("{columns}'{table}'")).await;
        let values = match table {
            "pets" => columns.replace("name", "'Rex'").replace("category_id", "1"),
            _ => columns.replace("name", "'copied' || n").replace("digest", "'x'::bytea || n::text::bytea"),
        };
        let values = values.replace("role", "'viewer'").replace("plan", "'free'");
        let values =
            values.replace("last_four", "'abcd'").replace("created_at", "0").replace("revision", "0");
        let rows = "FROM generate_series((SELECT coalesce(max(id), 0) + 1";
        database
            .psql(&format!(
                "INSERT INTO {table} (id, {columns}) SELECT n, {values} {rows} FROM {table}), 90) AS n"
            ))
            .await;
    }
    for key in ["", "never-used"] {
        add(&client, key).await.assert_error(500, "INTERNAL");
    }
    eventually(std::time::Duration::from_secs(10), async || {
        let log = server.stderr(); // a thread of its own writes it
        if log.contains("run `migrate up`, which sets these right") { Ok(()) } else { Err(log) }
    })
    .await;
    for (command, wrong) in [("account", "already"), ("operator", "already")] {
        let args: &[&str] = if command == "account" { &["--plan", "free"] } else { &["--role", "viewer"] };
        let refused = installation.run(&[&[command, "create", "unheard-of"], args].concat()).await;
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(!refused.stderr.contains(wrong) && refused.stderr.contains("migrate up"), "{refused:?}");
    }
    assert_eq!(installation.run(&["migrate", "up"]).await.code, Some(0));
    for (key, id) in [("", 91), ("never-used", 92), ("never-used", 92)] {
        assert_eq!(created(&add(&client, key).await), id, "{key}");
    }
    for args in [
        ["account", "create", "unheard-of", "--plan", "free"],
        ["operator", "create", "unheard-of", "--role", "viewer"],
    ] {
        let made = installation.run(&args).await;
        assert_eq!(made.code, Some(0), "{made:?}");
        let again = installation.run(&args).await;
        assert!(again.stderr.contains("already"), "{again:?}");
    }
}

#[tokio::test]
async fn clients_do_not_notice_that_a_column_is_changed() {
    let database = PostgresServer::shared().await.database().await;
    let (installation, _server, client) = shop(&database.url()).await;
    installation.write_secret("pets.csv", "name,categoryId\nRex,1\n");
    for (round, kind) in ["text", "varchar", "text"].into_iter().enumerate() {
        database
            .psql(&format!(
                "ALTER TABLE pets ALTER name TYPE {kind}; ALTER TABLE accounts ALTER name TYPE {kind}; \
                 ALTER TABLE api_keys ALTER label TYPE {kind}; \
                 ALTER TABLE imports ALTER import_id TYPE {kind}"
            ))
            .await;
        let id = created(&add(&client, &format!("key-{round}")).await);
        created(&add(&client, "").await);
        for path in
            ["/v1/pets", "/v1/pets?status=sold", &format!("/v1/pets/{id}"), "/v1/store/orders", "/v1/usage"]
        {
            client.get(path).await.assert_status(200);
        }
        let import = ["import", "pets.csv", "--import-id", &format!("round-{round}")];
        let imported = installation.run(&import).await;
        assert_eq!(imported.code, Some(0), "{imported:?}");
    }
}

#[tokio::test]
async fn a_core_with_fewer_connections_than_kinds_of_calls_serves_them_and_says_why_with_none() {
    let postgres = PostgresServer::start(PostgresOptions::default()).await;
    let database = postgres.database().await;
    let role = format!("CREATE ROLE few LOGIN; ALTER DATABASE {} OWNER TO few", database.name());
    postgres.psql(&role).await;
    let url = database.url().replace("postgres://postgres", "postgres://few");
    let (_installation, server, client) = shop(&url).await;
    for limit in [1, 2, 4] {
        postgres.psql(&format!("ALTER ROLE few CONNECTION LIMIT {limit}")).await;
        database.terminate_backends().await;
        eventually(std::time::Duration::from_secs(20), async || match client.get("/v1/pets").await {
            answer if answer.status() == 200 => Ok(()),
            answer => Err(format!("{answer:?}")),
        })
        .await;
        for round in 1..5 {
            let id = created(&add(&client, &format!("{limit}-{round}")).await);
            client.get(&format!("/v1/pets?limit={round}")).await.assert_status(200);
            client.get(&format!("/v1/pets/{id}")).await.assert_status(200);
        }
        server.ready().await;
    }
    postgres.psql("ALTER ROLE few CONNECTION LIMIT 0").await;
    database.terminate_backends().await;
    eventually(std::time::Duration::from_secs(20), async || {
        client.get("/v1/pets").await.assert_error(503, "UNAVAILABLE");
        let unready = server.admin().get("/readyz").await.json();
        let log = server.stderr();
        let is_told = log.contains("too many connections for role");
        if unready["parts"]["database"] == "down" && is_told {
            Ok(())
        } else {
            Err(format!("{unready} {log}"))
        }
    })
    .await;
}
