//! Plan of the faults at single messages.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::{oneshot, watch};

use super::message::Side;

/// Place of a message in the protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageSite {
    /// Verb and first table of the statement that the message belongs to: `BEGIN`, `INSERT pets`; `startup`
    /// before the first, `ping` for a `Sync` on its own.
    pub statement: String,
    /// Sender of the message.
    pub side: Side,
    /// Name of the message in the protocol: `CommandComplete`.
    pub message: &'static str,
}

/// Action on a message, and on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The message arrives later by this time, and so does everything that its sender sends after it.
    Hold(Duration),
    /// Half of the message arrives; the rest, and everything that follows, arrives later by this time.
    Halve(Duration),
    /// The message never arrives: the connection is reset in its place.
    CutBefore,
    /// Half of the message arrives, then the connection is reset.
    CutWithin,
    /// The message arrives, and the connection is reset after it.
    CutAfter,
}

/// Fault at one message, once.
#[derive(Clone, Debug)]
pub struct MessageFault {
    /// Statement of the message; any, if it is `None`.
    pub statement: Option<String>,
    /// Sender of the message.
    pub side: Side,
    /// Name of the message.
    pub message: &'static str,
    /// Number of matching messages that pass before.
    pub skipped: u32,
    /// Action on the message.
    pub action: Action,
}

impl MessageFault {
    /// Returns a fault at the next message of this site.
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

/// Fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Site of the fault.
    pub site: MessageSite,
    /// Action of the fault.
    pub action: Action,
}

/// Shared state of the test and the connections.
#[derive(Debug)]
pub(super) struct Plan {
    state: Mutex<State>,
    /// Number of messages that are held now.
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

    /// Injects the fault as soon as its message arrives. Returns its number, for [`Self::disarm`], and a
    /// receiver of the injection.
    pub(super) fn arm(&self, fault: MessageFault) -> (u64, oneshot::Receiver<Injected>) {
        let (triggered, news) = oneshot::channel();
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        state.armed.push(Armed { number, fault, triggered });
        (number, news)
    }

    /// Removes a fault, if it has not been triggered.
    pub(super) fn disarm(&self, number: u64) {
        self.state().armed.retain(|armed| armed.number != number);
    }

    /// Records that a message is about to be delivered, and returns the action on it. The message counts as
    /// held until the guard is dropped.
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
        let _ = armed.triggered.send(injected); // the receiver may be gone
        Some((armed.fault.action, Holding(self)))
    }

    /// Waits until no message is held.
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

/// Guard of a message that is held.
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
    fn a_fault_without_a_statement_triggers_at_any_and_a_withdrawn_one_never() {
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
