//! The life of certificates. Leader and replica look every few seconds, so years are not waited for: they are started again later.

use std::sync::Arc;
use std::time::Duration;

use machine::Time;
use runtime::Clock;
use tokio_util::sync::{CancellationToken, DropGuard};
use webhook::{Shown, keep};

use crate::api::{Api, MUTATING, SECRET, VALIDATING};

const DAY: Duration = Duration::from_secs(86_400);

/// A leader and a replica over an API.
struct World {
    api: Api,
    shown: Arc<Shown>,
    _stop: DropGuard,
}

impl World {
    /// Starts both on a day.
    fn on_day(day: u32, api: Api) -> World {
        let clock = Clock::starting_at(Time::from_secs(1_800_000_000) + DAY * day);
        let (shown, stop) = (Shown::new(clock.clone()), CancellationToken::new());
        tokio::spawn(keep(api.client(), clock, "ns".to_owned(), stop.clone()));
        tokio::spawn(Arc::clone(&shown).follow(api.client(), "ns".to_owned(), stop.clone()));
        World { api, shown, _stop: stop.drop_guard() }
    }

    /// Lets a minute pass: everything that is due is done.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

/// Returns an API as it is after a minute with leader and replica on the first day.
async fn begun() -> Api {
    let world = World::on_day(0, Api::installed());
    world.settle().await;
    world.api.patches();
    world.api.clone()
}

#[tokio::test(start_paused = true)]
async fn certificates_are_made_trusted_and_shown() {
    let world = World::on_day(0, Api::installed());
    assert!(!world.shown.is_ready(), "a replica without a certificate takes no part");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(world.api.patches(), [SECRET, MUTATING, VALIDATING]);
    assert_eq!(world.api.trusted(), world.api.secret("ca.crt").unwrap());
    assert!(world.shown.is_ready());
    world.settle().await;
    assert_eq!(world.api.patches(), Vec::<String>::new(), "what is good is left alone");
}

#[tokio::test(start_paused = true)]
async fn what_another_apply_takes_away_comes_back() {
    let world = World::on_day(0, begun().await);
    world.api.put(MUTATING, Api::installed().get(MUTATING));
    world.settle().await;
    assert_eq!(world.api.patches(), [MUTATING]);
    assert_eq!(world.api.trusted(), world.api.secret("ca.crt").unwrap());
    world.api.remove(VALIDATING);
    world.settle().await;
    assert_eq!(world.api.patches(), Vec::<String>::new(), "a configuration that is not installed is not missed");
}

#[tokio::test(start_paused = true)]
async fn the_certificate_is_renewed_after_two_thirds_of_its_life() {
    let api = begun().await;
    let (first, authority) = (api.secret("tls.crt").unwrap(), api.secret("ca.crt").unwrap());
    World::on_day(59, api.clone()).settle().await;
    assert_eq!(api.secret("tls.crt").unwrap(), first, "not earlier");
    // The two thirds are over while leader and replica run.
    let world = World::on_day(59, api.clone());
    world.settle().await;
    let until = world.shown.until().unwrap();
    tokio::time::sleep(DAY).await;
    assert_ne!(api.secret("tls.crt").unwrap(), first);
    assert_eq!(api.secret("ca.crt").unwrap(), authority, "the authority stays");
    assert!(world.shown.until().unwrap() > until, "and the replica shows the new one without a restart");
}

#[tokio::test(start_paused = true)]
async fn old_and_new_authority_are_trusted_together_during_a_change() {
    let api = begun().await;
    World::on_day(729, api.clone()).settle().await;
    let old = api.secret("ca.crt").unwrap();
    // The change is stopped where the new authority is not trusted everywhere.
    api.refuse(Some(VALIDATING));
    let world = World::on_day(731, api.clone());
    world.settle().await;
    let next = api.secret("next-ca.crt").unwrap();
    assert_eq!(api.secret("ca.crt").unwrap(), old, "nothing is signed by what is not trusted");
    api.refuse(None);
    world.settle().await;
    assert_eq!(api.secret("ca.crt").unwrap(), next);
    assert_eq!(api.trusted(), format!("{next}{old}"), "replicas may show the old certificate for a moment");
    assert_eq!(api.secret("next-ca.crt"), None);
    assert!(world.shown.is_ready());
    drop(world);
    let world = World::on_day(800, api.clone());
    world.settle().await;
    assert_eq!(api.trusted(), next, "with the next certificate the old authority goes");
    assert!(world.shown.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_slept_too_long_begins_anew() {
    let api = begun().await;
    let first = api.secret("ca.crt").unwrap();
    let world = World::on_day(5_000, api.clone());
    world.settle().await;
    assert_ne!(api.secret("ca.crt").unwrap(), first);
    assert_eq!(api.trusted(), api.secret("ca.crt").unwrap());
    assert!(world.shown.is_ready());
}
