//! API keys: which requests they authenticate, and until when.

mod authentication;
mod expiry;
mod floods;
mod scope;

use std::time::Duration;

use petstore_testkit::{Answer, Client};

/// Time within which a change of a key or an account must act.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two requests, so that a minute's requests last.
const REQUEST_INTERVAL: Duration = Duration::from_millis(100);

/// Sends requests for pets until the answer is as wanted, which it has to be within five seconds. The time is
/// counted in the pauses between the requests: a busy machine is as late with these as with the service's
/// work of every second.
pub(crate) async fn within_five_seconds(client: &Client, is_wanted: impl Fn(&Answer) -> bool) -> Answer {
    let mut paused = Duration::ZERO;
    loop {
        let answer = client.get("/v1/pets").await;
        if is_wanted(&answer) {
            return answer;
        }
        assert!(paused < CHANGE_TIMEOUT, "not within {CHANGE_TIMEOUT:?}; seen last: {answer:?}");
        tokio::time::sleep(REQUEST_INTERVAL).await;
        paused += REQUEST_INTERVAL;
    }
}
