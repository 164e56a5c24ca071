use std::time::Duration;

use petstore_clock::Clock;

use super::{records::FIRST_SWEEP, *};
use crate::rate_limit::InProcessLimiter;

const START: UnixMillis = UnixMillis(1_795_200_000_000);
const QUOTA: Quota = Quota { per_minute: 1, per_day: 1_000 };
const LAST: BanPeriod = BanPeriod { from: START, until: START.plus(Duration::from_hours(1)) };

struct Rig {
    limiter: Arc<InProcessLimiter>,
    bans: Bans,
    clock: Clock,
    hand: petstore_clock::ManualClock,
    key_id: Arc<str>,
}

impl Rig {
    fn new() -> Self {
        let (clock, hand) = Clock::manual(START);
        let limiter = Arc::new(InProcessLimiter::new(clock.clone()));
        Self { bans: Bans::new(Arc::clone(&limiter) as _), limiter, clock, hand, key_id: "key".into() }
    }

    fn limit_key(&self) -> LimitKey {
        LimitKey::ApiKey { account_id: 1, key_id: Arc::clone(&self.key_id) }
    }

    async fn takes(&self) -> Decision {
        self.limiter.take(&self.limit_key(), QUOTA).await.unwrap()
    }

    async fn settles(&self, decision: Decision) -> (Decision, BanCause) {
        self.bans.settle(&self.limit_key(), QUOTA, decision).await.unwrap()
    }

    async fn sends(&self) -> Decision {
        self.settles(self.takes().await).await.0
    }

    /// Goes on until one more refused request brings a ban.
    async fn comes_close_to_a_ban(&self) {
        while self.sends().await.outcome == Outcome::Admitted {}
        self.hand.advance(Duration::from_secs(1));
        for _ in 0..100 {
            assert_ne!(self.sends().await.outcome, Outcome::Banned);
        }
    }

    /// Ignores 429 until it is banned.
    async fn provokes_a_ban(&self) -> BanReport {
        self.comes_close_to_a_ban().await;
        assert_eq!(self.sends().await.outcome, Outcome::Banned);
        self.report()
    }

    fn report(&self) -> BanReport {
        let [report] = &self.bans.unreported()[..] else { panic!("one report is due") };
        report.clone()
    }

    async fn set_from_core(&self, told: Option<LastBan>, revision: i64) {
        self.bans.set_from_core(&self.key_id, told, stamp(revision), self.clock.now()).await;
    }

    async fn is_banned(&self) -> bool {
        self.limiter.inspect(&self.limit_key(), QUOTA).await.unwrap().ban().is_some()
    }

    /// As Redis does without persistence, or a process that restarts.
    async fn limiter_loses(&self) {
        self.limiter.set_ban(&self.limit_key(), None, UnixMillis(u64::MAX)).await.unwrap();
    }

    /// As Redis does from an old snapshot.
    async fn limiter_brings_back(&self, ban: BanPeriod) {
        self.limiter.set_ban(&self.limit_key(), Some(ban), UnixMillis(u64::MAX)).await.unwrap();
    }
}

fn stamp(revision: i64) -> Stamp {
    Stamp { account_id: 1, revision, history: 0, asked_at: START }
}

#[expect(clippy::unnecessary_wraps, reason = "as the core's answer is read")]
fn by_limiter(ban: BanPeriod) -> Option<LastBan> {
    Some(LastBan::Banned(ban, BanCause::IgnoredRefusals))
}

#[expect(clippy::unnecessary_wraps, reason = "as the core's answer is read")]
fn by_operator(ban: BanPeriod) -> Option<LastBan> {
    Some(LastBan::Banned(ban, BanCause::Operator(Some("a leak".into()))))
}

#[expect(clippy::unnecessary_wraps, reason = "as the core's answer is read")]
fn lifted(at: UnixMillis) -> Option<LastBan> {
    Some(LastBan::Lifted(at))
}

#[tokio::test]
async fn a_ban_is_to_be_reported_until_the_core_has_answered() {
    let rig = Rig::new();
    let report = rig.provokes_a_ban().await;
    rig.bans.new_ban().await;
    rig.sends().await;
    assert_eq!(rig.bans.unreported(), std::slice::from_ref(&report));
    rig.bans.report_accepted(&report, by_limiter(report.ban), stamp(5), START).await;
    assert_eq!(rig.bans.unreported(), []);
    assert!(rig.is_banned().await);
}

#[tokio::test]
async fn nothing_told_between_the_decision_and_the_note_erases_the_new_ban() {
    for told in [
        None,
        by_limiter(BanPeriod { from: START.minus(Duration::from_hours(2)), until: START }),
        lifted(START.minus(Duration::from_hours(1))),
    ] {
        let rig = Rig::new();
        rig.comes_close_to_a_ban().await;
        let decision = rig.takes().await;
        assert_eq!(decision.outcome, Outcome::Banned);
        rig.set_from_core(told.clone(), 7).await; // asked before the ban
        let (settled, cause) = rig.settles(decision).await;
        assert_eq!((settled.ban, cause), (decision.ban, BanCause::IgnoredRefusals), "{told:?}");
        assert_eq!(Some(rig.report().ban), decision.ban);
        assert!(rig.is_banned().await, "{told:?}");
    }
}

#[tokio::test]
async fn a_ban_that_the_core_does_not_know_yet_holds_whatever_it_tells() {
    let rig = Rig::new();
    let report = rig.provokes_a_ban().await;
    rig.set_from_core(None, 4).await;
    assert!(rig.is_banned().await);
    rig.bans.report_accepted(&report, by_limiter(report.ban), stamp(5), START).await;
    rig.set_from_core(None, 4).await; // asked before the report, answered after it
    assert!(rig.is_banned().await);
    rig.set_from_core(lifted(report.ban.from), 6).await;
    assert!(!rig.is_banned().await);
    rig.set_from_core(by_limiter(report.ban), 5).await;
    assert!(!rig.is_banned().await, "an old answer brings nothing back");
}

#[tokio::test]
async fn a_ban_that_was_lifted_before_its_report_came_is_lifted_here_too() {
    for answer in [None, lifted(START.plus(Duration::from_secs(30)))] {
        let rig = Rig::new();
        let report = rig.provokes_a_ban().await;
        rig.bans.report_accepted(&report, answer, stamp(5), START).await;
        assert!(!rig.is_banned().await);
        assert_eq!(rig.bans.unreported(), []);
    }
}

#[tokio::test]
async fn a_lifting_reaches_a_ban_that_was_not_reported_yet() {
    let rig = Rig::new();
    let report = rig.provokes_a_ban().await;
    rig.set_from_core(lifted(report.ban.from), 6).await;
    assert!(!rig.is_banned().await);
    assert_eq!(rig.bans.unreported(), []);
    // Sent before, answered late
    rig.bans.report_accepted(&report, by_limiter(report.ban), stamp(5), START).await;
    assert!(!rig.is_banned().await);
}

#[tokio::test]
async fn of_an_operators_ban_and_a_newer_one_here_the_core_chooses() {
    let rig = Rig::new();
    let report = rig.provokes_a_ban().await;
    let kept = BanPeriod { from: START, until: START.plus(Duration::from_hours(24)) };
    rig.set_from_core(by_operator(kept), 4).await;
    assert_eq!(rig.bans.unreported(), std::slice::from_ref(&report), "it does not know of the newer one");
    rig.bans.report_accepted(&report, by_operator(kept), stamp(5), START).await;
    let (decision, cause) = rig.settles(rig.takes().await).await;
    assert_eq!((decision.ban, cause), (Some(kept), BanCause::Operator(Some("a leak".into()))));
}

#[tokio::test]
async fn a_limiter_that_lost_a_ban_is_put_right_by_the_first_request() {
    let rig = Rig::new();
    rig.set_from_core(by_operator(LAST), 1).await;
    rig.limiter_loses().await;
    let decision = rig.takes().await;
    assert_eq!(decision.outcome, Outcome::Admitted);
    let (settled, cause) = rig.settles(decision).await;
    assert_eq!((settled.ban, cause), (Some(LAST), BanCause::Operator(Some("a leak".into()))));
    assert!(rig.is_banned().await);
    rig.hand.set(LAST.until);
    assert_eq!(rig.sends().await.outcome, Outcome::Admitted, "what is over is not brought back");
}

#[tokio::test]
async fn a_limiter_that_brings_back_what_was_lifted_or_replaced_is_put_right_by_the_first_request() {
    let rig = Rig::new();
    rig.set_from_core(by_limiter(LAST), 1).await;
    rig.set_from_core(lifted(LAST.from), 2).await;
    rig.limiter_brings_back(LAST).await;
    let decision = rig.takes().await;
    assert_eq!(decision.outcome, Outcome::Banned);
    assert_eq!(rig.settles(decision).await.0.minute.remaining, 0, "it is admitted and counted");
    assert!(!rig.is_banned().await);
    assert_eq!(rig.bans.unreported(), []);

    let newer =
        BanPeriod { from: START.plus(Duration::from_secs(1)), until: START.plus(Duration::from_mins(9)) };
    rig.hand.advance(Duration::from_secs(2));
    rig.set_from_core(by_operator(newer), 3).await;
    rig.limiter_brings_back(LAST).await;
    assert_eq!(rig.sends().await.ban, Some(newer));
    rig.hand.set(newer.until);
    rig.limiter_brings_back(LAST).await;
    assert_eq!(rig.sends().await.outcome, Outcome::Admitted, "what replaced it is over");
}

#[tokio::test]
async fn a_ban_that_another_gateway_put_into_the_shared_limiter_is_reported_and_blamed_on_nobody() {
    let rig = Rig::new();
    rig.limiter_brings_back(LAST).await;
    let (decision, cause) = rig.settles(rig.takes().await).await;
    assert_eq!((decision.ban, cause), (Some(LAST), BanCause::Unknown));
    let report = rig.report();
    rig.bans.report_accepted(&report, by_operator(LAST), stamp(5), START).await;
    let (_, cause) = rig.settles(rig.takes().await).await;
    assert_eq!(cause, BanCause::Operator(Some("a leak".into())));
}

#[tokio::test]
async fn a_ban_of_another_gateway_holds_here() {
    let rig = Rig::new();
    rig.set_from_core(by_limiter(LAST), 1).await;
    assert_eq!(rig.sends().await.ban, Some(LAST));
    assert_eq!(rig.bans.unreported(), [], "the core knows it");
}

#[tokio::test]
async fn a_clock_behind_the_cores_does_not_make_a_ban_void() {
    let rig = Rig::new();
    let ahead = BanPeriod { from: START.plus(Duration::from_secs(10)), ..LAST };
    rig.set_from_core(by_operator(ahead), 1).await;
    assert!(rig.is_banned().await);
    rig.sends().await;
    assert_eq!(rig.bans.unreported(), [], "it is the same ban");
}

#[tokio::test]
async fn after_the_core_was_put_back_its_word_counts_again() {
    let rig = Rig::new();
    rig.set_from_core(by_limiter(LAST), 100).await;
    let restored = Stamp { history: 1, ..stamp(3) };
    rig.bans.set_from_core(&rig.key_id, None, restored, START).await;
    assert!(!rig.is_banned().await);
}

#[tokio::test]
async fn strikes_survive_being_told_that_there_is_no_ban() {
    let rig = Rig::new();
    for _ in 0..3 {
        rig.sends().await;
        rig.hand.advance(Duration::from_secs(1));
    }
    let before = rig.limiter.inspect(&rig.limit_key(), QUOTA).await.unwrap();
    rig.set_from_core(None, 1).await;
    rig.set_from_core(lifted(START), 2).await;
    let after = rig.limiter.inspect(&rig.limit_key(), QUOTA).await.unwrap();
    assert!(before.strikes.is_some() && before.strikes == after.strikes);
}

#[tokio::test]
async fn what_is_over_is_forgotten_as_new_bans_come() {
    let rig = Rig::new();
    for number in 0..1_000_u32 {
        let key_id: Arc<str> = number.to_string().into();
        let now = START.plus(Duration::from_hours(u64::from(number)));
        let ban = BanPeriod { from: now, until: now.plus(Duration::from_hours(1)) };
        rig.bans.set_from_core(&key_id, by_limiter(ban), stamp(1), now).await;
    }
    let kept = rig.bans.read().by_key.len();
    assert!(kept < 2 * FIRST_SWEEP, "{kept} are kept");
}
