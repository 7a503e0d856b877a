//! Whether another controller writes the same slices: two under one name would fight for ever.

use std::time::Duration;

use api::endpointslice::{CONTROLLER_NAME, MANAGED_BY_LABEL};
use api::write::collection;
use api::{EndpointSlice, Timestamp, json};
use kube::Client;
use machine::Time;
use runtime::{RequestError, requests};
use serde_json::Value;

/// The field manager of the controller that clusters run.
const RIVAL: &str = "kube-controller-manager";
/// Listing the slices may take this long.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// A write older than this is no sign that it still runs.
const RECENT: Duration = Duration::from_secs(60);

/// Returns a slice that the controller of the cluster wrote lately, as `namespace/name`; `None`: there is no rival.
pub async fn rival(client: &Client, now: Time) -> Result<Option<String>, RequestError> {
    let ours = format!("{}?labelSelector={MANAGED_BY_LABEL}%3D{CONTROLLER_NAME}", collection::<EndpointSlice>(""));
    let slices: Value = requests::get(client, &ours, LIST_TIMEOUT).await?;
    let key = |slice: &Value| {
        let text = |field| json::text(slice, &["metadata", field]).to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    Ok(json::items(&slices, &["items"]).iter().find(|slice| written_lately(slice, now)).map(key))
}

fn written_lately(slice: &Value, now: Time) -> bool {
    json::items(slice, &["metadata", "managedFields"]).iter().any(|entry| {
        let at = Timestamp::parse(json::text(entry, &["time"])).map(|stamp| stamp.0);
        json::text(entry, &["manager"]) == RIVAL && at.is_ok_and(|at| now.since(at) < RECENT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_recent_write_of_the_cluster_controller_counts() {
        let slice = |manager: &str, time: &str| json!({"metadata": {"managedFields": [{"manager": manager, "time": time}]}});
        let now = Timestamp::parse("2026-01-01T00:01:00Z").unwrap().0;
        assert!(written_lately(&slice(RIVAL, "2026-01-01T00:00:01Z"), now));
        assert!(!written_lately(&slice(RIVAL, "2026-01-01T00:00:00Z"), now), "a minute ago");
        assert!(!written_lately(&slice("lifesign", "2026-01-01T00:00:59Z"), now), "our own");
        assert!(!written_lately(&json!({"metadata": {}}), now));
    }
}
