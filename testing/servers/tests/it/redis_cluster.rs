//! A real Redis Cluster.

use std::time::Duration;

use petstore_test_servers::{eventually, servers::RedisCluster};

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
        assert_eq!(node.cli(&["-c", "SET", "a", "1"]).await, "OK", "it sends its clients to the owner");
    }
}

#[tokio::test]
async fn a_cluster_is_down_while_a_node_is_and_comes_back_with_it() {
    let mut cluster = RedisCluster::start(3).await;
    let owner = owners_of(&cluster, "a").await.pop().unwrap();
    cluster.node(owner).cli(&["SET", "a", "1"]).await;

    cluster.node(owner).kill9().await;
    let other = cluster.nodes().get((owner + 1) % 3).unwrap();
    eventually(Duration::from_secs(10), async || {
        let info = other.cli(&["CLUSTER", "INFO"]).await;
        if info.contains("cluster_state:fail") { Ok(()) } else { Err(info) }
    })
    .await;

    cluster.node(owner).restart().await;
    cluster.is_ok().await;
    assert_eq!(cluster.node(owner).cli(&["SET", "a", "5"]).await, "OK", "it has its slots again");
}

/// The nodes that serve the key themselves.
async fn owners_of(cluster: &RedisCluster, key: &str) -> Vec<usize> {
    let mut owners = Vec::new();
    for (index, node) in cluster.nodes().iter().enumerate() {
        match node.try_cli(&["EXISTS", key]).await {
            Ok(_) => owners.push(index),
            Err(refusal) => assert!(refusal.starts_with("MOVED"), "{refusal}"),
        }
    }
    owners
}
