//! The real kubectl against the real binary, and the same tests against a real Kubernetes: what they demand of ours must hold for
//! kube-apiserver, its controllers and its kubelet too.
//!
//! Without a kubectl that is new enough every test is listed as ignored, with the reason; so are those on a cluster without
//! `LIFESIGN_TEST_KUBECONFIG` (`testbed/run env`), and those that are about a plane of ours only.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod access;
mod applying;
mod commands;
mod deleting;
mod deployments;
mod nodes;
mod reading;
mod server;
mod streams;
mod table;
mod writing;

use std::process::ExitCode;
use std::time::Duration;

use commands::Kubectl;
use server::On;
use testkit::needs::{run_trials, trial};

/// The binary under test.
const LIFESIGN: &str = env!("CARGO_BIN_EXE_lifesign");

/// What has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(120);

/// Tests at a time when there is a cluster: they wait for its controllers and kubelet more than they compute.
const AT_A_TIME: usize = 6;

/// Returns a module's tests with their names; one that is not listed is dead code, which clippy refuses.
macro_rules! tests {
    ($($module:ident: $($test:ident),+;)+) => {
        vec![$($((concat!(stringify!($module), "::", stringify!($test)), $module::$test as fn(On))),+),+]
    };
}

/// Returns tests that do not run on a cluster, with their names and the reason.
macro_rules! only_on_a_plane {
    ($($module:ident::$test:ident: $reason:literal;)+) => {
        vec![$((concat!(stringify!($module), "::", stringify!($test)), $module::$test as fn(), $reason)),+]
    };
}

fn main() -> ExitCode {
    // The last of them has the cluster to itself: it would keep others waiting.
    let tests = tests! {
        access: the_administrator_may_do_everything, a_node_sees_its_own_pods_only, components_find_out_whose_certificates_are_good, a_token_stands_for_its_service_account;
        applying: two_managers_share_an_object_and_conflicts_are_named, diff_and_dry_run_show_what_an_apply_would_do_and_do_nothing, client_side_apply_is_taken_over_without_conflicts;
        deleting: a_pod_goes_with_grace_or_by_force, selected_and_listed_objects_go, dependents_go_with_their_owner, dependents_go_before_their_owner_when_in_the_foreground, orphans_stay, a_namespace_takes_its_contents_along;
        nodes: a_node_is_tainted_and_cordoned, drain_evicts_the_pods_of_a_node, drain_waits_for_pods_that_end_with_grace;
        reading: get_shows_the_columns_of_kubernetes, get_shows_slices_leases_and_replica_sets, yaml_and_json_show_the_object, a_watch_shows_changes_as_they_happen, wait_ends_when_the_condition_holds, wait_ends_when_the_object_is_gone, describe_tells_about_pods_nodes_and_services, events_are_listed_and_selected, explain_knows_fields_and_their_meaning, api_resources_lists_what_is_served, cluster_info_dumps_what_is_there;
        streams: exec_runs_a_command_in_the_environment_of_a_container, cp_copies_files_both_ways, port_forward_connects_to_a_port_of_the_pod, the_endpoint_of_a_node_is_reached_through_the_server, a_port_that_nobody_listens_on_is_named;
        writing: create_sends_protobuf_and_is_understood, apply_creates_changes_and_prunes, apply_of_a_typo_is_refused, apply_of_a_kind_that_is_not_served_says_so, apply_prunes_what_left_the_manifest, the_three_kinds_of_patch_work, edit_label_annotate_scale_and_replace_change_objects;
        deployments: a_deployment_is_changed_rolled_back_paused_and_exposed, a_drain_goes_on_when_the_budget_allows_it;
    };
    let only_on_a_plane = only_on_a_plane! {
        access::a_viewer_reads_all_but_secrets_and_changes_nothing: "roles of `lifesign kubeconfig`";
        access::controllers_write_everything_but_secrets: "roles of `lifesign kubeconfig`";
        streams::what_is_not_there_is_refused_with_the_reason: "Kubernetes has all of it";
        streams::a_command_ends_when_its_client_is_killed: "Kubernetes lets the command run on";
        writing::bad_probes_are_refused_with_their_field_and_limit: "Kubernetes has no probes of milliseconds";
    };
    let no_kubectl = testkit::kubectl::missing();
    let no_cluster = no_kubectl.clone().or_else(server::no_cluster);
    let mut trials = Vec::new();
    for (name, test) in tests {
        // What a snapshot shows, both show.
        let run = move |on| insta::allow_duplicates! { test(on) };
        trials.push(trial(no_kubectl.clone(), name, move || run(On::Plane)));
        trials.push(trial(no_cluster.clone(), &on_a_cluster(name), move || run(On::Cluster)));
    }
    for (name, test, reason) in only_on_a_plane {
        trials.push(trial(no_kubectl.clone(), name, test));
        trials.push(trial(Some(reason.to_owned()), &on_a_cluster(name), test));
    }
    run_trials(trials, no_cluster.is_none().then_some(AT_A_TIME))
}

fn on_a_cluster(name: &str) -> String {
    format!("on a cluster: {name}")
}
