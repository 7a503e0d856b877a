//! A pod as an earlier agent left it: what its status says, and what is found on this machine.
//!
//! What is found counts more than what is stored: the last write may have been lost. Stored values count for what nobody can
//! find: earlier instances, started and ready, the step of the back-off.

use std::time::Duration;

use api::Pod;
use api::pod::{Container, ContainerStatus, ContainerTerminated};
use machine::{Failures, Rng, Time};
use probe::{BackOff, ContainerProber, PodPhase, Prior, Restarts, Role};

use crate::container::{Ended, Instance, InstanceState, Next, PodContainer, Waiting};
use crate::messages::{Exit, Found, FoundState};
use crate::settings::{GRACE_SECONDS, Settings};
use crate::status::{CONTAINER_ID_PREFIX, CRASH_LOOP};

/// Returns the phase that a stored status has fixed.
pub(crate) fn fixed(pod: &Pod) -> Option<(PodPhase, String, String)> {
    let phase = match pod.status.phase.as_str() {
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        _ => return None,
    };
    Some((phase, pod.status.reason.clone(), pod.status.message.clone()))
}

/// Returns the containers of a pod, init containers first.
pub(crate) fn containers(now: Time, pod: &Pod, found: &[Found], settings: &Settings, rng: &mut Rng) -> Vec<PodContainer> {
    let init = pod.spec.init_containers.iter().enumerate().map(|(index, spec)| {
        let role = if spec.is_sidecar() { Role::Sidecar } else { Role::Init };
        (role, index, spec, &pod.status.init_container_statuses)
    });
    let regular = pod.spec.containers.iter().enumerate();
    let regular = regular.map(|(index, spec)| (Role::Regular, index, spec, &pod.status.container_statuses));
    init.chain(regular)
        .map(|(role, index, spec, statuses)| {
            let stored = statuses.iter().find(|status| status.name == spec.name);
            let mut container = fresh(role, index, pod, spec);
            let mut found: Vec<&Found> = found.iter().filter(|found| found.container == spec.name).collect();
            found.sort_by_key(|found| std::cmp::Reverse(found.number));
            restore(now, &mut container, spec, stored, &found, settings);
            if role != Role::Init {
                container.prober = Some(Box::new(prober(&container, pod, spec, stored, settings, rng)));
            }
            container
        })
        .collect()
}

fn fresh(role: Role, index: usize, pod: &Pod, spec: &Container) -> PodContainer {
    let policy = &pod.spec.restart_policy;
    let restarts = if role == Role::Init { Restarts::of_init(policy, spec) } else { Restarts::of(policy, spec) };
    PodContainer {
        name: spec.name.as_str().into(),
        role,
        index,
        restarts,
        prober: None,
        back_off: BackOff::default(),
        instances: 0,
        state: InstanceState::New,
        last: None,
        setup_failures: Failures::default(),
    }
}

fn prober(
    container: &PodContainer,
    pod: &Pod,
    spec: &Container,
    stored: Option<&ContainerStatus>,
    settings: &Settings,
    rng: &mut Rng,
) -> ContainerProber {
    let prior = container.instance().and_then(|instance| {
        let stored = stored.filter(|stored| id_of(&stored.container_id) == &*instance.id && stored.state.running.is_some())?;
        Some(Prior::new(&instance.id, stored.started == Some(true), stored.ready, || rng.fraction()))
    });
    let grace = pod.spec.termination_grace_period_seconds.unwrap_or(GRACE_SECONDS);
    ContainerProber::new(spec, container.restarts.clone(), grace, &settings.node, prior)
}

fn restore(
    now: Time,
    container: &mut PodContainer,
    spec: &Container,
    stored: Option<&ContainerStatus>,
    found: &[&Found],
    settings: &Settings,
) {
    let ended_before = |found: &&&Found| match &found.state {
        FoundState::Ended(exit) => Some(Ended { id: found.id.as_str().into(), exit: exit.clone(), next: Next::Never }),
        FoundState::Running { .. } => None,
    };
    let of_status = |terminated: &Option<ContainerTerminated>| terminated.as_ref().map(|end| ended(end, now));
    if let Some(latest) = found.first() {
        let is_stored = stored.filter(|stored| id_of(&stored.container_id) == latest.id);
        container.instances = latest.number + 1;
        container.last = found.get(1).as_ref().and_then(ended_before).or_else(|| {
            let stored = stored?;
            match is_stored {
                Some(_) if stored.state.waiting.is_none() => of_status(&stored.last_state.terminated),
                Some(_) => None,
                None => of_status(&stored.state.terminated).or_else(|| of_status(&stored.last_state.terminated)),
            }
        });
        container.state = match &latest.state {
            FoundState::Running { started_at } => {
                let known = is_stored.is_some_and(|stored| stored.state.running.is_some());
                let hook = spec.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some());
                InstanceState::Running(Box::new(Instance {
                    id: latest.id.as_str().into(),
                    started_at: (*started_at).min(now),
                    // Whether the hook was carried out is not known: it may be carried out twice, but not left out.
                    in_post_start: hook && !known,
                    stop: None,
                    restart_anyway: false,
                }))
            }
            FoundState::Ended(exit) => {
                let next = next(now, container, exit, is_stored, latest.interrupted, settings);
                let ended = Ended { id: latest.id.as_str().into(), exit: exit.clone(), next };
                waits_again(now, is_stored, Box::new(ended))
            }
        };
        return;
    }
    let Some(stored) = stored else { return };
    // Nothing is left here of what the status speaks of: the machine was started anew, or the directory was removed.
    let end = match &stored.state {
        state if state.terminated.is_some() => of_status(&state.terminated),
        state if state.running.is_some() => {
            let started_at = state.running.as_ref().and_then(|running| running.started_at).map_or(now, |time| time.0);
            Some(Ended { id: id_of(&stored.container_id).into(), exit: Exit::unknown(started_at, now), next: Next::Never })
        }
        _ => of_status(&stored.last_state.terminated),
    };
    let Some(mut end) = end else {
        container.state = unfit(now, stored, None).unwrap_or(InstanceState::New);
        return;
    };
    container.instances = u64::try_from(stored.restart_count).unwrap_or(0) + 1;
    if stored.state.waiting.is_none() {
        container.last = of_status(&stored.last_state.terminated);
    }
    end.next = next(now, container, &end.exit, Some(stored), false, settings);
    container.state = waits_again(now, Some(stored), Box::new(end));
}

/// Returns the state of a container whose next instance could not be set up, if that is what the status tells of.
fn waits_again(now: Time, stored: Option<&ContainerStatus>, ended: Box<Ended>) -> InstanceState {
    match stored {
        Some(stored) if ended.next != Next::Never => {
            unfit(now, stored, Some(ended.clone())).unwrap_or(InstanceState::Ended(ended))
        }
        _ => InstanceState::Ended(ended),
    }
}

fn unfit(now: Time, stored: &ContainerStatus, after: Option<Box<Ended>>) -> Option<InstanceState> {
    let waiting = stored.state.waiting.as_ref()?;
    if ["", CRASH_LOOP, "ContainerCreating", "PodInitializing"].contains(&waiting.reason.as_str()) {
        return None;
    }
    let why = Box::new(Waiting { reason: waiting.reason.clone(), message: waiting.message.clone() });
    Some(InstanceState::Unfit { why, retry_at: now, after })
}

/// Decides what follows an instance that ended while nobody looked, or before the agent did.
fn next(
    now: Time,
    container: &mut PodContainer,
    exit: &Exit,
    stored: Option<&ContainerStatus>,
    interrupted: bool,
    settings: &Settings,
) -> Next {
    if interrupted && container.restarts.follow_kill() {
        return Next::At { at: now, delay: Duration::ZERO };
    }
    if let Some(delay) = stored.and_then(stored_delay) {
        // The ladder goes on from the step that it had reached.
        container.back_off = BackOff::after(delay, &settings.back_off);
        return Next::At { at: exit.finished_at.min(now) + delay, delay };
    }
    if !container.restarts.follow(Some(exit.exit_code)) {
        return Next::Never;
    }
    let exited = exit.finished_at.min(now);
    let at = container.back_off.restart_at(&settings.back_off, exit.started_at.min(exited), exited);
    Next::At { at, delay: at.since(exited) }
}

/// Returns the delay of the back-off that a stored status tells of.
fn stored_delay(stored: &ContainerStatus) -> Option<Duration> {
    let waiting = stored.state.waiting.as_ref().filter(|waiting| waiting.reason == CRASH_LOOP)?;
    let delay = waiting.message.strip_prefix("back-off ")?.split(' ').next()?;
    api::duration::parse(delay).ok()
}

fn ended(terminated: &ContainerTerminated, now: Time) -> Ended {
    let time = |stamp: Option<api::Timestamp>| stamp.map_or(now, |stamp| stamp.0);
    Ended {
        id: id_of(&terminated.container_id).into(),
        exit: Exit {
            exit_code: i32::try_from(terminated.exit_code).unwrap_or(i32::MAX),
            signal: terminated.signal.and_then(|signal| i32::try_from(signal).ok()),
            reason: terminated.reason.clone(),
            message: terminated.message.clone(),
            started_at: time(terminated.started_at),
            finished_at: time(terminated.finished_at),
        },
        next: Next::Never,
    }
}

fn id_of(container_id: &str) -> &str {
    container_id.strip_prefix(CONTAINER_ID_PREFIX).unwrap_or(container_id)
}
