use petstore_clock::Clock;

use super::*;
use crate::limit::InProcessLimiter;

const START: UnixMillis = UnixMillis(1_795_200_000_000);
const QUOTA: Quota = Quota { per_minute: 1, per_day: 1_000 };
const LAST: Ban = Ban { from: START, until: START.plus(Duration::from_hours(1)) };

struct Rig {
    limiter: Arc<InProcessLimiter>,
    bans: Bans,
    hand: petstore_clock::ClockHand,
    key_id: Arc<str>,
}

impl Rig {
    fn new() -> Self {
        let (clock, hand) = Clock::manual(START);
        let limiter = Arc::new(InProcessLimiter::new(clock));
        Self { bans: Bans::new(Arc::clone(&limiter) as _), limiter, hand, key_id: "key".into() }
    }

    fn subject(&self) -> Subject {
        Subject::Key { account_id: 1, key_id: Arc::clone(&self.key_id) }
    }

    async fn sends(&self) -> Decision {
        let decision = self.limiter.take(&self.subject(), QUOTA).await.unwrap();
        self.bans.refused(&self.subject(), QUOTA, &decision).await;
        decision
    }

    /// Ignores 429 until it is banned.
    async fn provokes_a_ban(&self) -> Report {
        while self.sends().await.outcome == Outcome::Admitted {}
        self.hand.advance(Duration::from_secs(1));
        while self.sends().await.outcome != Outcome::Banned {}
        let [report] = &self.bans.unreported()[..] else { panic!("one report is due") };
        report.clone()
    }

    async fn told(&self, ban: Option<Ban>, revision: i64) {
        self.bans.told(&self.key_id, ban, stamp(revision), START).await;
    }

    async fn is_banned(&self) -> bool {
        self.limiter.inspect(&self.subject(), QUOTA).await.unwrap().ban().is_some()
    }
}

fn stamp(revision: i64) -> Stamp {
    Stamp { account_id: 1, revision, history: 0, asked_at: START }
}

#[tokio::test]
async fn a_ban_is_to_be_reported_until_the_core_has_answered() {
    let rig = Rig::new();
    let report = rig.provokes_a_ban().await;
    rig.bans.imposed().await;
    rig.sends().await;
    assert_eq!(rig.bans.unreported(), std::slice::from_ref(&report));
    rig.bans.answered(&report, Some(report.ban), stamp(5), START).await;
    assert_eq!(rig.bans.unreported(), []);
    assert!(rig.is_banned().await);
}

#[tokio::test]
async fn a_ban_that_the_core_does_not_know_yet_holds_whatever_it_tells() {
    let rig = Rig::new();
    let report = rig.provokes_a_ban().await;
    rig.told(None, 4).await;
    assert!(rig.is_banned().await);
    rig.bans.answered(&report, Some(report.ban), stamp(5), START).await;
    rig.told(None, 4).await; // asked before the report, answered after it
    assert!(rig.is_banned().await);
    rig.told(None, 6).await; // lifted
    assert!(!rig.is_banned().await);
    rig.told(Some(report.ban), 5).await;
    assert!(!rig.is_banned().await, "an old answer brings nothing back");
}

#[tokio::test]
async fn a_ban_that_was_lifted_before_its_report_came_is_lifted_here_too() {
    let rig = Rig::new();
    let report = rig.provokes_a_ban().await;
    rig.bans.answered(&report, None, stamp(5), START).await;
    assert!(!rig.is_banned().await);
    assert_eq!(rig.bans.unreported(), []);
}

#[tokio::test]
async fn a_ban_of_another_gateway_holds_here() {
    let rig = Rig::new();
    rig.told(Some(LAST), 1).await;
    assert_eq!(rig.sends().await.banned_until, Some(LAST.until));
    assert_eq!(rig.bans.unreported(), [], "the core knows it");
}

#[tokio::test]
async fn a_clock_behind_the_cores_does_not_make_a_ban_void() {
    let rig = Rig::new();
    let ahead = Ban { from: START.plus(Duration::from_secs(10)), ..LAST };
    rig.told(Some(ahead), 1).await;
    assert!(rig.is_banned().await);
}

#[tokio::test]
async fn after_the_core_was_put_back_its_word_counts_again() {
    let rig = Rig::new();
    rig.told(Some(LAST), 100).await;
    let restored = Stamp { history: 1, ..stamp(3) };
    rig.bans.told(&rig.key_id, None, restored, START).await;
    assert!(!rig.is_banned().await);
}

#[tokio::test]
async fn strikes_survive_being_told_that_there_is_no_ban() {
    let rig = Rig::new();
    for _ in 0..3 {
        rig.sends().await;
        rig.hand.advance(Duration::from_secs(1));
    }
    let before = rig.limiter.inspect(&rig.subject(), QUOTA).await.unwrap();
    rig.told(None, 1).await;
    let after = rig.limiter.inspect(&rig.subject(), QUOTA).await.unwrap();
    assert!(before.strikes.is_some() && before.strikes == after.strikes);
}

#[tokio::test]
async fn what_is_over_is_forgotten_as_new_bans_come() {
    let rig = Rig::new();
    for number in 0..1_000_u32 {
        let key_id: Arc<str> = number.to_string().into();
        let now = START.plus(Duration::from_hours(u64::from(number)));
        let ban = Ban { from: now, until: now.plus(Duration::from_hours(1)) };
        rig.bans.told(&key_id, Some(ban), stamp(1), now).await;
    }
    let kept = rig.bans.lock().by_key.len();
    assert!(kept < 2 * FIRST_SWEEP, "{kept} are kept");
}
