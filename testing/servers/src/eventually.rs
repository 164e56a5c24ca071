//! Waits for a condition instead of for a fixed time.

use std::time::{Duration, Instant};

/// Interval between two checks of the condition.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Repeats the check until its result is `Ok`, and returns that. Fails the test with the last error if the
/// deadline has passed. The error states what was seen instead.
pub async fn eventually<T>(deadline: Duration, mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    let start = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(seen) => {
                assert!(start.elapsed() < deadline, "not within {deadline:?}; seen last: {seen}");
            }
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}
