//! Tests of a real Redis Cluster.

use std::time::Duration;

use petstore_test_servers::{
    eventually,
    servers::{RedisCluster, RedisServer},
};

const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn three_nodes_share_the_slots() {
    let cluster = RedisCluster::start(3).await;
    assert_eq!(cluster.urls().len(), 3);
    let mut owners = Vec::new();
    for key in ["a", "b", "c", "d"] {
        let owners_of_key = owners_of(&cluster, key).await;
        assert_eq!(owners_of_key.len(), 1, "{key} is served by {owners_of_key:?}");
        owners.extend(owners_of_key);
    }
    owners.sort_unstable();
    owners.dedup();
    assert_eq!(owners, [0, 1, 2], "these keys are of all nodes");
    for node in cluster.nodes() {
        let set = ask(node, &["-c", "SET", "a", "1"]).await;
        assert_eq!(set.as_deref(), Ok("OK"), "it sends its clients to the owner");
    }
}

#[tokio::test]
async fn a_cluster_is_down_while_a_node_is_down() {
    let mut cluster = RedisCluster::start(3).await;
    let owner = owners_of(&cluster, "a").await.pop().unwrap();
    assert_eq!(ask(cluster.node(owner), &["SET", "a", "1"]).await.as_deref(), Ok("OK"));

    cluster.node(owner).kill9().await;
    let other = cluster.nodes().get((owner + 1) % 3).unwrap();
    eventually(CHANGE_TIMEOUT, async || {
        let info = other.cli(&["CLUSTER", "INFO"]).await;
        if info.contains("cluster_state:fail") { Ok(()) } else { Err(info) }
    })
    .await;

    cluster.node(owner).restart().await;
    cluster.is_ok().await;
    let set = ask(cluster.node(owner), &["SET", "a", "5"]).await;
    assert_eq!(set.as_deref(), Ok("OK"), "it has its slots again");
}

/// Returns the answer of a node once it considers the cluster complete. After a second in which the nodes
/// received nothing from each other, as on a busy machine, it refuses until they do again.
async fn ask(node: &RedisServer, command: &[&str]) -> Result<String, String> {
    eventually(CHANGE_TIMEOUT, async || match node.try_cli(command).await {
        Err(refusal) if refusal.contains("CLUSTERDOWN") => Err(refusal),
        answer => Ok(answer),
    })
    .await
}

/// Returns the nodes that serve the key themselves.
async fn owners_of(cluster: &RedisCluster, key: &str) -> Vec<usize> {
    let mut owners = Vec::new();
    for (index, node) in cluster.nodes().iter().enumerate() {
        match ask(node, &["EXISTS", key]).await {
            Ok(_) => owners.push(index),
            Err(refusal) => assert!(refusal.starts_with("MOVED"), "{refusal}"),
        }
    }
    owners
}
