//! Laws of the reducer over random timelines, and what survives a restart.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn instances() -> impl Strategy<Value = Instances> {
    (1usize..4, 0usize..5, any::<bool>(), 0usize..2, 0usize..2)
        .prop_map(|(total, updated, active, unaware, failed)| Instances { total, updated, active, unaware, failed })
}

fn timeline() -> impl Strategy<Value = Vec<Snapshot>> {
    let target =
        select(&[Target::Empty, Target::Of(Profile::Default), Target::Of(Profile::Medium), Target::Of(Profile::Low)][..]);
    let desired = (target, 1i64..3, select(&Profile::ALL[..]), prop::bool::weighted(0.2));
    let seen = (0usize..4, [instances(), instances(), instances()]);
    prop::collection::vec((0i64..400, desired, seen), 1..12).prop_map(|entries| {
        let mut at = 0;
        let snapshots = entries.into_iter().map(|(later, (target, generation, stage, paused), (nodes_lost, owners))| {
            at += later;
            Snapshot {
                at: Time::from_secs(at),
                target,
                generation: generation.to_string(),
                stage,
                paused,
                nodes_lost,
                nodes_ready_at_start: 3,
                owners: Owner::ALL.into_iter().zip(owners).collect(),
            }
        });
        snapshots.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: testkit::cases(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_snapshot_again_has_the_same_outcome(timeline in timeline()) {
        let mut status = ProfileStatus::new(PROGRESS_DEADLINE);
        for snapshot in &timeline {
            let outcome = status.fold(snapshot);
            prop_assert_eq!(status.fold(snapshot), outcome);
        }
    }

    #[test]
    fn conditions_are_consistent(timeline in timeline()) {
        let mut status = ProfileStatus::new(PROGRESS_DEADLINE);
        let mut before: Option<Evaluation> = None;
        for snapshot in &timeline {
            let outcome = status.fold(snapshot);
            for (owner, conditions) in &outcome.owners {
                prop_assert!(!(conditions.complete() && (conditions.progressing() || conditions.degraded())));
                for index in 0..3 {
                    let old = before.as_ref().map(|before| before.owners[owner]);
                    let kept = old.filter(|old| old.status[index] == conditions.status[index]);
                    // The transition time moves exactly when the status does.
                    prop_assert_eq!(conditions.since[index], kept.map_or(snapshot.at, |old| old.since[index]));
                }
            }
            let degraded = outcome.owners.values().any(Conditions::degraded);
            prop_assert!(!outcome.rollback || (degraded && outcome.effective == Profile::Default));
            prop_assert!(outcome.rollback || outcome.effective == snapshot.target.profile());
            before = Some(outcome);
        }
    }

    #[test]
    fn a_restart_forgets_nothing_but_the_clock_of_the_deadline(timeline in timeline()) {
        let mut status = ProfileStatus::new(Duration::MAX);
        for snapshot in &timeline {
            let outcome = status.fold(snapshot);
            let rolled_back = outcome.rollback.then_some(snapshot.generation.as_str());
            let mut resumed = ProfileStatus::resume(Duration::MAX, &outcome.conditions(&BTreeMap::new()), rolled_back);
            prop_assert_eq!(resumed.fold(snapshot), outcome);
        }
    }
}

#[test]
fn a_rollback_is_enforced_until_the_generation_changes() {
    let mut metadata = ObjectMeta { generation: 3, ..ObjectMeta::default() };
    let given_up = generation(&metadata);
    let status = ProfileStatus::resume(PROGRESS_DEADLINE, &[], Some(&given_up));
    let low = Target::Of(Profile::Low);
    assert_eq!(status.enforced(low, &given_up), Target::Of(Profile::Default));
    metadata.annotations.insert(ANNOTATION_RETRY.to_owned(), "once more".to_owned());
    assert_eq!(status.enforced(low, &generation(&metadata)), low);
}
