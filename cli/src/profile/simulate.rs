//! `lifesign profile simulate`: what a profile does to a fleet behind real links, in numbers.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use profiles::Profile;
use sim::{Output, Scenario, SimError};

use super::api::Api;
use super::plan::in_use;
use super::rollout::GraceArgs;
use super::table::{maybe, table};
use super::{Format, print_json};
use crate::error::Failure;
use crate::{block_on, output};
use sim::number;

/// So many nodes a fleet has that nobody has counted.
const NODES: usize = 1000;
/// Nothing is shown of runs that are over before anybody could read it.
const BAR_AFTER: Duration = Duration::from_millis(500);
/// The bar is drawn this often.
const BAR_EVERY: Duration = Duration::from_millis(200);

/// Simulate a fleet under each profile and each state between them
///
/// The same code that judges nodes on a plane, in a world of lossy links, outages and deaths. The same scenario and seed give
/// the same output, byte for byte. Without a file: a day in the life of a fleet behind a mediocre link (1 % loss, 20 ms,
/// an outage of about 15 s every other day and a death every twenty days per node). examples/scenarios/edge.yaml is a file with every
/// field explained.
#[derive(Args)]
pub(super) struct SimulateArgs {
    /// The scenario, YAML or JSON; - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE|-", conflicts_with_all = ["nodes", "days", "profile"])]
    filename: Option<PathBuf>,
    /// How many nodes [default: 1000, or those of --kubeconfig]
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// As many nodes as this cluster has, and what it uses now beside each profile; it is only read
    #[arg(long, value_name = "FILE", conflicts_with_all = ["filename", "profile"])]
    kubeconfig: Option<PathBuf>,
    /// How many days
    #[arg(long, value_name = "DAYS", default_value_t = 1.0)]
    days: f64,
    /// What everything random follows from
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Only this profile
    #[arg(long, value_name = "PROFILE", value_parser = super::profile)]
    profile: Option<Profile>,
    #[command(flatten)]
    grace: GraceArgs,
    /// Draw the result into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// How to say it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
}

impl SimulateArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let scenarios = self.scenarios()?;
        for (_, scenario) in &scenarios {
            scenario.validate().map_err(Failure::usage)?;
        }
        let runs = simulate_all(&scenarios).map_err(|error| self.broken(&error))?;
        if let Some(path) = &self.plot {
            let svg = sim::plot(&self.title(&runs), &runs);
            std::fs::write(path, svg).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        }
        match (self.output, &runs[..]) {
            (Format::Json, [only]) => print_json(only),
            (Format::Json, runs) => print_json(&runs),
            (Format::Table, runs) => {
                output::print(format!("{}\n\n{}", self.title(runs), as_table(runs)).as_bytes())?;
                if scenarios.len() > 1 {
                    eprintln!(
                        "states are heartbeat/grace/toleration; ! is one that no rollout visits, here with a stock kubelet and controller manager"
                    );
                }
                Ok(())
            }
        }
    }

    /// Returns what is simulated, each with its name.
    fn scenarios(&self) -> Result<Vec<(String, Scenario)>, Failure> {
        if let Some(path) = &self.filename {
            let text =
                if path.as_os_str() == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
            let bad = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
            let mut scenario: Scenario =
                serde_saphyr::from_str(&text.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
            scenario.seed = self.seed.unwrap_or(scenario.seed);
            return Ok(vec![(String::new(), scenario)]);
        }
        let (seed, nodes) = (self.seed.unwrap_or(1), self.nodes.unwrap_or(NODES));
        if let Some(path) = &self.kubeconfig {
            let grace = self.grace.default_node_monitor_grace_period;
            let (found, state) = block_on(async { in_use(&Api::of(path).await?, grace).await })?;
            let nodes = self.nodes.unwrap_or(found);
            let mut all = vec![sim::in_use(nodes, self.days, seed, &state)];
            all.extend(sim::comparison(nodes, self.days, seed));
            return Ok(all);
        }
        Ok(match self.profile {
            Some(profile) => vec![(String::new(), Scenario::everyday(nodes, self.days, seed, profile))],
            None => sim::comparison(nodes, self.days, seed),
        })
    }

    fn title(&self, runs: &[Output]) -> String {
        let first = &runs[0];
        let days = if first.days == 1.0 { "1 day".to_owned() } else { format!("{} days", first.days) };
        format!("{} nodes, {days}, seed {}", first.nodes, first.seed)
    }

    /// Returns a failure that says how to see it again.
    fn broken(&self, error: &SimError) -> Failure {
        let (seed, nodes) = (self.seed.unwrap_or(1), self.nodes.unwrap_or(NODES));
        let command = match (&self.filename, self.profile) {
            (Some(path), _) => format!("-f {}", path.display()),
            (None, Some(profile)) => format!("--nodes {nodes} --days {} --seed {seed} --profile {profile}", self.days),
            (None, None) => format!("--nodes {nodes} --days {} --seed {seed}", self.days),
        };
        match error {
            SimError::Broken(_) => Failure::bug(error).hint(format!("repeat it with: lifesign profile simulate {command}")),
            error => Failure::usage(error),
        }
    }
}

/// Runs scenarios on all processors; the order of the results is that of the scenarios.
pub(super) fn simulate_all(scenarios: &[(String, Scenario)]) -> Result<Vec<Output>, SimError> {
    let next = AtomicUsize::new(0);
    // Parts per million of each run, for the bar.
    let progress: Vec<AtomicU64> = scenarios.iter().map(|_| AtomicU64::new(0)).collect();
    let results: Vec<Mutex<Option<Result<Output, SimError>>>> = scenarios.iter().map(|_| Mutex::new(None)).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(scenarios.len());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    while let Some((index, (name, scenario))) = from_the_end(scenarios, next.fetch_add(1, Ordering::Relaxed)) {
                        let mut tell = |part: f64| progress[index].store((part * 1e6) as u64, Ordering::Relaxed);
                        let result = sim::simulate_telling(scenario, &mut tell).map(|mut output| {
                            if !name.is_empty() {
                                output.profile.clone_from(name);
                            }
                            output
                        });
                        tell(1.0);
                        *results[index].lock().expect("no code panics while it holds a result") = Some(result);
                    }
                })
            })
            .collect();
        if std::io::stderr().is_terminal() {
            let began = Instant::now();
            while workers.iter().any(|worker| !worker.is_finished()) {
                std::thread::sleep(BAR_EVERY);
                if began.elapsed() >= BAR_AFTER {
                    let done: u64 = progress.iter().map(|part| part.load(Ordering::Relaxed)).sum();
                    draw(done as f64 / 1e6 / progress.len() as f64, began.elapsed());
                }
            }
            // The bar goes when the result comes.
            eprint!("\r\x1b[K");
        }
    });
    let take = |result: Mutex<Option<Result<Output, SimError>>>| {
        result.into_inner().expect("no code panics while it holds a result").expect("every scenario was run")
    };
    results.into_iter().map(take).collect()
}

/// Returns a scenario and its index, the last one first: those that a comparison ends with take longest.
fn from_the_end<T>(all: &[T], nth: usize) -> Option<(usize, &T)> {
    let index = all.len().checked_sub(nth + 1)?;
    Some((index, &all[index]))
}

fn draw(part: f64, elapsed: Duration) {
    const WIDTH: usize = 40;
    let full = ((part * WIDTH as f64) as usize).min(WIDTH);
    let left = if part > 0.02 { format!("{:.0} s left", elapsed.as_secs_f64() * (1.0 / part - 1.0)) } else { String::new() };
    eprint!("\r[{}{}] {:3.0} %  {left}\x1b[K", "=".repeat(full), " ".repeat(WIDTH - full), part * 100.0);
    let _ = std::io::stderr().flush();
}

/// Returns runs as a table, and the states of each run that has more than one.
pub(super) fn as_table(runs: &[Output]) -> String {
    let head =
        ["PROFILE OR STATE", "FALSE NOTREADY/NODE-DAY", "FALSE EVICTIONS", "DETECT P50", "P99", "EVICT P50", "P99", "WRITES/S"];
    let rate = |rate: &sim::Rate| format!("{} ({}..{})", number(rate.mean), number(rate.low), number(rate.high));
    let rows: Vec<Vec<String>> = runs
        .iter()
        .map(|run| {
            vec![
                run.profile.clone(),
                rate(&run.false_not_ready_per_node_day),
                number(run.false_evictions_per_node_day.mean),
                maybe(run.detect_seconds.p50),
                maybe(run.detect_seconds.p99),
                maybe(run.evict_seconds.p50),
                maybe(run.evict_seconds.p99),
                number(run.writes_per_second.total),
            ]
        })
        .collect();
    let mut text = table(&head, &[false, true, true, true, true, true, true, true], &rows);
    for run in runs.iter().filter(|run| run.states.len() > 1) {
        let rows: Vec<Vec<String>> = run
            .states
            .iter()
            .map(|state| {
                vec![
                    format!("{}/{}/{}", state.interval, state.grace, state.toleration),
                    state.chances.to_string(),
                    state.class.to_owned(),
                    number(state.node_seconds / 86_400.0),
                    number(state.false_not_ready_per_node_day),
                    number(state.false_evictions_per_node_day),
                ]
            })
            .collect();
        let head = ["STATE", "CHANCES", "CLASS", "NODE-DAYS", "FALSE NOTREADY/NODE-DAY", "FALSE EVICTIONS"];
        text.push_str(&format!("\nstates of {}\n", run.profile));
        text.push_str(&table(&head, &[false, true, false, true, true, true], &rows));
    }
    text
}
