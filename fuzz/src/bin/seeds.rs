//! Writes what the vectors and examples of this repository say as seeds for the fuzz targets, into `fuzz/corpus/<target>/`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

fn main() -> std::io::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Found::default();
    for path in yaml_files(&here.join("../conformance")).into_iter().chain(yaml_files(&here.join("../examples"))) {
        // Scripts name things anew for every run.
        let text = std::fs::read_to_string(&path)?.replace("${id}", "id").replace("${ns}", "ns");
        let options = serde_saphyr::options! { strict_booleans: true };
        let documents = serde_saphyr::from_multiple_with_options::<Value>(&text, options)
            .map_err(|error| std::io::Error::other(format!("{}: {error}", path.display())))?;
        documents.iter().for_each(|document| found.look(document));
    }
    found.write(&here.join("corpus"))
}

/// Returns the files below a folder that end in `.yaml`.
fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    entries
        .flat_map(|path| match path.is_dir() {
            true => yaml_files(&path),
            false if path.extension().is_some_and(|extension| extension == "yaml") => vec![path],
            false => Vec::new(),
        })
        .collect()
}

#[derive(Default)]
struct Found {
    objects: Vec<Value>,
    patches: Vec<Value>,
    definitions: Vec<Value>,
    reviews: Vec<Value>,
    texts: BTreeSet<String>,
    protobuf: Vec<Vec<u8>>,
}

impl Found {
    /// Takes what looks like an input of a target, at any depth of a document.
    fn look(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                // Scripts leave out what the URL says, so a definition is known by its content.
                if value["spec"]["versions"].is_array() {
                    self.definitions.push(value.clone());
                }
                if value.get("apiVersion").is_some() && value.get("kind").is_some() {
                    self.objects.push(value.clone());
                } else if ["spec", "metadata", "addressType", "containers"].iter().any(|key| members.contains_key(*key)) {
                    self.objects.push(value.clone());
                }
                if value["operation"].is_string() && value["uid"].is_string() {
                    self.reviews.push(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": value}));
                }
                if value["spec"]["containers"].is_array() && value["annotations"].is_object() {
                    self.reviews.push(json!({"metadata": {"annotations": value["annotations"]}, "spec": value["spec"]}));
                }
                if value["method"] == "PATCH" {
                    self.patches.push(value["body"].clone());
                }
                if let Some(bytes) = value["base64"].as_str().and_then(|text| kinds::base64::decode(text).ok()) {
                    self.protobuf.push(bytes);
                }
                members.values().for_each(|member| self.look(member));
            }
            Value::Array(items) => items.iter().for_each(|item| self.look(item)),
            Value::String(text) if text.len() < 200 => {
                self.texts.insert(text.clone());
            }
            _ => {}
        }
    }

    fn write(&self, corpus: &Path) -> std::io::Result<()> {
        let bytes = |value: &Value| serde_json::to_vec(value).expect("a JSON value serializes");
        put(corpus, "objects", self.objects.iter().map(bytes))?;
        let object = |index: usize| self.objects[index % self.objects.len()].clone();
        let patches = self.patches.iter().enumerate().map(|(index, patch)| json!({"object": object(index), "patch": patch}));
        put(corpus, "patches", patches.map(|seed| bytes(&seed)))?;
        let pairs = self.definitions.iter().map(|definition| {
            let kind = &definition["spec"]["names"]["kind"];
            let object = self.objects.iter().find(|object| object["kind"] == *kind);
            json!({"definition": definition, "object": object})
        });
        put(corpus, "definitions", pairs.map(|seed| bytes(&seed)))?;
        let (with_probes, with_items) =
            (|object: &&Value| object["spec"]["probes"].is_array(), |object: &&Value| object["spec"]["podProbes"].is_array());
        let nodes: Vec<&Value> = self.objects.iter().filter(with_items).collect();
        let pods: Vec<&Value> = self.objects.iter().filter(|object| object["spec"]["containers"].is_array()).take(3).collect();
        let node = |index: usize| nodes.get(index % nodes.len().max(1));
        let markers = self.objects.iter().filter(with_probes).enumerate();
        let markers = markers.map(|(index, marker)| json!({"markers": [marker], "pods": pods, "nodePodProbe": node(index)}));
        put(corpus, "markers", markers.map(|seed| bytes(&seed)))?;
        put(corpus, "reviews", self.reviews.iter().map(bytes))?;
        put(corpus, "texts", self.texts.iter().map(|text| text.clone().into_bytes()))?;
        put(corpus, "protobuf", self.protobuf.iter().cloned())
    }
}

fn put(corpus: &Path, target: &str, seeds: impl Iterator<Item = Vec<u8>>) -> std::io::Result<()> {
    let folder = corpus.join(target);
    std::fs::create_dir_all(&folder)?;
    let seeds: BTreeSet<Vec<u8>> = seeds.collect();
    for (index, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{index:04}")), seed)?;
    }
    println!("{target}: {} seeds", seeds.len());
    Ok(())
}
