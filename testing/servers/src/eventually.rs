//! Waiting for a condition instead of for a time.

use std::time::{Duration, Instant};

/// How often the condition is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is `Ok`, and gives it back; fails the test with the last refusal when the deadline
/// has passed. The refusal says what was seen instead.
pub async fn eventually<T>(deadline: Duration, mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(seen) => {
                assert!(start.elapsed() < deadline, "not within {deadline:?}; seen last: {seen}");
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
