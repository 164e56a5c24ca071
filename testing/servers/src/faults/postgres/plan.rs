//! Which messages are to be disturbed, and how.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{oneshot, watch};

use super::message::Side;

/// A place in the protocol where a message can be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageSite {
    /// The verb and first table of the statement that the message belongs to: `BEGIN`, `INSERT pets`;
    /// `startup` before the first, `ping` for a `Sync` on its own.
    pub statement: String,
    /// Who sends it.
    pub side: Side,
    /// The protocol's name of it: `CommandComplete`.
    pub message: &'static str,
}

/// What happens to a message, and to its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It arrives so much later, and so does all that its sender sends after it.
    Hold(Duration),
    /// Half of it arrives; the rest, and all that follows, so much later.
    Halve(Duration),
    /// It never arrives: the connection is reset in its place.
    CutBefore,
    /// Half of it arrives, then the connection is reset.
    CutWithin,
    /// It arrives, and the connection is reset after it.
    CutAfter,
}

/// A fault at one message, once.
#[derive(Clone, Debug)]
pub struct MessageFault {
    /// Of this statement; of any, if it is `None`.
    pub statement: Option<String>,
    /// Whose messages.
    pub side: Side,
    /// With this name.
    pub message: &'static str,
    /// So many that would fit pass before.
    pub skipped: u32,
    /// What happens to it.
    pub action: Action,
}

impl MessageFault {
    /// On the next message at this place.
    #[must_use]
    pub fn at(site: &MessageSite, action: Action) -> Self {
        let MessageSite { statement, side, message } = site.clone();
        Self { statement: Some(statement), side, message, skipped: 0, action }
    }

    fn fits(&self, site: &MessageSite) -> bool {
        self.side == site.side
            && self.message == site.message
            && self.statement.as_ref().is_none_or(|statement| *statement == site.statement)
    }
}

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Where.
    pub site: MessageSite,
    /// How.
    pub action: Action,
}

/// What the test tells the connections, and what they tell it.
#[derive(Debug)]
pub(super) struct Plan {
    state: Mutex<State>,
    /// How many messages are held now.
    holding: watch::Sender<u32>,
}

#[derive(Debug, Default)]
struct State {
    armed: Vec<Armed>,
    next_number: u64,
    seen: BTreeMap<MessageSite, u64>,
    injected: Vec<Injected>,
}

#[derive(Debug)]
struct Armed {
    number: u64,
    fault: MessageFault,
    triggered: oneshot::Sender<Injected>,
}

impl Plan {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), holding: watch::Sender::new(0) }
    }

    /// Injects the fault as soon as its message comes. Its number, to [`Self::disarm`] it, and the news.
    pub(super) fn arm(&self, fault: MessageFault) -> (u64, oneshot::Receiver<Injected>) {
        let (triggered, news) = oneshot::channel();
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        state.armed.push(Armed { number, fault, triggered });
        (number, news)
    }

    /// Takes a fault back, if it has not been triggered.
    pub(super) fn disarm(&self, number: u64) {
        self.state().armed.retain(|armed| armed.number != number);
    }

    /// Takes note that a message is about to be delivered, and tells what is to happen to it. The message
    /// counts as held until the guard is dropped.
    pub(super) fn trigger(&self, site: &MessageSite) -> Option<(Action, Holding<'_>)> {
        let mut state = self.state();
        *state.seen.entry(site.clone()).or_default() += 1;
        let mut chosen = None;
        for (place, armed) in state.armed.iter_mut().enumerate() {
            if armed.fault.fits(site) {
                if armed.fault.skipped == 0 {
                    chosen = Some(place);
                    break;
                }
                armed.fault.skipped -= 1;
            }
        }
        let armed = state.armed.remove(chosen?);
        self.holding.send_modify(|count| *count += 1);
        let injected = Injected { site: site.clone(), action: armed.fault.action };
        state.injected.push(injected.clone());
        let _ = armed.triggered.send(injected); // nobody may wait for it
        Some((armed.fault.action, Holding(self)))
    }

    /// Comes back when no message is held.
    pub(super) async fn nothing_held(&self) {
        let mut holding = self.holding.subscribe();
        holding.wait_for(|count| *count == 0).await.expect("the plan holds the sender");
    }

    pub(super) fn seen(&self) -> BTreeMap<MessageSite, u64> {
        self.state().seen.clone()
    }

    pub(super) fn injected(&self) -> Vec<Injected> {
        self.state().injected.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message is held.
pub(super) struct Holding<'a>(&'a Plan);

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.0.holding.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(statement: &str, message: &'static str) -> MessageSite {
        MessageSite { statement: statement.to_owned(), side: Side::Backend, message }
    }

    fn action(plan: &Plan, site: &MessageSite) -> Option<Action> {
        plan.trigger(site).map(|(action, _)| action)
    }

    #[test]
    fn a_fault_triggers_at_the_nth_message_of_its_kind_once() {
        let plan = Plan::new();
        let begin = site("BEGIN", "CommandComplete");
        let fault = MessageFault { skipped: 1, ..MessageFault::at(&begin, Action::CutBefore) };
        let (_, mut news) = plan.arm(fault);
        for other in [site("COMMIT", "CommandComplete"), site("BEGIN", "ReadyForQuery"), begin.clone()] {
            assert!(plan.trigger(&other).is_none());
        }
        assert!(news.try_recv().is_err());
        assert_eq!(action(&plan, &begin), Some(Action::CutBefore));
        assert_eq!(news.try_recv().unwrap().site, begin);
        assert_eq!(action(&plan, &begin), None);
        assert_eq!((plan.injected().len(), plan.seen()[&begin]), (1, 3));
    }

    #[test]
    fn a_fault_without_a_statement_triggers_at_any_and_one_taken_back_at_none() {
        let plan = Plan::new();
        let begin = site("BEGIN", "CommandComplete");
        let fault = MessageFault { statement: None, ..MessageFault::at(&begin, Action::CutAfter) };
        let (number, _news) = plan.arm(fault.clone());
        plan.disarm(number);
        assert_eq!(action(&plan, &begin), None);
        let (_, _news) = plan.arm(fault);
        assert_eq!(action(&plan, &site("COMMIT", "CommandComplete")), Some(Action::CutAfter));
    }
}
