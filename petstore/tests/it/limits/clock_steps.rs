//! Steps of the clock by which limits are counted: of the service, or of a Redis whose time is that of the
//! test.

use std::time::Duration;

use petstore_testkit::{Client, TestShop};

const HOUR: Duration = Duration::from_hours(1);

/// Sends more requests than the minute allows. Returns the number of those that were admitted.
async fn admitted(client: &Client) -> usize {
    let answers = client.sends(25, "/v1/pets").await;
    answers.iter().filter(|answer| answer.status() == 200).count()
}

#[tokio::test]
async fn a_clock_step_of_an_hour_opens_one_new_minute_and_no_second_day() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let client = shop.client_with(20, 90).await;
    assert_eq!(admitted(&client).await, 20);
    shop.advance(HOUR);
    assert_eq!(admitted(&client).await, 20, "forward");
    shop.turn_back(HOUR);
    assert_eq!(admitted(&client).await, 20, "back: the minute in the future is longer than a minute ahead");
    assert_eq!(admitted(&client).await, 0, "once");
    shop.turn_back(2 * HOUR);
    assert_eq!(admitted(&client).await, 20, "back again");
    shop.advance(6 * HOUR);
    assert_eq!(admitted(&client).await, 10, "the day had 90 requests");
    for step in [HOUR, 3 * HOUR] {
        shop.turn_back(step);
        let refused = client.get("/v1/pets").await;
        refused.assert_error(429, "QUOTA_EXCEEDED");
        assert_eq!(refused.rate().reset, shop.midnight(), "{refused:?}");
    }
}
