//! What the compiler does not see: files that no module reaches, vectors that nobody runs, cores that touch the world.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use testkit::{table, vectors};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns every file below a folder with an extension, build output and hidden folders left out.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of the repository").filter_map(Result::ok) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_vector_file_is_in_the_table() {
    let here: Vec<String> = vectors::files_below(&root().join("conformance"));
    let listed: Vec<String> = table::FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(here, listed, "conformance/ and testkit/src/table.rs must name the same files");
}

#[test]
fn every_source_file_is_reached_by_a_module() {
    let mut lost = Vec::new();
    for path in files(&root(), "rs") {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        let folder = path.parent().unwrap();
        let inside_src = path.components().any(|part| part.as_os_str() == "src");
        if matches!(stem.as_str(), "lib" | "main" | "build")
            || (!inside_src && folder.ends_with("tests"))
            || folder.ends_with("benches")
            || folder.ends_with("bin")
            || folder.ends_with("fuzz_targets")
        {
            continue;
        }
        // The parent of foo/bar.rs is foo.rs beside the folder, or lib.rs, main.rs or mod.rs inside it.
        let parents = [folder.join("lib.rs"), folder.join("main.rs"), folder.join("mod.rs"), folder.with_extension("rs")];
        let declared = parents.iter().filter(|parent| parent.exists()).any(|parent| {
            let text = read(parent);
            text.lines().any(|line| {
                // Whatever its visibility: `pub`, `pub(crate)`, `pub(super)`.
                let line = line.trim_start();
                line.strip_suffix(&format!("mod {stem};")).is_some_and(|rest| rest.is_empty() || rest.starts_with("pub"))
            })
        });
        if !declared {
            lost.push(path.display().to_string());
        }
    }
    assert_eq!(lost, Vec::<String>::new(), "no `mod` reaches these files");
}

/// Crates of others that a core may use: data and pure code.
const PURE: &[&str] = &["base64", "imbl", "jiff", "json-patch", "regex", "serde", "serde_json", "thiserror"];

/// Which core knows which, besides `machine` and `api`. ARCHITECTURE.md says why.
const EDGES: &[(&str, &[&str])] = &[
    ("admission", &["kinds"]),
    ("explain", &["admission", "kinds", "probe"]),
    ("markers", &["probe"]),
    ("pods", &["probe"]),
    ("schemas", &["kinds"]),
    ("registry", &["apply", "kinds", "schemas"]),
    ("view", &["probe", "profiles"]),
    ("why", &["endpoints", "pods", "probe"]),
];

/// Returns folder name and names of the dependencies of every package below a folder.
fn packages(folder: &str) -> Vec<(String, Vec<String>)> {
    let manifests = files(&root().join(folder), "toml").into_iter().filter(|path| path.ends_with("Cargo.toml"));
    manifests
        .map(|manifest| {
            let folder = manifest.parent().and_then(Path::file_name).expect("a manifest lies in the folder of its package");
            (folder.to_string_lossy().into_owned(), dependencies(&read(&manifest), "dependencies"))
        })
        .collect()
}

/// Returns the names in a section of a manifest.
fn dependencies(manifest: &str, section: &str) -> Vec<String> {
    let section =
        manifest.split(&format!("\n[{section}]\n")).nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
    let lines = section.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split(['.', '=', ' ']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_dependency_is_used() {
    let mut unused = Vec::new();
    for manifest in files(&root(), "toml").into_iter().filter(|path| path.ends_with("Cargo.toml")) {
        let (folder, text) = (manifest.parent().expect("it lies in a folder").to_owned(), read(&manifest));
        let is_used = |name: &str, sources: &[&str]| {
            let name = name.replace('-', "_");
            let mut own = IDENTIFIERS.iter().filter(|(path, _)| sources.iter().any(|part| path.starts_with(folder.join(part))));
            own.any(|(_, words)| words.contains(&name))
        };
        let (source, all) = (["src", "fuzz_targets"], ["src", "tests", "benches"]);
        for (section, sources) in [("dependencies", &source[..]), ("dev-dependencies", &all[..])] {
            let names = dependencies(&text, section).into_iter();
            let names = names.filter(|name| !is_used(name, sources));
            unused.extend(names.map(|name| format!("{}: {name}", folder.display())));
        }
    }
    assert_eq!(unused, Vec::<String>::new(), "nothing says these names: take them out of their manifests");
}

#[test]
fn cores_depend_on_nothing_that_touches_the_world_and_on_no_sibling_that_is_not_listed() {
    let cores = packages("core");
    for (core, dependencies) in &cores {
        let siblings = EDGES.iter().find(|(name, _)| name == core).map_or(&[][..], |(_, known)| known);
        for name in dependencies {
            let known = ["machine", "api"].contains(&name.as_str())
                || siblings.contains(&name.as_str())
                || PURE.contains(&name.as_str());
            assert!(known, "core/{core} may not depend on {name}");
        }
        for name in siblings {
            assert!(dependencies.iter().any(|found| found == name), "core/{core} does not use {name}: take the edge away");
        }
    }
    for (name, _) in EDGES {
        assert!(cores.iter().any(|(core, _)| core == name), "core/{name} does not exist");
    }
}

/// Which shell knows which, besides `runtime`. ARCHITECTURE.md says why.
const SHELL_EDGES: &[(&str, &[&str])] = &[("agent", &["cri", "processes", "proxy"])];

#[test]
fn shells_know_cores_and_runtime_but_no_sibling_that_is_not_listed() {
    let shells = packages("shell");
    for (shell, dependencies) in &shells {
        let siblings = SHELL_EDGES.iter().find(|(name, _)| name == shell).map_or(&[][..], |(_, known)| known);
        for name in dependencies.iter().filter(|name| *name != "runtime" && !siblings.contains(&name.as_str())) {
            assert!(shells.iter().all(|(sibling, _)| sibling != name), "shell/{shell} may not depend on shell/{name}");
        }
        for name in siblings {
            assert!(dependencies.iter().any(|found| found == name), "shell/{shell} does not use {name}: take the edge away");
        }
    }
    for (name, _) in SHELL_EDGES {
        assert!(shells.iter().any(|(shell, _)| shell == name), "shell/{name} does not exist");
    }
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut dead = Vec::new();
    for path in files(&root(), "md") {
        for link in links(&read(&path)) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !path.parent().unwrap().join(target).exists() {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert_eq!(dead, Vec::<String>::new());
}

/// Returns the targets of `[text](target)` outside code blocks.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        for part in line.split("](").skip(1) {
            found.extend(part.split(')').next().map(str::to_owned));
        }
    }
    found
}

#[test]
fn no_unfinished_marks() {
    // Put together here so that this file does not find itself.
    let marks = [
        concat!("FIX", "ME"),
        concat!("TO", "DO"),
        concat!("db", "g!("),
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("#[ign", "ore"),
    ];
    let mut found = Vec::new();
    for path in files(&root(), "rs") {
        let text = read(&path);
        found.extend(marks.iter().filter(|mark| text.contains(**mark)).map(|mark| format!("{}: {mark}", path.display())));
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Functions that exist for tests: clocks and objects to begin with, what cannot be seen from outside.
const FOR_TESTS: &[&str] = &["from_json", "shim_pid", "sizes", "starting_at"];

#[test]
fn every_function_is_called_by_more_than_tests() {
    let code: Vec<(PathBuf, String)> = files(&root(), "rs")
        .into_iter()
        .filter(|path| {
            let shown = path.strip_prefix(root()).expect("it lies below").display().to_string();
            let program = ["core/", "shell/", "cli/", "sim/"].iter().any(|folder| shown.starts_with(folder));
            program && shown.contains("/src/") && !["tests", "laws", "properties"].iter().any(|word| shown.contains(word))
        })
        .map(|path| {
            let text = read(&path);
            // Attributes name functions in texts.
            let attributes = text.lines().filter(|line| line.trim_start().starts_with("#[")).collect::<Vec<_>>().join("\n");
            (
                path,
                code_of(text.split("#[cfg(test)]\n").filter(|part| !is_block(part)).collect::<String>().as_str())
                    + "\n"
                    + &attributes,
            )
        })
        .collect();
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for word in code.iter().flat_map(|(_, text)| words(text)) {
        *uses.entry(word).or_default() += 1;
    }
    let mut found = Vec::new();
    for (path, text) in &code {
        // What a trait asks for is called by others.
        let mut of_trait = false;
        for line in text.lines() {
            of_trait = if line.starts_with("impl") { line.contains(" for ") } else { of_trait && !line.starts_with('}') };
            let Some((_, rest)) = line.split_once("fn ") else { continue };
            let name = words(rest).next().unwrap_or_default();
            if !of_trait && name != "main" && uses.get(name) == Some(&1) && !FOR_TESTS.contains(&name) {
                found.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new(), "only tests call these, or nobody");
}

/// Returns whether a source goes on with a module in place.
fn is_block(source: &str) -> bool {
    source.lines().next().is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
}

/// Identifiers that name a thing by a picture where Kubernetes has a word: who knows the API does not search for them.
const NOT_PLAIN: &[&str] = &[
    "Anybody",
    "Bearing",
    "Census",
    "Door",
    "Fate",
    "Flight",
    "Flights",
    "Keeper",
    "Leg",
    "Letter",
    "Mail",
    "Note",
    "NoteType",
    "Past",
    "Said",
    "Sameness",
    "Standing",
    "Surround",
    "Surroundings",
    "Team",
    "Told",
    "Trouble",
    "Turn",
    "Under",
    "Unit",
    "Whose",
    "Wish",
    "bearing",
    "borne",
    "census",
    "door",
    "doors",
    "fate",
    "fates",
    "flight",
    "flights",
    "house",
    "keeper",
    "leg",
    "letter_box",
    "mail",
    "rival",
    "rivals",
    "rooms",
    "said",
    "sameness",
    "standing",
    "surround",
    "surroundings",
    "told",
    "trouble",
    "troubles",
    "unbooked",
    "whose",
    "wish",
    "wishes",
];

/// Where a name is not ours: the label of a metric.
const NOT_OURS: &[(&str, &str)] = &[("shell/controllers/src/profile/metrics.rs", "leg")];

#[test]
fn names_are_words_of_kubernetes_and_no_pictures() {
    let mut found = Vec::new();
    for (path, words) in IDENTIFIERS.iter() {
        let shown = path.strip_prefix(root()).expect("it lies below").display().to_string();
        let refused = NOT_PLAIN.iter().filter(|word| words.contains(**word) && !NOT_OURS.contains(&(shown.as_str(), **word)));
        found.extend(refused.map(|word| format!("{shown}: {word}")));
    }
    assert_eq!(found, Vec::<String>::new(), "the glossary of ARCHITECTURE.md has the words that are ours");
}

/// What every source file says.
static IDENTIFIERS: LazyLock<BTreeMap<PathBuf, BTreeSet<String>>> =
    LazyLock::new(|| files(&root(), "rs").into_iter().map(|path| (path.clone(), identifiers(&read(&path)))).collect());

/// Returns the identifiers of a source: what is neither comment nor text.
fn identifiers(source: &str) -> BTreeSet<String> {
    words(&code_of(source)).map(str::to_owned).collect()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns a source without comments and texts.
fn code_of(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(at) = rest.find(['/', '"', '\'']) {
        let (before, here) = rest.split_at(at);
        code.push_str(before);
        let hashes = before.len() - before.trim_end_matches('#').len();
        let raw = before.trim_end_matches('#').ends_with('r');
        let length = match here.as_bytes() {
            [b'/', b'/', ..] => here.find('\n').unwrap_or(here.len()),
            [b'"', ..] if raw => {
                let end = format!("\"{}", "#".repeat(hashes));
                here[1..].find(&end).map_or(here.len(), |found| 1 + found + end.len())
            }
            [b'"', ..] => closing(here, '"'),
            [b'\'', b'\\', ..] => closing(here, '\''),
            // A character; a lifetime has no second quote where one would be.
            [b'\'', ..] => {
                here[1..].chars().next().filter(|c| here[1 + c.len_utf8()..].starts_with('\'')).map_or(1, |c| c.len_utf8() + 2)
            }
            _ => 1,
        };
        code.push(' ');
        rest = &here[length..];
    }
    code.push_str(rest);
    code
}

/// Returns the length of a quoted text that may have escapes.
fn closing(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let found = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        found
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

#[test]
fn identifiers_are_what_is_neither_comment_nor_text() {
    let source = "fn a<'b>(c: &'b str) { // door\n d(\"fate \\\" leg\", 'e', r#\"wish \" told\"#, '\\'', f) }";
    assert_eq!(identifiers(source).into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d", "f", "fn", "r", "str"]);
}
