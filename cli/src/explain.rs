//! `lifesign explain`: what the probes of a manifest will really do.

use std::path::PathBuf;
use std::time::Duration;

use ::explain::{Options, Report, Severity, explain, table};
use api::FeatureGates;
use clap::{Args, ValueEnum};
use probe::{NodePolicy, SubSecondProbePolicy};
use serde_json::Value;

use crate::error::Failure;
use crate::{manifests, output};

/// The table is as wide as the help.
const WIDTH: usize = 100;

/// Say what the probes of a manifest will really do
///
/// Per container: when it is ready, how long a failure takes to act, what changes without sub-second probes, a timeline, and
/// what is dangerous. Reads pods, every kind with a pod template, PodProbeMarkers, and the Services in front of them. Asks
/// no cluster.
#[derive(Args)]
pub(crate) struct ExplainArgs {
    /// What to explain: files, folders, or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-", required = true)]
    filenames: Vec<PathBuf>,
    /// How to say it
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
    /// Switch features on or off, for example SubSecondProbes=false
    #[arg(long, value_name = "A=true,B=false", default_value = "", env = "LIFESIGN_FEATURE_GATES")]
    feature_gates: FeatureGates,
    /// When sub-second probe periods are used: OnlyTheFirstTime, AlwaysWhenWaitingForSuccess or Always
    #[arg(long, alias = "sub-second-probe-policy", value_name = "POLICY", default_value = "OnlyTheFirstTime")]
    policy: SubSecondProbePolicy,
    /// Repeat a first attempt that did not succeed once, a second later
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    second_look: bool,
    /// The application listens this long after the start of its container, for example 1370ms
    #[arg(long, value_name = "DURATION", value_parser = api::duration::parse)]
    listen_after: Option<Duration>,
    /// Exit with 1 if there is a warning or an error
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
    /// For programs
    Yaml,
}

impl ExplainArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let objects: Vec<Value> = manifests::read(&self.filenames)?.into_iter().map(|manifest| manifest.object).collect();
        let node = NodePolicy { gates: self.feature_gates, policy: self.policy, second_look: self.second_look };
        let options = Options { node, listen_after: self.listen_after };
        let report = explain(&objects, &options);
        output::print(format(self.output, &report, &options)?.as_bytes())?;
        if report.workloads.is_empty() {
            eprintln!("nothing to explain: no object has probes");
        }
        match strict(&report).filter(|_| self.strict) {
            Some(found) => Err(Failure::no(found)),
            None => Ok(()),
        }
    }
}

fn format(format: Format, report: &Report, options: &Options) -> Result<String, Failure> {
    match format {
        Format::Table => Ok(table(report, options, WIDTH)),
        Format::Json => serde_json::to_string_pretty(report).map(|text| text + "\n").map_err(Failure::bug),
        Format::Yaml => serde_saphyr::to_string(report).map_err(Failure::bug),
    }
}

/// Returns what a strict reader does not accept, if anything.
fn strict(report: &Report) -> Option<String> {
    let count = |severity| report.findings().filter(|finding| finding.severity == severity).count();
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => None,
        (errors, warnings) => Some(format!("found {} and {}", plural(errors, "error"), plural(warnings, "warning"))),
    }
}
