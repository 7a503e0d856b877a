//! Latency profiles on a real kubelet, controller manager and API server: what is in use changes in the order of the plan, the node stays
//! Ready, a step that does not prove itself is undone byte for byte, and uninstalling leaves the files as they were.

mod chaos;
mod deployed;
mod failures;
mod openshift;
mod parts;
mod rights;
mod rollout;
mod steps;

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("profiles::a_token_of_an_agent_is_worth_one_annotation_of_its_node", rights::rights),
    ("profiles::a_step_that_does_not_prove_itself_is_undone", steps::one_revert_for_each_component),
    ("profiles::an_agent_that_is_killed_in_the_middle_is_finished_by_the_next", steps::killed_in_the_middle),
    ("profiles::an_edit_before_the_deadline_is_left_alone", steps::edited_before_the_deadline),
    ("profiles::a_control_plane_that_nobody_may_touch_stops_the_rollout", failures::a_control_plane_that_nobody_may_touch),
    ("profiles::nothing_is_written_to_somebody_elses_kind", openshift::nothing_is_written_to_somebody_elses_kind),
    ("profiles::medium_and_back_leaves_the_node_ready_and_the_files_as_they_were", rollout::medium_and_back),
];

pub(crate) const LONG: &[(&str, Test)] = &[
    ("profiles::the_whole_way_and_back", rollout::the_whole_way),
    ("profiles::the_installed_agents_take_steps", deployed::the_installed_agents_take_steps),
    ("profiles::a_controller_manager_without_time_is_given_up", failures::controller_manager_has_no_time),
    ("profiles::a_kubelet_and_an_api_server_without_time_are_given_up", failures::others_have_no_time),
    (
        "profiles::a_kubelet_that_does_not_start_is_given_its_file_back",
        failures::a_kubelet_that_does_not_start_is_given_its_file_back,
    ),
    (
        "profiles::an_api_server_that_does_not_start_is_given_its_manifest_back",
        failures::an_api_server_that_does_not_start_is_given_its_manifest_back,
    ),
    ("profiles::a_flag_that_wins_over_our_file_is_named", failures::a_flag_that_wins_is_named),
    ("profiles::what_somebody_else_has_changed_is_left_alone_and_named", failures::a_foreign_change_blocks_and_is_named),
    ("profiles::a_killed_agent_does_not_stop_a_rollout", failures::a_killed_agent_does_not_stop_a_rollout),
    ("profiles::whatever_is_asked_for_and_killed_files_are_whole_and_the_node_ready", chaos::random_profiles_and_kills),
];
