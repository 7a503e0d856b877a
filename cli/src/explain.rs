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
use crate::manifests::Document;
use crate::{manifests, output};
use annotate::Located;

/// The table is as wide as the help, and no wider than the terminal.
const WIDTH: usize = 100;
/// Below this nothing lines up any more.
const WIDTH_MIN: usize = 60;

/// Kinds of Kubernetes that have no pods: nothing is overlooked by skipping them.
const KNOWN_WITHOUT_PODS: [&str; 34] = [
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CustomResourceDefinition",
    "EndpointSlice",
    "Endpoints",
    "Gateway",
    "HTTPRoute",
    "HorizontalPodAutoscaler",
    "Ingress",
    "IngressClass",
    "Lease",
    "LimitRange",
    "MutatingWebhookConfiguration",
    "Namespace",
    "NetworkPolicy",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
    "PodMonitor",
    "PriorityClass",
    "PrometheusRule",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "RuntimeClass",
    "Secret",
    "ServiceAccount",
    "ServiceMonitor",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingWebhookConfiguration",
];

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
        let (documents, bad) = manifests::read_documents(&self.filenames);
        let objects: Vec<Value> = documents.iter().flat_map(|document| document.objects.iter().cloned()).collect();
        let node = NodePolicy { gates: self.feature_gates.clone(), policy: self.policy, second_look: self.second_look };
        let options = Options {
            node,
            listen_after: self.listen_after,
            ignore: self.ignore.iter().cloned().collect(),
            kubelet: self.kubelet,
        };
        let patches = self.patches || matches!(self.output, Format::Json | Format::Yaml);
        let report = if patches { explain_with_patches(&objects, &options) } else { explain(&objects, &options) };
        output::print(self.format(&report, &options, &documents)?.as_bytes())?;
        if report.workloads.is_empty() && bad.is_empty() {
            eprintln!("nothing to explain: no object has a pod template");
        }
        // What can be read is explained first; then what cannot be read is said, all of it.
        if let Some((first, more)) = bad.split_first() {
            more.iter().for_each(|why| eprintln!("error: {why}"));
            return Err(Failure::usage(first).hint("check the paths and files given with -f"));
        }
        match strict(&report).filter(|_| self.strict) {
            Some(found) => Err(Failure::no(found)),
            None => Ok(()),
        }
    }

    fn format(&self, report: &Report, options: &Options, documents: &[Document]) -> Result<String, Failure> {
        match self.output {
            Format::Table => Ok(table(report, options, look(self.patches))),
            Format::Json => serde_json::to_string_pretty(report).map(|text| text + "\n").map_err(Failure::bug),
            Format::Yaml => serde_saphyr::to_string(report).map_err(Failure::bug),
            Format::Sarif => Ok(format!("{:#}\n", annotate::sarif(&located(report, documents)))),
            Format::Github => Ok(annotate::github(&located(report, documents))),
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

/// Returns every finding with the file and line that it is about.
fn located<'a>(report: &'a Report, documents: &[Document]) -> Vec<Located<'a>> {
    let mut found = Vec::new();
    for workload in &report.workloads {
        let is_it = |object: &&Value| {
            let name = ["name", "generateName"].map(|field| api::json::text(object, &["metadata", field]));
            api::json::text(object, &["kind"]) == workload.kind && name.contains(&workload.name.as_str())
        };
        let document = documents.iter().find(|document| document.objects.iter().any(|object| is_it(&object)));
        for finding in &workload.findings {
            let (file, line) = document.map_or_else(Default::default, |document| {
                // In a list the items have no paths of their own: the document is as near as it gets.
                let within = if document.objects.len() == 1 { locate::line(&document.text, &finding.path) } else { 0 };
                (document.source.clone(), document.line + within)
            });
            let object = format!("{} {}/{}", workload.kind, workload.namespace, workload.name);
            found.push(Located { finding, object, file, line: line.max(1) });
        }
    }
    found
}

/// Returns what a strict reader does not accept, if anything.
fn strict(report: &Report) -> Option<String> {
    let count = |severity| report.findings().filter(|finding| finding.severity == severity).count();
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    if report.workloads.is_empty() {
        return Some("there is nothing to explain: no object has a pod template".to_owned());
    }
    let unknown = report.skipped.iter().find(|skipped| !KNOWN_WITHOUT_PODS.contains(&skipped.kind.as_str()));
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => unknown.map(|skipped| {
            format!("{} {} is of a kind that is not known, and has no pod template", skipped.kind, skipped.name)
        }),
        (errors, warnings) => Some(format!("found {} and {}", plural(errors, "error"), plural(warnings, "warning"))),
    }
}
