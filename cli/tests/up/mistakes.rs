//! What a new user is likely to do wrong, and what the answer must say: what is wrong, and what to do about it.
//!
//! The list is the table; [`MISTAKES`] has a row for each. The first ones end at once, the later ones are made in a manifest and are
//! told by the lines of `up`.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::plane::Plane;

use crate::{script, server, until};

/// A mistake: what was done, the exit code, and the words of the answer.
struct Mistake {
    what: &'static str,
    command: fn(&Place) -> Vec<String>,
    code: i32,
    words: &'static [&'static str],
}

/// Where mistakes are made.
struct Place {
    folder: tempfile::TempDir,
    plane: Plane,
    /// Somebody listens there.
    taken: TcpListener,
}

impl Place {
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.folder.path().join(name), text).expect("the folder is ours");
        self.path(name)
    }

    fn up(&self, arguments: &[&str]) -> Vec<String> {
        words(&[&["up", "--data-dir", &self.path("new"), "--listen", "127.0.0.1:0"], arguments].concat())
    }

    fn kubeconfig(&self) -> String {
        self.plane.kubeconfig().display().to_string()
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        what: "the port is in use",
        command: |place| {
            let taken = place.taken.local_addr().expect("it is bound").to_string();
            words(&["up", "--data-dir", &place.path("new"), "--listen", &taken])
        },
        code: 2,
        words: &["cannot listen on 127.0.0.1:", "in use", "another plane may be running", "--listen"],
    },
    Mistake {
        what: "a plane runs on the data directory already",
        command: |place| {
            let data = place.plane.data_dir().display().to_string();
            words(&["up", "--data-dir", &data, "--listen", "127.0.0.1:0"])
        },
        code: 2,
        words: &["is in use by another process", "--data-dir"],
    },
    Mistake {
        what: "the manifest is not there",
        command: |place| place.up(&["-f", "no-such-file.yaml"]),
        code: 2,
        words: &["no-such-file.yaml", "No such file", "check the paths and files given with -f"],
    },
    Mistake {
        what: "the manifest is not YAML",
        command: |place| {
            let file = place.file("broken.yaml", "kind: [");
            place.up(&["-f", &file])
        },
        code: 2,
        words: &["broken.yaml", "not YAML"],
    },
    Mistake {
        what: "the manifest is a template",
        command: |place| {
            let file = place.file("chart.yaml", "kind: {{ .Values.kind }}\n");
            place.up(&["-f", &file])
        },
        code: 2,
        words: &["chart.yaml", "template", "helm template"],
    },
    Mistake {
        what: "the manifest has no kind",
        command: |place| {
            let file = place.file("nothing.yaml", "apiVersion: v1\nmetadata: {name: x}\n");
            place.up(&["-f", &file])
        },
        code: 2,
        words: &["nothing.yaml", "has no kind"],
    },
    Mistake {
        what: "the data directory is somebody else's folder",
        command: |place| {
            place.file("mine.txt", "x");
            words(&["up", "--listen", "127.0.0.1:0", "--data-dir", &place.path("")])
        },
        code: 2,
        words: &["--data-dir"],
    },
    Mistake {
        what: "a feature gate is misspelt",
        command: |place| place.up(&["--feature-gates", "SubsecondProbes=true"]),
        code: 2,
        words: &["unknown feature gate \"SubsecondProbes\"", "SubSecondProbes=true"],
    },
    Mistake {
        what: "the kubeconfig is not there",
        command: |_| words(&["profile", "get", "--kubeconfig", "no-such-kubeconfig"]),
        code: 2,
        words: &["no-such-kubeconfig", "start a plane with `lifesign up`, or name a kubeconfig with --kubeconfig"],
    },
    Mistake {
        what: "the kubeconfig is something else",
        command: |place| {
            let file = place.file("kubeconfig", "just words");
            words(&["profile", "get", "--kubeconfig", &file])
        },
        code: 2,
        words: &["kubeconfig", "name a kubeconfig with --kubeconfig"],
    },
    Mistake {
        what: "the plane is down",
        command: |place| {
            let text = std::fs::read_to_string(place.plane.kubeconfig()).expect("a plane writes it");
            let free = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("it is bound");
            let file = place.file("down", &text.replace(place.plane.url(), &format!("https://{free}")));
            words(&["profile", "get", "--kubeconfig", &file])
        },
        code: 3,
        words: &["https://127.0.0.1:", "refused", "is the plane running? `lifesign up` starts one"],
    },
    Mistake {
        what: "the kubeconfig is of another plane",
        command: |place| {
            let other = Plane::started(env!("CARGO_BIN_EXE_lifesign"));
            let text = std::fs::read_to_string(other.kubeconfig()).expect("a plane writes it");
            let file = place.file("other", &text.replace(other.url(), place.plane.url()));
            words(&["profile", "get", "--kubeconfig", &file])
        },
        code: 3,
        words: &["https://127.0.0.1:", "certificate", "`lifesign kubeconfig` prints the current one"],
    },
    Mistake {
        what: "there is no plane to print a kubeconfig of",
        command: |place| words(&["kubeconfig", "--data-dir", &place.path("never")]),
        code: 1,
        words: &["no plane was ever started in", "start one with `lifesign up`"],
    },
    Mistake {
        what: "the credentials do not permit it",
        command: |place| {
            let viewer = place.plane.command("kubeconfig").args(["--role", "viewer"]).output().expect("the binary runs");
            let file = place.file("viewer", &String::from_utf8_lossy(&viewer.stdout));
            words(&["profile", "set", "Default", "--kubeconfig", &file])
        },
        code: 1,
        words: &["forbidden", "cannot patch"],
    },
    Mistake {
        what: "the agent has the credentials of nobody",
        command: |_| words(&["agent", "--kubeconfig", "no-such-kubeconfig"]),
        code: 2,
        words: &["no-such-kubeconfig", "print one with `lifesign kubeconfig --node NAME`"],
    },
    Mistake {
        what: "a profile is misspelt",
        command: |place| words(&["profile", "set", "Fast", "--kubeconfig", &place.kubeconfig()]),
        code: 2,
        words: &["Fast", "MediumUpdateAverageReaction"],
    },
];

#[test]
fn every_mistake_of_the_command_line_is_answered_with_what_to_do() {
    let place = Place {
        folder: tempfile::tempdir().unwrap(),
        plane: Plane::started(env!("CARGO_BIN_EXE_lifesign")),
        taken: TcpListener::bind("127.0.0.1:0").unwrap(),
    };
    let mut wrong = Vec::new();
    for mistake in MISTAKES {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifesign"));
        command.args((mistake.command)(&place)).env_remove("KUBECONFIG").env("HOME", place.folder.path());
        let out = command.output().expect("the binary runs");
        let answer = String::from_utf8_lossy(&out.stderr).into_owned();
        let missing: Vec<&&str> = mistake.words.iter().filter(|words| !answer.contains(**words)).collect();
        if out.status.code() != Some(mistake.code) || !missing.is_empty() {
            wrong.push(format!("{}: {:?}, without {missing:?}:\n{answer}", mistake.what, out.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Mistakes in a manifest: what is applied, and the line of `up` that tells it.
fn manifests() -> Vec<(&'static str, Value, &'static str)> {
    let mut unknown_field = server("typo", &[]);
    unknown_field["spec"]["containers"][0]["readynessProbe"] = json!({});
    let mut wrong_port = server("port", &[]);
    wrong_port["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] = json!(8081);
    let mut local = server("local", &[]);
    local["spec"]["containers"][0]["command"] = json!(["lifesign", "serve", "--address", "127.0.0.1", "--port", "0"]);
    let mut missing = script("missing", "");
    missing["spec"]["containers"][0]["command"] = json!(["no-such-program"]);
    let mut volume = script("volume", "sleep 60");
    volume["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}]);
    vec![
        (
            "an unknown kind",
            json!({"apiVersion": "v1", "kind": "Pud", "metadata": {"name": "x"}}),
            "Pud of v1 is not served here",
        ),
        ("an unknown field", unknown_field, "unknown field \"spec.containers[0].readynessProbe\""),
        (
            "no namespace",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "nowhere"}}),
            "namespaces \"nowhere\" not found",
        ),
        (
            "a command that is not there",
            missing,
            "pod/missing container main ended: exec: \"no-such-program\": executable file not found in $PATH",
        ),
        ("a volume that a process cannot have", volume, "pod/volume container main waits: volume \"data\""),
        ("the wrong port", wrong_port, "pod/port is not ready: Readiness probe failed: GET http://127."),
        ("a server on 127.0.0.1", local, "pod/local is not ready: Readiness probe failed: GET http://127."),
        (
            "a server that is not healthy",
            server("ill", &["--status", "500"]),
            "pod/ill is not ready: Readiness probe failed: GET http://127.",
        ),
    ]
}

#[test]
fn every_mistake_in_a_manifest_has_a_line_that_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    for (index, (_, manifest, _)) in manifests().iter().enumerate() {
        write(folder.path(), index, manifest);
    }
    let mut plane = Plane::new(env!("CARGO_BIN_EXE_lifesign")).whole();
    plane.choose_own_profile();
    plane.set_environment("LIFESIGN_LOG", "");
    plane.set_arguments(["-f", folder.path().to_str().unwrap()]);
    plane.start().expect("one bad manifest does not keep the plane from starting");
    for (what, _, line) in manifests() {
        until(what, || plane.log().contains(line));
    }
    let refused = plane.log().lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(refused, 3, "each once: {}", plane.log());
}

fn write(folder: &Path, index: usize, manifest: &Value) {
    std::fs::write(folder.join(format!("{index}.json")), manifest.to_string()).expect("the folder is ours");
}
