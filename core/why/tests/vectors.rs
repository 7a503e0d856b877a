//! The cases of `conformance/why`: objects in, the first broken link out.
//!
//! The runner answers every question from the objects of the case, as an API server would, and counts them. Beside what a case
//! expects, the laws of every answer are checked.

#[path = "vectors/world.rs"]
mod world;

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;
use testkit::vectors::{Case, Suite, Verdict};
use why::{Answer, Examined, Facts, State, Target, Verdict as Answered};
use world::World;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    now: api::Timestamp,
    target: String,
    #[serde(default = "default_namespace")]
    namespace: String,
    #[serde(default)]
    objects: Vec<Value>,
    #[serde(default)]
    forbidden: Vec<String>,
    #[serde(default)]
    agent: Option<Value>,
}

fn default_namespace() -> String {
    "default".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    verdict: String,
    #[serde(default)]
    broken: Option<String>,
    #[serde(default)]
    cause: Option<String>,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    evidence: Vec<String>,
    #[serde(default, rename = "do")]
    actions: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
    requests: usize,
}

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME"))
        .file("why/nodes", check)
        .file("why/pods", check)
        .file("why/services", check)
        .file("why/workloads", check)
        .run()
}

/// More rounds than this would be a question that never ends.
const ROUNDS_MAX: usize = 8;

fn answer(given: &Given) -> Result<(Answer, usize), String> {
    let words = vec![given.target.clone()];
    let target = Target::parse(&words, &given.namespace).map_err(|error| error.to_string())?;
    let world = World::new(&given.objects, &given.forbidden, given.agent.as_ref());
    let mut facts = Facts::default();
    for _ in 0..ROUNDS_MAX {
        match why::examine(given.now.0, &target, &facts) {
            Examined::Answer(answer) => return Ok((*answer, facts.len())),
            Examined::Ask(queries) => {
                if queries.is_empty() {
                    return Err("it asks for nothing and has no answer".to_owned());
                }
                for query in queries {
                    let reply = world.reply(&query);
                    facts.insert(query, reply);
                }
            }
        }
    }
    Err(format!("no answer after {ROUNDS_MAX} rounds"))
}

fn check(case: Case<Given, Expect>) -> Verdict {
    let (given, expect) = (&case.given, &case.expect);
    let (answer, requests) = answer(given)?;
    let text = why::render(&answer, given.now.0);
    let mut wrong = laws(&answer, &text);
    let mut equal = |what: &str, expected: &str, got: &str| {
        if expected != got {
            wrong.push(format!("{what}: expected {expected:?}, got {got:?}"));
        }
    };
    equal(
        "verdict",
        &expect.verdict,
        match answer.verdict {
            Answered::Healthy => "healthy",
            Answered::Found => "found",
            Answered::CannotTell => "cannotTell",
        },
    );
    equal("broken", expect.broken.as_deref().unwrap_or(""), answer.broken.unwrap_or(""));
    equal("cause", expect.cause.as_deref().unwrap_or(""), answer.finding.as_ref().map_or("", |finding| finding.cause));
    equal("requests", &expect.requests.to_string(), &requests.to_string());
    let finding = answer.finding.as_ref();
    let evidence: Vec<String> = finding
        .into_iter()
        .flat_map(|f| &f.evidence)
        .map(|e| format!("{} {}: {} {}", e.object, e.field, e.value, e.at.map(|at| at.to_string()).unwrap_or_default()))
        .collect();
    let actions: Vec<String> =
        finding.into_iter().flat_map(|f| &f.actions).map(|a| format!("{} {}", a.say, a.command)).collect();
    for (what, wanted, texts) in [
        ("says", &expect.says, &vec![answer.headline.clone()]),
        ("evidence", &expect.evidence, &evidence),
        ("do", &expect.actions, &actions),
    ] {
        for part in wanted.iter().filter(|part| !texts.iter().any(|text| text.contains(part.as_str()))) {
            wrong.push(format!("{what}: nothing has {part:?} in {texts:#?}"));
        }
    }
    for part in expect.not.iter().filter(|part| text.contains(part.as_str())) {
        wrong.push(format!("not: the answer has {part:?}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{}\n{text}", wrong.join("\n"))) }
}

/// What holds for every answer.
fn laws(answer: &Answer, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let lines = text.lines().count();
    if lines > 40 || (answer.verdict == Answered::Healthy && lines != 1) {
        wrong.push(format!("{lines} lines"));
    }
    let broken = answer.links.iter().position(|link| link.state == State::Broken);
    let good = match broken {
        None => answer.verdict != Answered::Found && answer.links.iter().all(|link| link.state != State::NotReached),
        Some(place) => {
            answer.verdict == Answered::Found
                && answer.broken == Some(answer.links[place].name)
                && answer.links[..place].iter().all(|link| matches!(link.state, State::Ok | State::Unknown))
                && answer.links[place + 1..].iter().all(|link| link.state == State::NotReached)
        }
    };
    if !good {
        wrong.push("the links are not ok up to the broken one and not reached after it".to_owned());
    }
    if let Some(finding) = &answer.finding
        && (finding.actions.is_empty() || finding.what.is_empty())
    {
        wrong.push("a finding says what is wrong and what to do".to_owned());
    }
    wrong
}
