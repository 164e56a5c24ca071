//! Queue whose senders take turns, regardless of the number of items each of them has.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Round-robin queue. The items of one sender keep their order, and an item waits for at most one item of
/// every other sender before it is its sender's turn.
pub struct FairQueue<S, T> {
    by_sender: HashMap<S, VecDeque<T>>,
    /// Senders with at least one item, each once. The next turn is in front.
    turns: VecDeque<S>,
    len: usize,
}

impl<S, T> Default for FairQueue<S, T> {
    fn default() -> Self {
        Self { by_sender: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<S: Copy + Eq + Hash, T> FairQueue<S, T> {
    /// Adds an item of the sender.
    pub fn push(&mut self, sender: S, item: T) {
        let items = self.by_sender.entry(sender).or_default();
        if items.is_empty() {
            self.turns.push_back(sender);
        }
        items.push_back(item);
        self.len += 1;
    }

    /// Removes the next item of a sender that may have its turn now. The other senders keep their positions.
    pub fn pop(&mut self, may_have_turn: impl Fn(S) -> bool) -> Option<T> {
        let place = self.turns.iter().position(|sender| may_have_turn(*sender))?;
        let sender = self.turns.remove(place)?;
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

    /// Returns the number of turns until a new item of the sender has had its own. Later items of senders
    /// with fewer may still come before it.
    pub fn turns_until_served(&self, sender: S) -> usize {
        let (own, others) = match self.by_sender.get(&sender) {
            Some(items) => (items.len(), self.turns.len() - 1),
            None => (0, self.turns.len()),
        };
        let rounds = own + 1;
        rounds.saturating_mul(others + 1).min(self.len + 1)
    }

    /// Returns `true` if there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of items of all senders.
    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn senders_take_turns_and_items_of_a_sender_keep_their_order() {
        let mut queue = FairQueue::default();
        for (sender, item) in [('a', 1), ('a', 2), ('a', 3), ('b', 1), ('c', 1), ('c', 2)] {
            queue.push(sender, (sender, item));
        }
        assert_eq!(queue.len(), 6);
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop(|_| true)).collect();
        assert_eq!(popped, [('a', 1), ('b', 1), ('c', 1), ('a', 2), ('c', 2), ('a', 3)]);
        assert_eq!(queue.len(), 0);
        assert!(
            queue.by_sender.is_empty() && queue.turns.is_empty(),
            "nothing is left of those who were served"
        );
    }

    #[test]
    fn a_sender_that_is_passed_over_keeps_its_place() {
        let mut queue = FairQueue::default();
        for (sender, item) in [('a', 1), ('b', 1), ('a', 2)] {
            queue.push(sender, (sender, item));
        }
        assert_eq!(queue.pop(|sender| sender != 'a'), Some(('b', 1)));
        assert_eq!(queue.pop(|sender| sender != 'a'), None);
        assert_eq!((queue.pop(|_| true), queue.len()), (Some(('a', 1)), 1));
    }

    #[test]
    fn a_new_item_waits_for_the_items_of_its_sender_and_as_many_of_each_other() {
        let mut queue = FairQueue::default();
        assert_eq!(queue.turns_until_served('a'), 1);
        for sender in ['a', 'a', 'a', 'b'] {
            queue.push(sender, ());
        }
        assert_eq!(['a', 'b', 'c'].map(|sender| queue.turns_until_served(sender)), [5, 4, 3]);
    }

    proptest! {
        /// Tests that a sender's first item is popped within as many items as there are senders, regardless
        /// of the items of others.
        #[test]
        fn an_item_waits_for_at_most_one_item_of_each_other_sender(sent in vec(0_u8..20, 0..400)) {
            let mut queue = FairQueue::default();
            for sender in &sent {
                queue.push(*sender, *sender);
            }
            queue.push(200, 200);
            let others = sent.iter().collect::<std::collections::HashSet<_>>().len();
            let popped: Vec<_> = std::iter::from_fn(|| queue.pop(|_| true)).collect();
            prop_assert_eq!(popped.len(), sent.len() + 1);
            prop_assert!(popped.iter().position(|sender| *sender == 200).unwrap() <= others);
        }
    }
}
