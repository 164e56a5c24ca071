//! Real Redis Cluster.

use std::net::SocketAddr;

use super::{
    program::run,
    redis::{HINT, RedisOptions, RedisServer},
    supervised::SERVER_TIMEOUT,
};
use crate::eventually;

/// Several `redis-server`s on 127.0.0.1 that share the slots, without replicas; killed when dropped.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts this number of nodes (Redis requires at least three), joins them and waits until each serves.
    pub async fn start(nodes: usize) -> Self {
        let options = RedisOptions {
            // A node that is away for this many milliseconds is marked as failed, and with it the whole
            // cluster.
            settings: vec![("cluster-enabled", "yes"), ("cluster-node-timeout", "1000")],
            ..RedisOptions::default()
        };
        let nodes =
            futures_util::future::join_all((0..nodes).map(|_| RedisServer::start(options.clone()))).await;
        let cluster = Self { nodes };
        cluster.join().await;
        cluster
    }

    /// Returns the nodes.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns one node, to pause, kill or restart.
    #[must_use]
    pub fn node(&mut self, index: usize) -> &mut RedisServer {
        self.nodes.get_mut(index).unwrap_or_else(|| panic!("there is no node {index}"))
    }

    /// Returns the nodes' URLs. A client needs one; several help it if one node is down.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// Waits until every node says that all slots are served.
    pub async fn is_ok(&self) {
        for node in &self.nodes {
            eventually(SERVER_TIMEOUT, async || {
                let info = node.try_cli(&["CLUSTER", "INFO"]).await?;
                if info.contains("cluster_state:ok") { Ok(()) } else { Err(info) }
            })
            .await;
        }
    }

    async fn join(&self) {
        let addresses =
            self.nodes.iter().map(RedisServer::address).map(|address: SocketAddr| address.to_string());
        let mut create = tokio::process::Command::new("redis-cli");
        create.args(["--cluster", "create"]).args(addresses).args([
            "--cluster-replicas",
            "0",
            "--cluster-yes",
        ]);
        run(create, HINT).await.unwrap_or_else(|error| panic!("redis-cli --cluster create: {error}"));
        self.is_ok().await;
    }
}
