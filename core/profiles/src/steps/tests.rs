//! Steps and answers: what is read is what was written, and nothing but profiles gets through.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn step(component: Component, values: Option<ComponentValues>) -> ApplyStep {
    let deadline = component.deadline(values.as_ref());
    ApplyStep { id: "7-1".into(), component, values, deadline, generation: "7".into(), attempt: 1, adopt: false }
}

fn grace(seconds: u64) -> ComponentValues {
    ComponentValues::ControllerManager { grace: Duration::from_secs(seconds) }
}

fn node(handed: &ApplyStep, answer: Option<AppliedStep>) -> Node {
    let mut node = Node::default();
    node.metadata.annotations.insert(ANNOTATION_APPLY_STEP.into(), handed.to_text());
    node.metadata.annotations.extend(answer.map(|answer| (ANNOTATION_APPLIED_STEP.to_owned(), answer.to_text())));
    node
}

fn able() -> AppliedStep {
    let state = ComponentState { able: true, values: Some(grace(40)), ..ComponentState::default() };
    AppliedStep { version: "1".into(), components: [(Component::ControllerManager, state)].into(), ..AppliedStep::default() }
}

#[test]
fn a_step_is_pending_until_its_own_answer_says_that_it_is_over() {
    let handed = step(Component::ControllerManager, Some(grace(120)));
    let kcm = Component::ControllerManager;
    let answered = |id: &str, result| Some(AppliedStep { id: id.into(), result: Some(result), ..able() });
    for (answer, pending) in [
        (None, true),
        (Some(able()), true),
        (answered("6-1", StepResult::Applied), true),
        (answered("7-1", StepResult::Running), true),
        (answered("7-1", StepResult::Applied), false),
        (answered("7-1", StepResult::Reverted), false),
        (answered("7-1", StepResult::Refused), false),
    ] {
        let steps = NodeSteps::read(&node(&handed, answer.clone()));
        assert_eq!(steps.pending(kcm).is_some(), pending, "{answer:?}");
        assert_eq!(steps.pending(Component::ApiServer), None, "it is another component's");
    }
}

#[test]
fn the_third_attempt_that_is_taken_back_has_failed_and_a_new_generation_counts_anew() {
    let kcm = Component::ControllerManager;
    let mut handed = step(kcm, Some(grace(120)));
    let reverted = AppliedStep { id: "7-1".into(), result: Some(StepResult::Reverted), ..able() };
    for attempt in 1..=3 {
        handed.attempt = attempt;
        let steps = NodeSteps::read(&node(&handed, Some(reverted.clone())));
        assert_eq!(steps.has_failed(kcm, "7"), attempt == 3);
        assert_eq!(steps.next_attempt(kcm, "7", Some(&grace(120))), attempt + 1);
        assert_eq!(steps.next_attempt(kcm, "7", Some(&grace(40))), 1, "other values");
        assert_eq!((steps.has_failed(kcm, "8"), steps.next_attempt(kcm, "8", Some(&grace(120)))), (false, 1));
    }
}

#[test]
fn only_what_an_agent_publishes_can_be_changed() {
    let kcm = Component::ControllerManager;
    let handed = step(kcm, Some(grace(120)));
    assert!(NodeSteps::default().obstacle(kcm, "7").is_some(), "nobody says anything");
    let steps = NodeSteps::read(&node(&handed, Some(able())));
    assert_eq!(steps.obstacle(kcm, "7"), None);
    assert!(steps.obstacle(Component::ApiServer, "7").expect("unknown to it").contains("(1) does not know it"));
    let refused = AppliedStep {
        id: "7-1".into(),
        result: Some(StepResult::Refused),
        message: "/m/kcm.yaml is not ours".into(),
        ..able()
    };
    let steps = NodeSteps::read(&node(&handed, Some(refused.clone())));
    assert_eq!(steps.obstacle(kcm, "7"), None, "it may be able by now");
    let steps = NodeSteps::read(&node(&ApplyStep { attempt: ATTEMPTS_MAX, ..handed }, Some(refused)));
    assert_eq!(steps.obstacle(kcm, "7").as_deref(), Some("/m/kcm.yaml is not ours"));
    assert_eq!(steps.obstacle(kcm, "8"), None, "a new generation asks again");
}

#[test]
fn an_agent_begins_what_it_has_not_answered_and_can_do() {
    let handed = step(Component::ControllerManager, Some(grace(120)));
    let text = handed.to_text();
    let yes = |_: &ApplyStep| Ok(());
    let now = Duration::ZERO;
    assert_eq!(decide(None, "", now, yes), Decision::Nothing);
    assert_eq!(decide(Some(&text), "7-1", now, yes), Decision::Nothing);
    assert_eq!(decide(Some(&text), "6-9", now, yes), Decision::Begin(handed));
    let no = |step: &ApplyStep| Err(Unable::ByItself(format!("no {}", step.component.name())));
    let refused = Decision::Refuse { id: "7-1".into(), message: "no kube-controller-manager".into() };
    assert_eq!(decide(Some(&text), "", now, no), refused);
    assert_eq!(decide(Some("{\"id\""), "", now, yes), Decision::Nothing, "there is no name to answer to");
    let unknown = text.replace("\"attempt\"", "\"image\":\"evil\",\"attempt\"");
    assert_eq!(
        decide(Some(&unknown), "", now, yes),
        Decision::Refuse { id: "7-1".into(), message: "image: unknown field".into() }
    );
}

#[test]
fn a_step_waits_for_a_component_that_is_about_to_start_but_not_for_ever() {
    let text = step(Component::ApiServer, None).to_text();
    let away = |_: &ApplyStep| Err(Unable::Yet("no kubelet runs here".to_owned()));
    assert_eq!(decide(Some(&text), "", Duration::ZERO, away), Decision::Wait);
    assert_eq!(decide(Some(&text), "", WAIT_MAX - Duration::from_millis(1), away), Decision::Wait);
    let refused = Decision::Refuse { id: "7-1".into(), message: "no kubelet runs here".into() };
    assert_eq!(decide(Some(&text), "", WAIT_MAX, away), refused);
    assert_eq!(decide(Some(&text), "7-1", WAIT_MAX, away), Decision::Nothing, "it is answered");
}

#[test]
fn a_later_version_may_say_more_in_its_answer() {
    let text =
        json!({"version": "9", "id": "", "components": {"kube-proxy": {"able": true}, "kubelet": {"able": true, "x": 1}}});
    let answer = AppliedStep::parse(&text.to_string()).expect("it can be read");
    assert_eq!(answer.components.keys().collect::<Vec<_>>(), [&Component::Kubelet]);
    assert!(AppliedStep::parse(r#"{"id": "1", "result": "finished"}"#).is_err(), "a result that we do not know is no answer");
}

prop_compose! {
    fn values()(kind in 0..3u8, seconds in 0..700u64, other in 0..700i64) -> ComponentValues {
        let span = Duration::from_secs(seconds);
        match kind {
            0 => ComponentValues::Kubelet(KubeletValues { lease_duration: Duration::from_secs(other.unsigned_abs()), ..KubeletValues::of(span) }),
            1 => ComponentValues::ControllerManager { grace: span },
            _ => ComponentValues::ApiServer { not_ready_seconds: seconds as i64, unreachable_seconds: other },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(512)))]

    /// Whatever is written is read as it was, and only values of a profile get through as a step.
    #[test]
    fn what_is_read_is_what_was_written(values in values(), attempt in 1..9u32, generation in ".{0,9}", result in 0..4usize) {
        let component = values.component();
        let handed = ApplyStep { attempt, generation, adopt: attempt % 2 == 1, ..step(component, Some(values)) };
        let read = ApplyStep::parse(&handed.to_text());
        match values.is_preset() {
            true => prop_assert_eq!(read, Ok(handed.clone())),
            false => prop_assert!(read.is_err()),
        }
        let restore = ApplyStep { values: None, ..handed };
        prop_assert_eq!(ApplyStep::parse(&restore.to_text()), Ok(restore));
        let state = ComponentState {
            able: attempt % 2 == 0,
            changed: attempt % 3 == 0,
            adoptable: attempt % 5 == 0,
            values: Some(values),
            message: "m".into(),
        };
        let answer = AppliedStep { id: "x".into(), result: Some(StepResult::ALL[result]), components: [(component, state)].into(), ..able() };
        prop_assert_eq!(AppliedStep::parse(&answer.to_text()), Ok(answer));
    }

    /// Whatever stands in the annotations, reading them does not panic.
    #[test]
    fn any_text_can_be_shown(text in ".{0,80}") {
        let _ = (decide(Some(&text), "", Duration::ZERO, |_| Ok(())), AppliedStep::parse(&text), ApplyStep::parse(&text));
    }
}
