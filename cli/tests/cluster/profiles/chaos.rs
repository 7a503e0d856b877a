//! Profiles that change their mind while parts are killed: whatever happens, the node stays Ready, files are whole, and in the end everything
//! is as it was.

use std::time::{Duration, Instant};

use machine::Rng;
use serde_json::Value;

use super::parts::{LOW, MEDIUM, Parts, files};
use super::rollout::Undisturbed;
use crate::bed::Bed;

const TRANSITIONS: usize = 20;
/// Shortened; a kubelet at Low renews its Lease once a minute.
const DEADLINES: [&str; 3] = ["kubelet=240s", "kube-controller-manager=40s", "kube-apiserver=60s"];
/// At most so long a profile is waited for.
const PATIENCE: u64 = 70;

/// Every file is one that its component can read, with all that was there before.
fn are_whole(parts: &Parts<'_>) {
    for (path, content) in files(&parts.root) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Being written; it is another one in a moment.
        if name.starts_with('.') {
            continue;
        }
        let read =
            |content: &[u8]| -> Value { serde_saphyr::from_slice(content).unwrap_or_else(|error| panic!("{name}: {error}")) };
        let now = read(&content);
        assert!(now["kind"].is_string(), "{name}: {now}");
        let Some(before) = parts.before.get(&path).map(|content| read(content)) else { continue };
        let command = |manifest: &Value| manifest["spec"]["containers"][0]["command"].as_array().cloned().unwrap_or_default();
        let lost: Vec<Value> = command(&before).into_iter().filter(|word| !command(&now).contains(word)).collect();
        assert_eq!(lost, Vec::<Value>::new(), "{name}");
    }
}

pub(super) fn random_profiles_and_kills(bed: &Bed) {
    let seed = std::env::var("LIFESIGN_TEST_SEED").map_or_else(
        |_| std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs(),
        |text| text.parse().expect("LIFESIGN_TEST_SEED is a number"),
    );
    println!("LIFESIGN_TEST_SEED={seed} repeats this");
    let mut rng = Rng::new(seed);
    let deadlines: Vec<&str> = DEADLINES.iter().flat_map(|deadline| ["--profile-step-deadline", deadline]).collect();
    let parts = Parts::start(bed, &deadlines);
    let namespace = bed.namespace("chaos");
    let watched = Undisturbed::begin(&parts, &namespace);
    let (mut wanted, mut kills, mut reached) = ("", [0; 3], 0);
    for number in 1..=TRANSITIONS {
        let others: Vec<&str> = ["", "Default", MEDIUM, LOW].into_iter().filter(|profile| *profile != wanted).collect();
        wanted = others[rng.below(3) as usize];
        parts.want(wanted);
        let began = Instant::now();
        let mut hit_at = began + Duration::from_secs(3 + rng.below(15));
        let end = began + Duration::from_secs(20 + rng.below(PATIENCE - 20));
        let in_force = loop {
            std::thread::sleep(Duration::from_millis(200));
            are_whole(&parts);
            if parts.in_force(wanted) {
                break true;
            }
            if Instant::now() >= end {
                break false;
            }
            if Instant::now() >= hit_at {
                let victim = rng.below(3) as usize;
                kills[victim] += 1;
                match victim {
                    0 => parts.hit_agent(),
                    1 => parts.controllers.as_ref().unwrap().hit(),
                    _ => drop(bed.run(&["exec", "sh", "-c", "kill -9 $(pidof kube-apiserver) || true"])),
                }
                hit_at = Instant::now() + Duration::from_secs(5 + rng.below(20));
            }
        };
        reached += usize::from(in_force);
        println!(
            "{number}: {wanted:?}, {} after {} s",
            if in_force { "in force" } else { "another one is asked for" },
            began.elapsed().as_secs()
        );
        watched.check(&parts, &namespace);
    }
    println!(
        "{reached} of {TRANSITIONS} profiles were in force before the next; killed: agent {}, controllers {}, API server {}",
        kills[0], kills[1], kills[2]
    );
    assert!(reached > 0 && kills.iter().all(|count| *count > 0), "nothing was tried");
    // Whatever has happened, each profile can be had.
    parts.complete(LOW);
    parts.uninstall();
    parts.uses(["10s 40", "", ""]);
    watched.check(&parts, &namespace);
}
