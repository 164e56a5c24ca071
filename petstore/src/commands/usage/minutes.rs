//! The requests of an account by minute, of one key or of each by itself.

use petstore_proto::admin::v1::{GetUsageRequest, UsagePeriod};
use serde_json::{Value, json};

use super::{COUNTS, UsageSettings, count_cells, counts_json};
use crate::{admin::written, error::CliError, output::columns};

pub(super) fn run(usage: &UsageSettings, request: GetUsageRequest) -> Result<(), CliError> {
    let minutes =
        usage.settings.call(async |mut client| Ok(client.get_usage(request).await?.into_inner().periods))?;
    usage.settings.print(|| table(&minutes), || minutes.iter().map(json).collect())
}

/// Newest first.
fn table(minutes: &[UsagePeriod]) -> String {
    let has_keys = minutes.iter().any(|minute| !minute.key_id.is_empty());
    let rows: Vec<Vec<_>> = minutes
        .iter()
        .rev()
        .map(|minute| {
            let key = has_keys.then(|| minute.key_id.clone());
            let start = written(minute.start_time.as_ref(), "");
            std::iter::once(start).chain(key).chain(count_cells(minute)).collect()
        })
        .collect();
    let head = if has_keys { &["MINUTE", "KEY"][..] } else { &["MINUTE"] };
    columns(&[head, &COUNTS].concat(), &rows)
}

fn json(minute: &UsagePeriod) -> Value {
    let mut json = counts_json(minute);
    json["minute"] = written(minute.start_time.as_ref(), "").into();
    if !minute.key_id.is_empty() {
        json["key"] = json!(minute.key_id);
    }
    json
}
