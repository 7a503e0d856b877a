//! `lifesign explain`: what the probes of a manifest will really do.

mod annotate;
mod locate;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use ::explain::{Look, Options, Report, Severity, explain, explain_with_patches, rules, table};
use api::FeatureGates;
use clap::{Args, ValueEnum};
use probe::{NodePolicy, SubSecondProbePolicy};
use serde_json::Value;

use crate::error::Failure;
use crate::logging::has_colour;
use crate::manifests::Manifest;
use crate::{manifests, output};
use annotate::Located;
pub(crate) use locate::items;
use locate::line;

/// The table is as wide as the help, and no wider than the terminal.
const WIDTH: usize = 100;
/// Below this nothing lines up any more.
const WIDTH_MIN: usize = 60;

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
    /// Leave out findings with these codes; the annotation lifesign.dev/explain-ignore does so for one object
    #[arg(long, value_name = "CODE,...", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Show for each finding a YAML patch that takes it away; JSON and YAML always have it
    #[arg(long)]
    patches: bool,
    /// Compare with a stock kubelet: first attempt, time to ready, time until a failure acts
    #[arg(long)]
    kubelet: bool,
    /// Exit with 1 if there is a warning or an error, a kind that is not known, or nothing to explain
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
    /// For code scanning: SARIF 2.1.0
    Sarif,
    /// For workflows of GitHub: a line per finding
    Github,
}

impl ExplainArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(code) = self.ignore.iter().find(|code| !rules::is_known(code)) {
            return Err(Failure::usage(format!("--ignore {code}: there is no such finding"))
                .hint(format!("one of {}", rules::RULES.iter().map(|(code, _)| *code).collect::<Vec<_>>().join(", "))));
        }
        let (mut manifests, bad) = manifests::read_all(&self.filenames);
        let objects: Vec<Value> = manifests.iter_mut().map(|manifest| written(manifest.object.take())).collect();
        let node = NodePolicy { gates: self.feature_gates.clone(), policy: self.policy, second_look: self.second_look };
        let options = Options {
            node,
            listen_after: self.listen_after,
            ignore: self.ignore.iter().cloned().collect(),
            kubelet: self.kubelet,
        };
        let patches = self.patches || matches!(self.output, Format::Json | Format::Yaml);
        let mut report = if patches { explain_with_patches(&objects, &options) } else { explain(&objects, &options) };
        locate(&mut report, &manifests);
        output::print(self.format(&report, &options)?.as_bytes())?;
        // What can be read is explained first; then what cannot be read is said, all of it.
        if let Some((last, others)) = bad.split_last() {
            others.iter().for_each(|why| eprintln!("error: {why}"));
            return Err(Failure::usage(last));
        }
        match strict(&report).filter(|_| self.strict) {
            Some(found) => return Err(Failure::no(found)),
            None if report.workloads.is_empty() => eprintln!("{NOTHING}"),
            None => {}
        }
        Ok(())
    }

    fn format(&self, report: &Report, options: &Options) -> Result<String, Failure> {
        match self.output {
            Format::Table => Ok(table(report, options, look(self.patches))),
            Format::Json => serde_json::to_string_pretty(report).map(|text| text + "\n").map_err(Failure::bug),
            Format::Yaml => serde_saphyr::to_string(report).map_err(Failure::bug),
            Format::Sarif => Ok(format!("{:#}\n", annotate::sarif(&located(report)))),
            Format::Github => Ok(annotate::github(&located(report))),
        }
    }
}

/// Returns how a table is shown: as the terminal can, or as a file wants it.
fn look(patches: bool) -> Look {
    let stdout = std::io::stdout();
    let width = match stdout.is_terminal() {
        true => rustix::termios::tcgetwinsize(&stdout).map_or(WIDTH, |size| usize::from(size.ws_col).clamp(WIDTH_MIN, WIDTH)),
        false => WIDTH,
    };
    Look { width, colour: has_colour(&stdout), patches }
}

/// Returns an object without what a cluster adds to it: large, and nothing that anybody wrote.
fn written(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    object
}

/// Writes down file and line of every finding.
fn locate(report: &mut Report, manifests: &[Manifest]) {
    for workload in &mut report.workloads {
        let Some(manifest) = manifests.get(workload.object) else { continue };
        for finding in &mut workload.findings {
            let line = manifest.line + line(&manifest.text, &finding.path);
            finding.place = Some(format!("{}:{line}", manifest.source));
        }
    }
}

/// Returns every finding with the file and line that it is about.
fn located(report: &Report) -> Vec<Located<'_>> {
    let mut found = Vec::new();
    for workload in &report.workloads {
        for finding in &workload.findings {
            let place = finding.place.as_deref().and_then(|place| place.rsplit_once(':'));
            let (file, line) = place.and_then(|(file, line)| Some((file.to_owned(), line.parse().ok()?))).unwrap_or_default();
            let object = format!("{} {}/{}", workload.kind, workload.namespace, workload.name);
            found.push(Located { finding, object, file, line });
        }
    }
    found
}

const NOTHING: &str = "nothing to explain: there is no pod, pod template or PodProbeMarker";

/// Returns what a strict reader does not accept, if anything.
fn strict(report: &Report) -> Option<String> {
    let count = |severity| report.findings().filter(|finding| finding.severity == severity).count();
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    if report.workloads.is_empty() {
        return Some(NOTHING.to_owned());
    }
    let unknown = report.skipped.iter().find(|skipped| !rules::is_known_kind(&skipped.api_version, &skipped.kind));
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => unknown.map(|skipped| {
            format!(
                "{} {} of {} is of a kind that is not known, and has no pod template",
                skipped.kind, skipped.name, skipped.api_version
            )
        }),
        (errors, warnings) => Some(format!("found {} and {}", plural(errors, "error"), plural(warnings, "warning"))),
    }
}
