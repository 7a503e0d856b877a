//! Evictions by toleration, one rule each.

use super::*;

fn taint() -> Taint {
    Taint { key: "node.kubernetes.io/unreachable".into(), effect: "NoExecute".into(), ..Taint::default() }
}

fn pod(uid: &str) -> EvictionPod {
    EvictionPod {
        key: "default/web".into(),
        uid: uid.into(),
        node: "a".into(),
        tolerations: Vec::new(),
        bound_at: None,
        deleting: false,
    }
}

fn at(seconds: i64) -> Time {
    Time::from_secs(seconds)
}

fn step(evictor: &mut Evictor, seconds: i64, input: Option<Input>) -> Vec<Effect> {
    let mut effects = Vec::new();
    evictor.step(at(seconds), input, &mut effects);
    effects
}

#[test]
fn a_failed_deletion_is_tried_again_with_longer_pauses_until_the_pod_is_gone() {
    let mut evictor = Evictor::new();
    step(&mut evictor, 0, Some(Input::Pod(pod("1"))));
    let evict = Effect::Evict { key: "default/web".into(), uid: "1".into() };
    assert_eq!(
        step(&mut evictor, 0, Some(Input::Node { name: "a".into(), taints: vec![taint()], ready: false })),
        std::slice::from_ref(&evict)
    );
    let mut now = 0;
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(step(&mut evictor, now, Some(Input::Failed { key: "default/web".into(), uid: "1".into() })), []);
        assert_eq!(evictor.deadline(), Some(at(now + pause)));
        now += pause;
        assert_eq!(step(&mut evictor, now, None), std::slice::from_ref(&evict), "after {pause} s");
    }
    step(&mut evictor, now, Some(Input::PodDeleted("default/web".into())));
    assert_eq!(step(&mut evictor, now, Some(Input::Failed { key: "default/web".into(), uid: "1".into() })), []);
    assert_eq!(evictor.deadline(), None);
}

#[test]
fn a_retry_ends_when_the_taint_is_gone() {
    let mut evictor = Evictor::new();
    step(&mut evictor, 0, Some(Input::Node { name: "a".into(), taints: vec![taint()], ready: false }));
    assert_eq!(step(&mut evictor, 0, Some(Input::Pod(pod("1")))).len(), 1);
    step(&mut evictor, 0, Some(Input::Failed { key: "default/web".into(), uid: "1".into() }));
    let effects = step(&mut evictor, 1, Some(Input::Node { name: "a".into(), taints: Vec::new(), ready: false }));
    assert_eq!(effects, [Effect::Cancelled { key: "default/web".into() }]);
    assert_eq!(evictor.deadline(), None);
}

#[test]
fn a_leftover_taint_on_a_ready_node_evicts_nobody() {
    let mut evictor = Evictor::new();
    let node = |ready| Input::Node { name: "a".into(), taints: vec![taint()], ready };
    step(&mut evictor, 1000, Some(node(true)));
    assert_eq!(step(&mut evictor, 1000, Some(Input::Pod(pod("1")))), []);
    assert_eq!(step(&mut evictor, 1001, Some(node(false))).len(), 1);
}

#[test]
fn a_new_pod_of_the_same_name_is_another_pod() {
    let mut evictor = Evictor::new();
    step(&mut evictor, 0, Some(Input::Node { name: "a".into(), taints: vec![taint()], ready: false }));
    step(&mut evictor, 0, Some(Input::Pod(pod("1"))));
    assert_eq!(step(&mut evictor, 5, Some(Input::Pod(EvictionPod { deleting: true, ..pod("1") }))), []);
    let again = step(&mut evictor, 9, Some(Input::Pod(pod("2"))));
    assert_eq!(again, [Effect::Evict { key: "default/web".into(), uid: "2".into() }]);
}
