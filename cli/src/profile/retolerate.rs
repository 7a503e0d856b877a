//! `lifesign profile retolerate`: running pods get the default tolerations of the profile in force.

use api::Pod;
use clap::Args;
use nodes::tolerations::{Defaults, retolerate_pod};
use profiles::{Profile, Values};
use serde_json::{Value, json};

use super::api::{Api, ApiArgs};
use super::plan::tolerations_in_use;
use super::table::table;
use super::{Format, print_json};
use crate::error::Failure;
use crate::{block_on, output};

/// Give running pods the default tolerations of the profile in force
///
/// Pods keep the tolerations that they were created with, so a profile reaches only new ones. This shows which running pods
/// still carry the defaults of another profile, and with --yes gives them those of the profile in force. Only tolerations
/// that are exactly such a default are changed; a pod that states its own keeps them.
#[derive(Args)]
pub(super) struct RetolerateArgs {
    /// Change only the defaults of this profile [default: those of every other profile]
    #[arg(long, value_name = "PROFILE", value_parser = super::profile)]
    from: Option<Profile>,
    /// The profile whose defaults pods get [default: what the API server gives to new pods]
    #[arg(long, value_name = "PROFILE", value_parser = super::profile)]
    to: Option<Profile>,
    /// Change the pods; without it nothing is changed
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    api: ApiArgs,
    /// How to say it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
}

/// A toleration that is to change.
struct Change {
    key: String,
    from: i64,
    to: i64,
}

/// A pod that is to change.
struct Moved {
    namespace: String,
    name: String,
    changes: Vec<Change>,
    patch: Value,
}

impl RetolerateArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        block_on(async {
            let api = self.api.client().await?;
            let to = match self.to {
                Some(profile) => defaults(&profile.values()),
                None => {
                    let (not_ready_seconds, unreachable_seconds) = tolerations_in_use(&api).await?;
                    Defaults { not_ready_seconds, unreachable_seconds }
                }
            };
            let old: Vec<Defaults> = match self.from {
                Some(profile) => vec![defaults(&profile.values())],
                None => Profile::ALL.iter().map(|profile| defaults(&profile.values())).collect(),
            };
            let pods: Vec<Pod> = api.list("/api/v1/pods").await?;
            let moved: Vec<Moved> = pods.iter().filter_map(|pod| plan(pod, &old, &to)).collect();
            self.tell(&moved)?;
            if self.yes { apply(&api, &moved).await } else { Ok(()) }
        })
    }

    fn tell(&self, moved: &[Moved]) -> Result<(), Failure> {
        if self.output == Format::Json {
            let pods = moved.iter().map(|pod| {
                let changes = pod.changes.iter().map(|change| json!({"key": change.key, "from": change.from, "to": change.to}));
                json!({"namespace": pod.namespace, "name": pod.name, "tolerations": changes.collect::<Vec<_>>()})
            });
            return print_json(&pods.collect::<Vec<_>>());
        }
        if moved.is_empty() {
            return output::print(b"no running pod carries the defaults of another profile\n");
        }
        let rows: Vec<Vec<String>> = moved
            .iter()
            .flat_map(|pod| {
                pod.changes.iter().map(|change| {
                    let seconds = [change.from, change.to].map(|seconds| format!("{seconds}s"));
                    [vec![pod.namespace.clone(), pod.name.clone(), change.key.clone()], seconds.to_vec()].concat()
                })
            })
            .collect();
        let head = ["NAMESPACE", "POD", "TOLERATION", "FROM", "TO"];
        output::print(table(&head, &[false, false, false, true, true], &rows).as_bytes())?;
        if !self.yes {
            eprintln!("nothing is changed; --yes does it");
        }
        Ok(())
    }
}

fn defaults(values: &Values) -> Defaults {
    Defaults {
        not_ready_seconds: values.default_not_ready_toleration_seconds,
        unreachable_seconds: values.default_unreachable_toleration_seconds,
    }
}

/// Returns what is to change on a pod, if anything is.
fn plan(pod: &Pod, old: &[Defaults], to: &Defaults) -> Option<Moved> {
    let moved = retolerate_pod(pod, old, to)?;
    let changes = pod.spec.tolerations.iter().zip(&moved).filter(|(before, after)| before != after);
    let changes = changes.map(|(before, after)| Change {
        key: after.key.clone(),
        from: before.toleration_seconds.unwrap_or_default(),
        to: after.toleration_seconds.unwrap_or_default(),
    });
    Some(Moved {
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        changes: changes.collect(),
        // Whoever changes the pod meanwhile comes first: the list is written whole.
        patch: json!({
            "metadata": {"resourceVersion": pod.metadata.resource_version, "uid": pod.metadata.uid},
            "spec": {"tolerations": moved},
        }),
    })
}

/// Changes the pods; one that cannot be changed does not keep the others from it.
async fn apply(api: &Api, moved: &[Moved]) -> Result<(), Failure> {
    let mut failed = 0;
    for pod in moved {
        if let Err(error) = api.patch(&format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name), &pod.patch).await {
            failed += 1;
            eprintln!("{}/{}: {error}", pod.namespace, pod.name);
        }
    }
    eprintln!("{} of {} pods changed", moved.len() - failed, moved.len());
    if failed == 0 {
        Ok(())
    } else {
        Err(Failure::no(format!("{failed} pods could not be changed")).hint("they may have changed meanwhile: run it again"))
    }
}
