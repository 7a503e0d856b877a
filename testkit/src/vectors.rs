//! The vector runner: one named test per case.
//!
//! A test target `vectors` (without the standard harness) makes a [`Suite`], names a function for each of its files, and
//! runs it. Cases come from `conformance/` of this repository and from the folders of `LIFESIGN_VECTORS=dir[:dir]`, which
//! have the same layout `<topic>/<file>.yaml`. A folder that holds no vectors, and a topic or file that no runner knows,
//! fail the run: a case that somebody wrote is never silently left out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::table::{self, Table};

/// What a case says: nothing, or why it failed.
pub type Verdict = Result<(), String>;

/// A case as most files have it: what is given and what is expected of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case<Given, Expect> {
    /// Its name; the runner shows it.
    pub name: String,
    /// Why it is as it is, for people.
    #[serde(default)]
    pub note: Option<String>,
    /// What it adds to a document that it comes from, for people.
    #[serde(default)]
    pub plus: Option<String>,
    /// What is given.
    pub given: Given,
    /// What must come of it.
    pub expect: Expect,
}

/// The cases of one package.
pub struct Suite {
    /// Whose rows of the table these are; `None`: of another package, which runs them first.
    package: Option<&'static str>,
    table: Table,
    folders: Vec<PathBuf>,
    known: BTreeSet<&'static str>,
    trials: Vec<Trial>,
    threads: Option<usize>,
}

impl Suite {
    /// Returns the suite of a package; give it `env!("CARGO_PKG_NAME")`.
    pub fn new(package: &'static str) -> Suite {
        Suite::of(package, table::FILES, folders())
    }

    /// Returns the suite of a package by a table and folders of one's own.
    pub fn of(package: &'static str, table: Table, folders: Vec<PathBuf>) -> Suite {
        let mut suite = Suite { package: Some(package), table, folders, ..Suite::again() };
        for folder in suite.folders.clone() {
            suite.refuse_unknown_files(&folder);
        }
        suite
    }

    /// Returns a suite that runs files of another package once more, in another way; the table names that package.
    pub fn again() -> Suite {
        Suite {
            package: None,
            table: table::FILES,
            folders: folders(),
            known: BTreeSet::new(),
            trials: Vec::new(),
            threads: None,
        }
    }

    /// Runs this many cases at once unless the command line says otherwise: for cases that mostly wait.
    pub fn threads(mut self, threads: usize) -> Suite {
        self.threads = Some(threads);
        self
    }

    /// Adds the cases of `topic/file`. The case type should be `deny_unknown_fields`.
    pub fn file<Case: DeserializeOwned>(
        self,
        file: &'static str,
        check: impl Fn(Case) -> Verdict + Send + Sync + 'static,
    ) -> Suite {
        self.file_but(file, |_| None, check)
    }

    /// Adds the cases of `topic/file`; those that are `left_out` for a reason are listed, with the reason, as ignored.
    pub fn file_but<Case: DeserializeOwned>(
        mut self,
        file: &'static str,
        left_out: impl Fn(&Case) -> Option<&'static str>,
        check: impl Fn(Case) -> Verdict + Send + Sync + 'static,
    ) -> Suite {
        self.known.insert(file);
        let check = Arc::new(check);
        for folder in self.folders.clone() {
            let path = folder.join(format!("{file}.yaml"));
            if !path.exists() {
                continue;
            }
            match cases(&path) {
                Ok(cases) => {
                    for (name, value) in cases {
                        let check = Arc::clone(&check);
                        let shown = path.display().to_string();
                        let reason = serde_json::from_value(value.clone()).ok().and_then(|case| left_out(&case));
                        let title = match reason {
                            Some(reason) => format!("{file}::{name} ({reason})"),
                            None => format!("{file}::{name}"),
                        };
                        self.trials.push(
                            Trial::test(title, move || {
                                let case: Case = serde_json::from_value(value).map_err(|error| {
                                    Failed::from(format!("{shown}: case {name:?}: does not parse: {error}"))
                                })?;
                                check(case).map_err(|why| Failed::from(format!("{shown}: case {name:?}:\n{why}")))
                            })
                            .with_ignored_flag(reason.is_some()),
                        );
                    }
                }
                Err(why) => self.trials.push(failing(format!("{file}::parses"), why)),
            }
        }
        self
    }

    /// Runs every case, prints each, and returns the exit code of the test target.
    pub fn run(mut self) -> ExitCode {
        if let Some(package) = self.package {
            let listed: BTreeSet<&str> = table::files_in(self.table, package).into_iter().collect();
            if listed != self.known {
                let why = format!("testkit/src/table.rs lists {listed:?} for {package}, its tests run {:?}", self.known);
                self.trials.push(failing(format!("{package}::table"), why));
            }
        }
        let mut names = BTreeSet::new();
        let repeated: Vec<String> =
            self.trials.iter().map(|trial| trial.name().to_owned()).filter(|name| !names.insert(name.clone())).collect();
        if self.folders.len() == 1 && !repeated.is_empty() {
            self.trials.push(failing("suite::names".to_owned(), format!("case names repeat: {repeated:?}")));
        }
        let mut arguments = Arguments::from_args();
        arguments.test_threads = arguments.test_threads.or(self.threads);
        libtest_mimic::run(&arguments, self.trials).exit_code()
    }

    fn refuse_unknown_files(&mut self, folder: &Path) {
        let mut refuse = |what: &str, why: &str| {
            self.trials.push(failing(format!("{what}::known"), format!("{}: {what}: {why}", folder.display())));
        };
        let files = files_below(folder);
        if files.is_empty() {
            refuse("folder", "there is no vector here, in <topic>/<file>.yaml");
        }
        for file in files.iter().filter(|file| !self.table.iter().any(|(name, _)| name == file)) {
            refuse(file, "no runner knows this file; testkit/src/table.rs has the list");
        }
    }
}

fn failing(name: String, why: String) -> Trial {
    Trial::test(name, move || Err(Failed::from(why)))
}

/// Returns `conformance/` of this repository, then the folders that the user adds.
pub fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance");
    std::iter::once(own).chain(added_folders()).collect()
}

/// Returns the folders that the user adds with `LIFESIGN_VECTORS=dir[:dir]`.
pub fn added_folders() -> Vec<PathBuf> {
    let added = std::env::var("LIFESIGN_VECTORS").unwrap_or_default();
    // Test targets run in their package's folder; a relative folder is meant from where the user stands.
    let from = |dir: &str| match std::env::var_os("PWD") {
        Some(here) => Path::new(&here).join(dir),
        None => PathBuf::from(dir),
    };
    added.split(':').filter(|dir| !dir.is_empty()).map(from).collect()
}

/// Returns `topic/file` of every vector file in a folder, sorted.
///
/// What looks like a vector and is not `<topic>/<file>.yaml` keeps its whole name, so that no table knows it.
pub fn files_below(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for topic in names(folder) {
        if data(&topic) {
            files.push(topic);
            continue;
        }
        for file in names(&folder.join(&topic)).into_iter().filter(|file| data(file)) {
            files.push(format!("{topic}/{}", file.strip_suffix(".yaml").unwrap_or(&file)));
        }
    }
    files
}

/// Returns whether a file of that name holds data, as opposed to a document.
fn data(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|extension| name.ends_with(extension))
}

/// Returns the names in a folder, sorted, but for hidden ones.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// Reads a vector file: its cases with their names, in order.
pub fn cases(path: &Path) -> Result<Vec<(String, Value)>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let cases: Vec<Value> = yaml(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    cases
        .into_iter()
        .enumerate()
        .map(|(index, case)| match case.get("name").and_then(Value::as_str) {
            Some(name) => Ok((name.to_owned(), case)),
            None => Err(format!("{}: case {index} has no name", path.display())),
        })
        .collect()
}

/// Reads YAML 1.2, as vectors and manifests are written: `y` and `off` are texts.
pub fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}
