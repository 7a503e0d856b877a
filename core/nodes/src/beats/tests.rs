//! Heartbeats, one rule each.

use super::*;
use machine::Rng;
use proptest::prelude::{prop_assert, proptest};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn steady(interval: u64) -> Beats {
    Beats::new(Time::ZERO, Config { jitter: false, ..Config::new(secs(interval)) }, Rng::new(0))
}

/// Runs until an instant; every attempt succeeds at once. Returns when attempts started.
fn run(beats: &mut Beats, until: Time) -> Vec<i64> {
    let mut started = Vec::new();
    let mut effects = Vec::new();
    while let Some(now) = beats.deadline().filter(|now| *now <= until) {
        beats.step(now, None, &mut effects);
        while let Some(effect) = effects.pop() {
            if let Effect::Attempt { beat, .. } = effect {
                started.push(now.as_secs());
                beats.step(now, Some(Input::Renewed { beat }), &mut effects);
            }
        }
    }
    started
}

fn tell(beats: &mut Beats, now: i64, input: Input) -> Vec<Effect> {
    let mut effects = Vec::new();
    beats.step(Time::from_secs(now), Some(input), &mut effects);
    effects
}

#[test]
fn a_slower_profile_begins_after_the_current_beat() {
    let mut beats = steady(10);
    assert_eq!(run(&mut beats, Time::from_secs(25)), [0, 10, 20]);
    assert_eq!(tell(&mut beats, 25, Input::SetInterval(secs(60))), []);
    assert_eq!(run(&mut beats, Time::from_secs(160)), [30, 90, 150]);
    assert_eq!(beats.interval(), secs(60));
}

#[test]
fn a_faster_profile_beats_at_once_on_a_new_raster() {
    let mut beats = steady(60);
    assert_eq!(run(&mut beats, Time::from_secs(70)), [0, 60]);
    let effects = tell(&mut beats, 73, Input::SetInterval(secs(20)));
    let attempt = Effect::Attempt { beat: 3, fresh: false, lease_duration: secs(80) };
    assert_eq!(effects, [Effect::Drop { beat: 2 }, attempt]);
    tell(&mut beats, 73, Input::Renewed { beat: 3 });
    assert_eq!(run(&mut beats, Time::from_secs(120)), [93, 113]);
}

#[test]
fn an_answer_to_a_beat_that_is_over_does_not_count() {
    let mut beats = steady(10);
    beats.step(Time::ZERO, None, &mut Vec::new());
    beats.step(Time::from_secs(10), None, &mut Vec::new());
    assert_eq!(tell(&mut beats, 11, Input::Renewed { beat: 1 }), []);
    assert_eq!(tell(&mut beats, 11, Input::Renewed { beat: 2 }), [Effect::PostStatus], "the first beat has failed");
}

#[test]
fn a_failed_post_is_started_again() {
    let mut beats = steady(10);
    run(&mut beats, Time::from_secs(3));
    assert_eq!(tell(&mut beats, 4, Input::PostFailed), []);
    assert_eq!(beats.deadline(), Some(Time::from_secs(6)));
    let mut effects = Vec::new();
    beats.step(Time::from_secs(6), None, &mut effects);
    assert_eq!(effects, [Effect::PostStatus]);
}

#[test]
fn a_loop_that_was_held_up_begins_one_beat() {
    let mut beats = steady(10);
    run(&mut beats, Time::from_secs(5));
    let mut effects = Vec::new();
    beats.step(Time::from_secs(3607), None, &mut effects);
    assert_eq!(effects.first(), Some(&Effect::PostStatus), "it has been given up meanwhile: before anything else");
    assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Attempt { .. })).count(), 1);
    assert_eq!(beats.deadline(), Some(Time::from_secs(3609)), "its second attempt");
    tell(&mut beats, 3608, Input::Renewed { beat: 2 });
    assert_eq!(beats.deadline(), Some(Time::from_secs(3610)), "back on the raster");
}

#[test]
fn a_pause_that_the_lease_outlives_posts_nothing() {
    let mut beats = steady(10);
    run(&mut beats, Time::from_secs(5));
    for (now, beat) in [(40, 2), (81, 3)] {
        let mut effects = Vec::new();
        beats.step(Time::from_secs(now), None, &mut effects);
        let posts = effects.iter().filter(|effect| **effect == Effect::PostStatus).count();
        assert_eq!(posts, usize::from(now == 81), "from 0 to 40 the Lease lasts, from 40 to 81 it does not");
        tell(&mut beats, now, Input::Renewed { beat });
    }
}

#[test]
fn an_answer_that_waited_for_a_held_up_loop_does_not_hide_the_gap() {
    let mut beats = steady(10);
    beats.step(Time::ZERO, None, &mut Vec::new());
    let effects = tell(&mut beats, 60, Input::Renewed { beat: 1 });
    assert_eq!(effects.first(), Some(&Effect::PostStatus));
}

#[test]
fn a_status_that_somebody_else_wrote_is_put_right_at_once() {
    let mut beats = steady(10);
    run(&mut beats, Time::from_secs(15));
    assert_eq!(tell(&mut beats, 15, Input::StatusSeen { same: true }), []);
    assert_eq!(tell(&mut beats, 15, Input::StatusSeen { same: false }), [Effect::PostStatus]);
    assert_eq!(tell(&mut beats, 16, Input::StatusSeen { same: false }), [], "not faster than a failed post");
    assert_eq!(beats.deadline(), Some(Time::from_secs(17)));
    assert_eq!(tell(&mut beats, 16, Input::StatusSeen { same: true }), [], "our own post has arrived");
    assert_eq!(beats.deadline(), Some(Time::from_secs(20)));
    tell(&mut beats, 16, Input::StatusSeen { same: false });
    let mut effects = Vec::new();
    beats.step(Time::from_secs(17), None, &mut effects);
    assert_eq!(effects, [Effect::PostStatus]);
}

proptest! {
    #[test]
    fn jitter_is_late_by_at_most_4_per_cent_and_does_not_add_up(seed: u64, interval in 1u64..100) {
        let mut beats = Beats::new(Time::ZERO, Config::new(secs(interval)), Rng::new(seed));
        let mut effects = Vec::new();
        for beat in 0..200i64 {
            let now = beats.deadline().expect("a loop has a deadline");
            let raster = Time::from_secs(beat * interval as i64);
            prop_assert!(now >= raster && now.since(raster) <= secs(interval) / 25);
            beats.step(now, None, &mut effects);
            beats.step(now, Some(Input::Renewed { beat: beat as u64 + 1 }), &mut effects);
        }
    }
}
