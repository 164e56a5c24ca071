//! A queue whose senders are served in turn, however much each of them sends.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Items of one sender keep their order. Senders take turns (round robin), so that one with few items waits
/// for no more than one item of every other.
#[derive(Debug)]
pub(super) struct FairQueue<S, T> {
    by_sender: HashMap<S, VecDeque<T>>,
    /// Those who have an item, each once; who comes next is in front.
    turns: VecDeque<S>,
    len: usize,
}

impl<S, T> Default for FairQueue<S, T> {
    fn default() -> Self {
        Self { by_sender: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<S: Copy + Eq + Hash, T> FairQueue<S, T> {
    pub(super) fn push(&mut self, sender: S, item: T) {
        let items = self.by_sender.entry(sender).or_default();
        if items.is_empty() {
            self.turns.push_back(sender);
        }
        items.push_back(item);
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let sender = self.turns.pop_front()?;
        let items = self.by_sender.get_mut(&sender)?;
        let item = items.pop_front()?;
        if items.is_empty() {
            self.by_sender.remove(&sender);
        } else {
            self.turns.push_back(sender);
        }
        self.len -= 1;
        Some(item)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn senders_take_turns_and_each_ones_items_keep_their_order() {
        let mut queue = FairQueue::default();
        for (sender, item) in [('a', 1), ('a', 2), ('a', 3), ('b', 1), ('c', 1), ('c', 2)] {
            queue.push(sender, (sender, item));
        }
        assert_eq!(queue.len(), 6);
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(popped, [('a', 1), ('b', 1), ('c', 1), ('a', 2), ('c', 2), ('a', 3)]);
        assert_eq!(queue.len(), 0);
        assert!(
            queue.by_sender.is_empty() && queue.turns.is_empty(),
            "nothing is left of those who were served"
        );
    }

    proptest! {
        /// Whatever others send, a sender's first item is popped within as many items as there are senders.
        #[test]
        fn nobody_waits_for_more_than_one_item_of_each_other(sent in vec(0_u8..20, 0..400)) {
            let mut queue = FairQueue::default();
            for sender in &sent {
                queue.push(*sender, *sender);
            }
            queue.push(200, 200);
            let others = sent.iter().collect::<std::collections::HashSet<_>>().len();
            let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
            prop_assert_eq!(popped.len(), sent.len() + 1);
            prop_assert!(popped.iter().position(|sender| *sender == 200).unwrap() <= others);
        }
    }
}
