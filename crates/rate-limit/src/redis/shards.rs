//! Parts of Redis that may fail independently: the one server, or each shard of a Cluster.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::RwLock;
use redis::{Value, cluster_routing::Slot};

use super::{
    RedisSettings,
    batch::StepQueue,
    connection::RedisConnection,
    error::RedisCallError,
    step::{Reply, Step},
};
use crate::LimitKey;

/// The one server, or a shard of a Cluster.
pub(crate) struct Shard {
    /// Address of the shard's primary, as the Cluster reports it; empty for the one server, and for the slots
    /// that no node serves.
    pub(crate) node: Arc<str>,
    /// Connection on which the shard's calls are made.
    pub(super) connection: Arc<RedisConnection>,
    /// Queue of the one server, whose waiting decisions share calls. In a Cluster each decision is a separate
    /// call, pipelined, because a call may touch only one slot.
    queue: Option<StepQueue>,
    probe: Step,
}

impl Shard {
    /// Runs the step.
    pub(super) async fn run(&self, mut step: Step) -> Result<Reply, RedisCallError> {
        if let Some(queue) = &self.queue {
            return queue.run(step).await;
        }
        // A separate task, so that a connection is made even if that takes longer than a decision may.
        let connection = Arc::clone(&self.connection);
        let call = tokio::spawn(async move {
            match connection.run(std::slice::from_ref(&step)).await {
                Err(RedisCallError::SlotMoving) => {
                    // While a slot moves, no node has both keys, because most keys of accounts have no abuse
                    // state. Windows and limits stay exact, but refusals are not strikes.
                    step.abuse = None;
                    connection.run(&[step]).await
                }
                replies => replies,
            }
        });
        let ends = |_| Err(RedisCallError::Unreachable("the process ends".into()));
        let mut replies = call.await.unwrap_or_else(ends)?;
        replies.pop().unwrap_or(Err(RedisCallError::Protocol))
    }

    /// Decides on a request that belongs to no account.
    pub(super) async fn probe(&self) -> Result<Reply, RedisCallError> {
        self.run(self.probe.clone()).await
    }
}

/// All shards.
pub(crate) struct Shards {
    /// The one server, or a Cluster of which nothing else is known yet. Its connection is for calls that
    /// belong to no shard.
    pub(super) whole: Arc<Shard>,
    cluster: Option<Cluster>,
}

struct Cluster {
    settings: RedisSettings,
    known: RwLock<KnownShards>,
}

#[derive(Default)]
struct KnownShards {
    /// First slot, last slot and primary of each range, as the Cluster reported them.
    ranges: Vec<(u16, u16, Arc<str>)>,
    by_node: HashMap<Arc<str>, Arc<Shard>>,
    by_slot: HashMap<Slot, Arc<Shard>>,
}

impl Shards {
    /// Creates the shards that these settings name.
    ///
    /// # Errors
    /// The fault of the URLs, if they do not belong together.
    pub(super) fn new(settings: RedisSettings) -> Result<Self, &'static str> {
        let is_cluster = settings.urls.len() > 1;
        let connection = Arc::new(RedisConnection::new(settings.clone())?);
        let probe = Step::probe(settings.key_prefix, "probe");
        let queue = (!is_cluster).then(|| StepQueue::new(Arc::clone(&connection)));
        let cluster = is_cluster.then(|| Cluster { settings, known: RwLock::default() });
        Ok(Self { whole: Arc::new(Shard { node: "".into(), connection, queue, probe }), cluster })
    }

    /// Returns the shard that keeps the counters of `limit_key`.
    pub(crate) fn of(&self, limit_key: &LimitKey) -> Arc<Shard> {
        let Some(cluster) = &self.cluster else { return Arc::clone(&self.whole) };
        let slot = Slot::for_key(&Step::read("", limit_key).owner); // with any installation
        let known = cluster.known.read();
        Arc::clone(known.by_slot.get(&slot).unwrap_or(&self.whole))
    }

    /// Returns all shards that are known, or the placeholder for them.
    pub(super) fn all(&self) -> Vec<Arc<Shard>> {
        let Some(cluster) = &self.cluster else { return vec![Arc::clone(&self.whole)] };
        let known = cluster.known.read();
        if known.by_node.is_empty() {
            return vec![Arc::clone(&self.whole)];
        }
        known.by_node.values().cloned().collect()
    }

    /// Asks a Cluster for its shards.
    pub(super) async fn learn(&self) -> Result<(), RedisCallError> {
        let Some(cluster) = &self.cluster else { return Ok(()) };
        let answer = self.whole.connection.send(redis::cmd("CLUSTER").arg("SLOTS")).await?;
        let ranges = slot_ranges(&answer);
        let mut known = cluster.known.write();
        if known.ranges != ranges {
            *known = cluster.shards(ranges, &known.by_node);
        }
        Ok(())
    }
}

impl Cluster {
    /// Returns the shards with these slots. The slots that no node serves are a shard too, whose probes tell
    /// when that ends. Shards that were there before keep their connection. A connection to a Cluster is
    /// disturbed by calls to each node that is down, so each shard has a separate one.
    fn shards(
        &self,
        ranges: Vec<(u16, u16, Arc<str>)>,
        before: &HashMap<Arc<str>, Arc<Shard>>,
    ) -> KnownShards {
        let mut slots = HashMap::<Arc<str>, HashSet<Slot>>::new();
        for number in 0..16_384 {
            let owner = ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&number));
            let node = owner.map(|(.., node)| Arc::clone(node)).unwrap_or_default();
            slots.entry(node).or_default().extend(Slot::new(number));
        }
        let mut known = KnownShards { ranges, ..KnownShards::default() };
        for (node, own) in slots {
            let Some(shard) = self.shard(&node, &own, before.get(&node)).map(Arc::new) else { continue };
            known.by_slot.extend(own.into_iter().map(|slot| (slot, Arc::clone(&shard))));
            known.by_node.insert(node, shard);
        }
        known
    }

    /// Returns the shard of a node, with a probe in the slots that it has now, on the connection that it had
    /// before.
    fn shard(&self, node: &Arc<str>, own: &HashSet<Slot>, before: Option<&Arc<Shard>>) -> Option<Shard> {
        let mut tags = (0..1_000_000_u32).map(|number| format!("probe{number}"));
        let tag = tags.find(|tag| own.contains(&Slot::for_key(tag)))?;
        let connection = match before {
            Some(shard) => Arc::clone(&shard.connection),
            None => Arc::new(RedisConnection::new(self.settings.clone()).ok()?),
        };
        let probe = Step::probe(self.settings.key_prefix, &tag);
        Some(Shard { node: Arc::clone(node), connection, queue: None, probe })
    }
}

/// Parses the answer to `CLUSTER SLOTS`: the first and last slot of each range, and the primary's address.
fn slot_ranges(answer: &Value) -> Vec<(u16, u16, Arc<str>)> {
    let Value::Array(ranges) = answer else { return Vec::new() };
    let read = |range: &Value| {
        let Value::Array(range) = range else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &range[..] else {
            return None;
        };
        let host = match primary.first()? {
            Value::BulkString(host) => String::from_utf8_lossy(host).into_owned(),
            _ => String::new(), // the host that answered
        };
        let Value::Int(port) = primary.get(1)? else { return None };
        Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, format!("{host}:{port}").into()))
    };
    ranges.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RedisDeadlines;

    #[tokio::test]
    async fn a_node_whose_slots_moved_is_probed_in_those_it_has_now_on_its_connection_and_so_is_a_gap() {
        let urls = ["redis://127.0.0.1:1", "redis://127.0.0.1:2"].map(|url| url.parse().unwrap());
        let deadlines = RedisDeadlines::default();
        let settings = RedisSettings { urls: urls.into(), key_prefix: "pet:", deadlines, clock: None };
        let shards = Shards::new(settings).unwrap();
        let cluster = shards.cluster.unwrap();
        let ranges =
            |ranges: [(u16, u16, &str); 2]| ranges.map(|(first, last, node)| (first, last, node.into()));
        let before = cluster.shards(ranges([(0, 8_191, "a"), (8_192, 16_383, "b")]).into(), &HashMap::new());
        let after = cluster.shards(ranges([(0, 8_191, "b"), (8_192, 16_383, "a")]).into(), &before.by_node);
        let gaps = cluster.shards(ranges([(1_000, 8_191, "b"), (8_193, 15_000, "a")]).into(), &after.by_node);
        for (known, nodes) in [(&before, 2), (&after, 2), (&gaps, 3)] {
            assert_eq!((known.by_node.len(), known.by_slot.len()), (nodes, 16_384));
            for (node, shard) in &known.by_node {
                assert_eq!(known.by_slot[&Slot::for_key(&shard.probe.owner)].node, *node);
            }
        }
        for (node, shard) in &after.by_node {
            assert!(Arc::ptr_eq(&shard.connection, &before.by_node[node].connection), "{node}");
        }
        for slot in [0, 999, 8_192, 15_001, 16_383] {
            assert_eq!(&*gaps.by_slot[&Slot::new(slot).unwrap()].node, "");
        }
        // Its calls fail, and a failure drops the connection, which would keep the map from being learned.
        assert!(!Arc::ptr_eq(&gaps.by_node[""].connection, &shards.whole.connection));
    }
}
