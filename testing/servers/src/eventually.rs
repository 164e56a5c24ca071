//! Waiting for a condition instead of for a time.

use std::time::{Duration, Instant};

/// Interval between two checks of the condition.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks until the answer is `Ok`, and returns it. Fails the test with the last error if the deadline has
/// passed. The error says what was seen instead.
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
