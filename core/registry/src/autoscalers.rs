//! One autoscaler, two versions: they are stored as `autoscaling/v2`, and `autoscaling/v1` shows what it has a field for.

use api::json;
use serde_json::{Value, json};

/// Returns an autoscaler of version 2 as version 1; other metrics than the use of CPU are not shown there.
pub fn to_v1(mut autoscaler: Value) -> Value {
    let use_of = |path: [&str; 2], target: &str| {
        let metrics = json::items(&autoscaler, &path).iter();
        let cpu = metrics.into_iter().find(|metric| json::text(metric, &["resource", "name"]) == "cpu")?;
        json::int(cpu, &["resource", target, "averageUtilization"])
    };
    let target = use_of(["spec", "metrics"], "target");
    let current = use_of(["status", "currentMetrics"], "current");
    let part = |name: &str, fields: &[&str], more: (&str, Option<i64>)| {
        let kept = fields.iter().filter_map(|field| {
            let value = json::at(&autoscaler, &[name, field])?;
            Some(((*field).to_owned(), value.clone()))
        });
        let more = more.1.map(|number| (more.0.to_owned(), json!(number)));
        Value::Object(kept.chain(more).collect())
    };
    let spec = part("spec", &["scaleTargetRef", "minReplicas", "maxReplicas"], ("targetCPUUtilizationPercentage", target));
    let observed = ["observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas"];
    let status = part("status", &observed, ("currentCPUUtilizationPercentage", current));
    autoscaler["spec"] = spec;
    autoscaler["status"] = status;
    autoscaler
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_shows_the_use_of_cpu() {
        let metric = |name: &str| json!({"type": "Resource", "resource": {"name": name, "target": {"type": "Utilization", "averageUtilization": 70}}});
        let v2 = json!({
            "metadata": {"name": "a"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 3, "metrics": [metric("memory"), metric("cpu")]},
            "status": {"currentReplicas": 2, "desiredReplicas": 2, "conditions": []},
        });
        assert_eq!(
            to_v1(v2),
            json!({
                "metadata": {"name": "a"},
                "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 1, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70},
                "status": {"currentReplicas": 2, "desiredReplicas": 2},
            })
        );
        assert_eq!(to_v1(json!({"metadata": {}})), json!({"metadata": {}, "spec": {}, "status": {}}));
    }
}
