//! Real Redis Cluster.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use super::{
    program::run,
    redis::{HINT, RedisOptions, RedisServer},
    supervised::SERVER_TIMEOUT,
};
use crate::eventually;

/// Time after which Redis gives up a `CLUSTER FAILOVER` (five seconds), and some more.
const MANUAL_FAILOVER_TIMEOUT: Duration = Duration::from_secs(6);

/// Several `redis-server`s on 127.0.0.1 that share the slots; killed when dropped.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts this number of nodes (Redis requires at least three), joins them and waits until each serves.
    pub async fn start(nodes: usize) -> Self {
        let nodes = futures_util::future::join_all((0..nodes).map(|_| RedisServer::start(options()))).await;
        let cluster = Self { nodes };
        cluster.join().await;
        cluster
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns one node, to pause, kill or restart.
    pub fn node(&mut self, index: usize) -> &mut RedisServer {
        self.nodes.get_mut(index).unwrap_or_else(|| panic!("there is no node {index}"))
    }

    /// Returns the nodes' URLs. A client needs one; several help it if one node is down.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// Adds a replica of a node as the last node, and waits until it has the data, and it and the others know
    /// each other.
    pub async fn add_replica(&mut self, primary: usize) {
        let replica = RedisServer::start(options()).await;
        let address = self.node(primary).address();
        let id = self.node(primary).cli(&["CLUSTER", "MYID"]).await;
        replica.cli(&["CLUSTER", "MEET", &address.ip().to_string(), &address.port().to_string()]).await;
        eventually(SERVER_TIMEOUT, async || replica.try_cli(&["CLUSTER", "REPLICATE", &id]).await).await;
        let timeout = self.node(primary).cli(&["CONFIG", "GET", "cluster-node-timeout"]).await;
        let timeout = timeout.lines().last().unwrap_or_default();
        replica.cli(&["CONFIG", "SET", "cluster-node-timeout", timeout]).await;
        shows(&replica, &["INFO", "replication"], "master_link_status:up").await;
        let entry = format!("slave {id}");
        for node in &self.nodes {
            shows(node, &["CLUSTER", "NODES"], &entry).await;
        }
        // It has met one node, and hears of the others from that. Before, it cannot ask them for their votes.
        let primaries = format!("cluster_size:{}", self.nodes.len());
        shows(&replica, &["CLUSTER", "INFO"], &primaries).await;
        self.nodes.push(replica);
    }

    /// Promotes a replica: with `CLUSTER FAILOVER`, in agreement with its primary, or with that command's
    /// option `FORCE` without it. Waits until all nodes that run agree.
    pub async fn promote(&self, replica: usize, options: &[&str]) {
        let replica = self.nodes.get(replica).expect("a node of the cluster");
        let port = replica.address().port();
        let mut requested_at = None::<Instant>;
        eventually(SERVER_TIMEOUT * 4, async || {
            let role = replica.cli(&["ROLE"]).await;
            if !role.starts_with("master") {
                // On a busy machine a request may fail, and nodes may follow another primary again.
                if requested_at.is_none_or(|at| at.elapsed() > MANUAL_FAILOVER_TIMEOUT) {
                    requested_at = Some(Instant::now());
                    replica.cli(&[&["CLUSTER", "FAILOVER"], options].concat()).await;
                }
                return Err(role);
            }
            for node in &self.nodes {
                match node.try_cli(&["CLUSTER", "NODES"]).await {
                    Ok(nodes) if !nodes.lines().any(|line| is_primary_with_slots(line, port)) => {
                        return Err(format!("{nodes}{}", replica.cli(&["CLUSTER", "NODES"]).await));
                    }
                    Ok(_) | Err(_) => {} // one that does not answer does not run
                }
            }
            Ok(())
        })
        .await;
    }

    fn pair(&self, from_and_to: [usize; 2]) -> [&RedisServer; 2] {
        from_and_to.map(|index| self.nodes.get(index).expect("a node of the cluster"))
    }

    /// Returns the slot of a key, or of the text between its braces.
    pub async fn slot_of(&self, key: &str) -> String {
        self.nodes.first().expect("a node").cli(&["CLUSTER", "KEYSLOT", key]).await
    }

    /// Begins to move a slot: the second node makes its new keys.
    pub async fn begin_to_move(&self, slot: &str, from_and_to: [usize; 2]) {
        let [source, target] = self.pair(from_and_to);
        let [source_id, target_id] =
            [source.cli(&["CLUSTER", "MYID"]).await, target.cli(&["CLUSTER", "MYID"]).await];
        target.cli(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &source_id]).await;
        source.cli(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &target_id]).await;
    }

    /// Moves the keys of a slot that is being moved.
    pub async fn move_keys(&self, slot: &str, from_and_to: [usize; 2]) {
        let [source, target] = self.pair(from_and_to);
        let keys = source.cli(&["CLUSTER", "GETKEYSINSLOT", slot, "1000"]).await;
        let (ip, port) = (target.address().ip().to_string(), target.address().port().to_string());
        let migrate = ["MIGRATE", &ip, &port, "", "0", "10000", "KEYS"];
        let keys: Vec<_> = keys.lines().filter(|key| !key.is_empty()).collect();
        if !keys.is_empty() {
            source.cli(&[&migrate, &keys[..]].concat()).await;
        }
    }

    /// Ends the move of a slot, whose keys have been moved.
    pub async fn end_move(&self, slot: &str, from_and_to: [usize; 2]) {
        let [source, target] = self.pair(from_and_to);
        let id = target.cli(&["CLUSTER", "MYID"]).await;
        for node in [target, source] {
            node.cli(&["CLUSTER", "SETSLOT", slot, "NODE", &id]).await;
        }
    }

    /// Waits until every node says that all slots are served.
    pub async fn is_ok(&self) {
        for node in &self.nodes {
            shows(node, &["CLUSTER", "INFO"], "cluster_state:ok").await;
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

fn options() -> RedisOptions {
    RedisOptions {
        settings: vec![
            ("cluster-enabled", "yes"),
            // A node that is away for this many milliseconds is marked as failed, and with it the whole
            // cluster.
            ("cluster-node-timeout", "1000"),
            ("repl-diskless-sync-delay", "0"),
        ],
        ..RedisOptions::default()
    }
}

/// Waits until the answer of a node contains a text.
async fn shows(node: &RedisServer, command: &[&str], text: &str) {
    eventually(SERVER_TIMEOUT, async || {
        let answer = node.try_cli(command).await?;
        if answer.contains(text) { Ok(()) } else { Err(answer) }
    })
    .await;
}

/// Returns `true` if a line of `CLUSTER NODES` is that of the primary at this port, and it has slots.
fn is_primary_with_slots(line: &str, port: u16) -> bool {
    let fields: Vec<_> = line.split(' ').collect();
    let [_, address, flags, _, _, _, _, _, _, ..] = fields[..] else { return false };
    address.contains(&format!(":{port}@")) && flags.contains("master")
}
