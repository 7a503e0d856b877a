use super::*;
use machine::Rng;
use proptest::prelude::*;

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

#[test]
fn the_interval_grows_with_the_targets_and_with_age() {
    assert_eq!(interval(1, Duration::ZERO), ms(10));
    assert_eq!(interval(20, ms(10_000)), ms(10));
    assert_eq!(interval(50, Duration::ZERO), ms(25));
    assert_eq!(interval(2_000, ms(60_000)), ms(1_000));
    assert_eq!(interval(1, ms(600_000)), ms(600));
    assert!(interval(usize::MAX, Duration::MAX) > ms(1_000));
}

#[test]
fn knocks_come_at_the_interval_and_end_before_the_next_attempt() {
    let mut knocks = Knocks::default();
    knocks.begin("a", Time::ZERO, Time::ZERO, Time::from_millis(50));
    let mut seen = Vec::new();
    while let Some(at) = knocks.deadline() {
        assert_eq!(knocks.next(at), Some("a"));
        assert_eq!(knocks.next(at), None, "handed out twice");
        seen.push(at.as_millis());
        knocks.refused(at, &"a");
    }
    assert_eq!(seen, [10, 20, 30, 40]);
    assert!(knocks.is_empty(), "a target without a further knock does not wait");
}

#[test]
fn a_late_loop_does_not_catch_up() {
    let mut knocks = Knocks::default();
    knocks.begin("a", Time::ZERO, Time::ZERO, Time::from_secs(1));
    assert_eq!(knocks.next(Time::from_millis(12)), Some("a"));
    knocks.refused(Time::from_millis(12), &"a");
    assert_eq!(knocks.deadline(), Some(Time::from_millis(22)));
    assert_eq!(knocks.next(Time::from_millis(55)), Some("a"));
    knocks.refused(Time::from_millis(55), &"a");
    assert_eq!(knocks.deadline(), Some(Time::from_millis(65)));
}

#[test]
fn nothing_is_knocked_at_once_its_time_is_up_or_it_was_stopped() {
    let mut knocks = Knocks::default();
    knocks.begin("late", Time::ZERO, Time::ZERO, Time::from_millis(30));
    assert_eq!(knocks.next(Time::from_millis(30)), None);
    knocks.begin("a", Time::ZERO, Time::ZERO, Time::from_secs(1));
    assert!(knocks.stop(&"a") && !knocks.stop(&"a"));
    assert_eq!((knocks.len(), knocks.deadline()), (0, None));
    assert!(!knocks.refused(Time::ZERO, &"a"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testkit::cases(64)))]

    /// However targets come and go, and however late the loop is.
    #[test]
    fn no_second_has_more_knocks_than_the_node_allows(seed: u64, targets in 1u64..4_000, churn in 0u64..50, lag_us in 0u64..20_000) {
        let mut rng = Rng::new(seed);
        let mut knocks = Knocks::default();
        let (mut now, end) = (Time::ZERO, Time::from_secs(4));
        let mut handed_out: Vec<Time> = Vec::new();
        for key in 0..targets {
            knocks.begin(key, now, now, Time::from_secs(60));
        }
        while now < end {
            while let Some(key) = knocks.next(now) {
                handed_out.push(now);
                // Somebody listens and is asked anew, or the knock was refused as most are.
                if rng.below(100) < churn {
                    knocks.begin(key, now, now, now + ms(10 + rng.below(1_000)));
                } else {
                    knocks.refused(now, &key);
                }
            }
            let Some(deadline) = knocks.deadline() else { break };
            prop_assert!(deadline > now);
            now = deadline + Duration::from_micros(rng.below(lag_us + 1));
        }
        for window in handed_out.windows(PER_SECOND_MAX + 1) {
            let span = window[PER_SECOND_MAX].since(window[0]);
            prop_assert!(span >= Duration::from_secs(1), "{} knocks in {span:?}", PER_SECOND_MAX + 1);
        }
    }

    #[test]
    fn every_target_gets_its_knocks_at_no_less_than_its_interval(seed: u64, targets in 1u64..300) {
        let mut rng = Rng::new(seed);
        let mut knocks = Knocks::default();
        let mut last = vec![Time::ZERO; targets as usize];
        for key in 0..targets {
            last[key as usize] = Time::from_micros(rng.below(10_000) as i64);
            knocks.begin(key, Time::ZERO, last[key as usize], Time::from_secs(60));
        }
        let all = interval(targets as usize, Duration::ZERO);
        let mut asked = vec![0u64; targets as usize];
        while let Some(now) = knocks.deadline().filter(|now| *now < Time::from_secs(2)) {
            while let Some(key) = knocks.next(now) {
                let gap = now.since(std::mem::replace(&mut last[key as usize], now));
                prop_assert!(gap >= INTERVAL_MIN);
                prop_assert!(asked[key as usize] == 0 || gap >= all, "{gap:?}");
                asked[key as usize] += 1;
                knocks.refused(now, &key);
            }
        }
        let fair = (2_000_000 / all.as_micros() as u64).saturating_sub(3);
        prop_assert!(asked.iter().all(|count| *count >= fair), "{asked:?}");
    }
}
