use super::*;

#[test]
fn the_rest_is_a_tenth_of_the_period_but_no_more_than_a_tenth_of_a_second() {
    for (period, pause) in [(200, 20), (555, 55), (999, 99), (1000, 100), (10_000, 100), (0, 0)] {
        assert_eq!(rest(Duration::from_millis(period)), Duration::from_millis(pause), "{period}");
    }
}

#[test]
fn a_shorter_period_brings_the_next_attempt_forward() {
    let mut schedule = Schedule::default();
    schedule.start(Time::ZERO);
    let attempt = schedule.launch(Time::ZERO).unwrap();
    schedule.finish(attempt.id).unwrap();
    schedule.follow(Time::ZERO, attempt, Duration::from_secs(10));
    schedule.shorten(Duration::from_secs(30));
    assert_eq!(schedule.due(), Some(Time::from_secs(10)));
    schedule.shorten(Duration::from_secs(2));
    assert_eq!(schedule.due(), Some(Time::from_secs(2)));
}

#[test]
fn an_attempt_of_another_time_is_not_taken_back() {
    let mut schedule = Schedule::default();
    schedule.start(Time::ZERO);
    let old = schedule.launch(Time::ZERO).unwrap();
    assert_eq!(schedule.stop(), Some(old.id));
    assert_eq!(schedule.finish(old.id), None);
    schedule.start(Time::ZERO);
    let new = schedule.launch(Time::ZERO).unwrap();
    assert_eq!(schedule.finish(old.id), None);
    assert_eq!(schedule.finish(new.id), Some(new));
}
