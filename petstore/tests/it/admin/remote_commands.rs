//! The operator's commands, on the store itself and through a core on another machine.

use std::time::Duration;

use petstore_testkit::eventually;
use serde_json::{Value, json};

use super::{FIRST_TOKEN, TwoMachines};
use crate::{ACCOUNT, key_of_new_account, petstore};

#[tokio::test]
async fn every_command_says_the_same_on_the_store_and_from_another_machine() {
    let machines = TwoMachines::start().await;
    let key = key_of_new_account(&machines.service).await;
    let keys = machines.json(&["key", "list", "--account", ACCOUNT]).await;
    let id = keys["keys"][0]["id"].as_str().unwrap();
    assert!(key.ends_with(keys["keys"][0]["lastFour"].as_str().unwrap()), "{keys}");
    assert!(key.starts_with(keys["keys"][0]["prefix"].as_str().unwrap()), "{keys}");
    let listed = machines.run(&["key", "list", "--account", ACCOUNT]).await.stdout;
    assert!(listed.contains("BEGINS WITH  ENDS IN") && listed.contains("pet_live_"), "{listed}");
    machines.json(&["ban", "add", id, "--for", "1h", "--reason", "open invoice"]).await;
    let unknown = "018f0000-0000-7000-8000-000000000000";
    for args in [
        ["account", "list"].as_slice(),
        &["account", "list", "--name", "NOBOD", "--plan", "pro", "--suspended"],
        &["usage", "--account", ACCOUNT, "--by", "minute", "--by-key", "--last", "2h"],
        &["usage", "--account", ACCOUNT, "--by", "minute", "--key", id],
        &["account", "show", ACCOUNT],
        &["account", "show", "nobody"],
        &["account", "create", ACCOUNT, "--plan", "free"],
        &["account", "set-plan", "nobody", "--plan", "free"],
        &["key", "list"],
        &["key", "list", "--account", "nobody"],
        &["key", "show", id],
        &["key", "show", unknown],
        &["key", "revoke", unknown],
        &["key", "create", "--account", ACCOUNT, "--label", "two\nlines"],
        &["ban", "list"],
        &["ban", "lift", unknown],
        &["usage", "--account", ACCOUNT],
        &["usage", "--account", "nobody"],
        &["operator", "create", "first", "--role", "admin"],
        &["operator", "revoke", "nobody"],
    ] {
        for form in ["text", "json"] {
            let args = [args, &["--output", form]].concat();
            let (here, there) = (machines.service.run(&args).await, machines.run(&args).await);
            assert_eq!(
                (here.code, &here.stdout, &here.stderr),
                (there.code, &there.stdout, &there.stderr),
                "{args:?}"
            );
            let is_refusal = args.contains(&"nobody") || args.contains(&unknown) || args[1] == "create";
            assert_eq!(here.code == Some(0), !is_refusal, "{args:?}: {here:?}");
        }
    }
}

#[tokio::test]
async fn remote_commands_change_accounts_and_the_audit_names_the_operator() {
    let machines = TwoMachines::start().await;
    machines.json(&["account", "create", "acme", "--plan", "pro"]).await;
    let created = machines.json(&["key", "create", "--account", "acme", "--label", "till 3"]).await;
    assert_eq!(created["key"]["label"], "till 3", "{created}");
    let client = machines.server.client(created["apiKey"].as_str().unwrap());
    client.get("/v1/pets").await.assert_status(200);
    machines.json(&["account", "rename", "acme", "acme-2"]).await;
    machines.json(&["account", "suspend", "acme-2", "--reason", "open invoice"]).await;
    let shown = machines.json(&["account", "show", "acme-2"]).await;
    assert_eq!((&shown["plan"], &shown["suspendReason"]), (&"pro".into(), &"open invoice".into()), "{shown}");
    let resumed = machines.json(&["account", "resume", "acme-2"]).await;
    assert!(resumed["suspendTime"].is_null(), "{resumed}");

    let here = machines.service.run(&["account", "set-plan", "acme-2", "--plan", "free"]).await;
    assert_eq!(here.code, Some(0), "{here:?}");
    let events = &machines.json(&["audit", "--account", "acme-2"]).await["events"];
    let listed: Vec<_> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (event["operator"].as_str().unwrap(), event["action"].as_str().unwrap()))
        .collect();
    assert_eq!(
        listed[..4],
        [
            ("local", "UpdateAccount"),
            ("first", "ResumeAccount"),
            ("first", "SuspendAccount"),
            ("first", "UpdateAccount")
        ],
        "{events}"
    );
    let shown = machines.run(&["audit", "--account", "acme-2", "--limit", "1"]).await;
    assert!(shown.stdout.contains("  plan: pro -> free, "), "{shown:?}");
    let time = shown.stdout.lines().nth(1).and_then(|line| line.split_whitespace().next());
    assert_eq!(time.map(str::len), Some("2026-11-22T09:00:00.123Z".len()), "{shown:?}");
    let all = machines.json(&["audit", "--operator", "first", "--limit", "2"]).await;
    assert_eq!(all["events"].as_array().map(Vec::len), Some(2), "{all}");
    let everything = machines.json(&["audit"]).await.to_string();
    assert!(!everything.contains(&created["apiKey"].as_str().unwrap()[9..40]), "{everything}");
    let text = machines.run(&["audit", "--last", "1h"]).await;
    assert!(text.stdout.lines().any(|line| line.contains("SuspendAccount")), "{text:?}");
}

#[tokio::test]
async fn a_command_prints_the_json_that_the_admin_api_answers() {
    let machines = TwoMachines::start().await;
    key_of_new_account(&machines.service).await;
    let id = crate::only_key_id(&machines.service, ACCOUNT).await;
    machines.json(&["ban", "add", &id, "--for", "1h", "--reason", "open invoice"]).await;
    let token = machines.service.read(FIRST_TOKEN);
    let api = machines.server.admin().with_header("authorization", &format!("Bearer {}", token.trim()));
    let (account, key) = (format!("accounts/{ACCOUNT}"), format!("keys/{id}"));
    let usage = format!("{account}/usage?interval=minute&byKey=true");
    for (args, path) in [
        (["account", "list"].as_slice(), "accounts"),
        (&["account", "list", "--plan", "pro"], "accounts?plan=pro"),
        (&["account", "show", ACCOUNT], &account),
        (&["key", "list"], "keys"),
        (&["key", "show", &id], &key),
        (&["ban", "list"], "bans"),
        (&["operator", "list"], "operators"),
        (&["usage", "--account", ACCOUNT], &format!("{account}/usage")),
        (&["usage", "--account", ACCOUNT, "--by", "minute", "--by-key"], &usage),
        (&["deprecation"], "deprecated-use"),
        (
            &["deprecation", "--account", ACCOUNT, "--by", "key"],
            &format!("deprecated-use?account={ACCOUNT}&by=key"),
        ),
        (&["explain", "--account", ACCOUNT], &format!("refusals?account={ACCOUNT}")),
        (&["audit", "--limit", "3"], "audit-events?pageSize=3"),
    ] {
        let printed = machines.json(args).await;
        let mut answered = api.get(&format!("/admin/v1/{path}")).await.assert_status(200).json();
        if args[0] == "explain" {
            answered.as_object_mut().unwrap().remove("limits").expect("which only a gateway knows");
        }
        assert_eq!(printed, answered, "{args:?}");
    }
}

#[tokio::test]
async fn an_invalid_or_readable_token_file_is_refused_and_not_repeated() {
    let machines = TwoMachines::start().await;
    let key = machines.service.read("data/first-api-key");
    machines.desk.write_secret("key", &key);
    std::fs::write(machines.desk.folder().join("open"), machines.service.read(FIRST_TOKEN)).unwrap();
    for (file, right) in [("key", "must hold one operator token"), ("open", "0600"), ("none", "no such file")]
    {
        let exit = machines.run_with(file, &["account", "list"]).await;
        assert_eq!(exit.code, Some(2), "{exit:?}");
        assert!(exit.stderr.contains("--operator-token-file: ") && exit.stderr.contains(right), "{exit:?}");
        assert!(!exit.stderr.contains(key.trim()), "{exit:?}");
    }
    let exit = machines.desk.run(&["account", "list", "--core-url", &machines.core_url]).await;
    assert_eq!(exit.code, Some(2), "{exit:?}");
    assert_eq!(exit.stderr, "error: --operator-token-file: is required with --core-url\n");
    let args = ["account", "list", "--core-url", "http://127.0.0.1:1", "--operator-token-file", "token"];
    let exit = machines.desk.run(&args).await;
    assert_eq!(exit.code, Some(1), "{exit:?}");
    assert!(exit.stderr.starts_with("error: cannot reach the core: "), "{exit:?}");
}

#[tokio::test]
async fn remote_commands_explain_refusals_and_show_the_load() {
    let machines = TwoMachines::start().await;
    let client = machines.server.client(&key_of_new_account(&machines.service).await);
    client.get("/v1/pets").await.assert_status(200);
    machines.json(&["account", "suspend", ACCOUNT, "--reason", "open invoice"]).await;
    let mut refused = client.get("/v1/pets").await;
    eventually(Duration::from_secs(15), async || {
        // The interval is long enough that the minute's requests last: no other cause may be refused more
        // often.
        tokio::time::sleep(Duration::from_millis(300)).await;
        refused = client.get("/v1/pets").await;
        if refused.status() == 403 { Ok(()) } else { Err(format!("{refused:?}")) }
    })
    .await;
    let id = refused.header("x-request-id");
    let mut explanations = json!([]);
    eventually(Duration::from_secs(20), async || {
        let exit = machines.run(&["explain", id, "--output", "json"]).await;
        explanations = serde_json::from_str::<Value>(&exit.stdout).unwrap()["explanations"].clone();
        if exit.code == Some(0) { Ok(()) } else { Err(format!("{exit:?}")) }
    })
    .await;
    assert_eq!(
        (&explanations[0]["cause"], &explanations[0]["account"]),
        (&json!("account_suspended"), &json!(ACCOUNT))
    );
    let text = machines.run(&["explain", id]).await.stdout;
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], format!("Account {ACCOUNT}: suspended."), "{text}");
    assert!(lines[1].starts_with("  in force, reason open invoice, since 20"), "{text}");
    assert!(lines[1].ends_with(&format!(", request {id}")), "{text}");
    let remedy = "  An account that is suspended can be resumed; its keys work again within 5 seconds.";
    assert_eq!(lines[2..], [remedy], "{text}");
    let of_account = machines.run(&["explain", "--account", ACCOUNT]).await.stdout;
    assert!(of_account.starts_with(&format!("Account {ACCOUNT}: suspended.\n")), "{of_account}");

    let overview = machines.json(&["overview", "--minutes", "5"]).await;
    assert_eq!(overview["minutes"].as_array().map(Vec::len), Some(5), "{overview}");
    assert_eq!(overview["refusals"][0]["cause"], "account_suspended", "{overview}");
    let text = machines.run(&["overview"]).await.stdout;
    let heads: Vec<_> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(["MINUTE", "REFUSED", "ACCOUNT"].iter().all(|head| heads.contains(head)), "{text}");
}

#[tokio::test]
async fn without_a_token_a_command_uses_the_store_even_if_a_core_is_set() {
    let installation = petstore().with_variable("PETSTORE_CORE_URL", "http://127.0.0.1:1");
    assert_eq!(installation.run(&["migrate", "up"]).await.code, Some(0));
    let none = json!({ "accounts": [], "nextPageToken": "", "totalSize": 0 });
    assert_eq!(installation.json(&["account", "list"]).await, none);
}
