//! What `lifesign install` prints: the parts of `deploy/parts`, put together.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::error::Failure;

/// What can be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Feature {
    /// PodProbeMarkers: custom probes that mark pods
    Markers,
    /// Readiness probes that pods move to the agent by annotation
    Probes,
    /// Worker latency profiles: their kind, and privileged agents that change kubelets and static pods
    Profiles,
}

/// What the manifests depend on.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    namespace: String,
    image: String,
    features: Vec<Feature>,
    cri: String,
    agent_listen: SocketAddr,
}

/// Where agents serve unless somebody says otherwise: their own node alone.
const AGENT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 10_270);

/// Reads a part of the manifests, at build time.
macro_rules! part {
    ($name:literal) => {
        include_str!(concat!("../../../deploy/parts/", $name, ".yaml"))
    };
}

impl Choices {
    /// Judges what a person chose: all of it ends up in YAML.
    pub(crate) fn new(namespace: &str, image: &str, features: &[Feature], cri: &str) -> Result<Choices, Failure> {
        if let Some(rule) = api::names::dns1123_label(namespace) {
            return Err(Failure::usage(format!("--namespace {namespace:?}: {rule}")));
        }
        if namespace == "kube-system" {
            let why = "--namespace kube-system: pods of that namespace are never moved, and removal would take it along";
            return Err(Failure::usage(why).hint("choose a namespace of its own, such as lifesign-system"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        if image.is_empty() || !image.chars().all(plain) {
            return Err(Failure::usage(format!("--image {image:?}: not the name of an image")));
        }
        let path = cri.strip_prefix("unix://").unwrap_or(cri);
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        if folder.is_empty() || !path.starts_with('/') || path.contains("..") || !path.chars().all(plain) {
            return Err(Failure::usage(format!("--cri {cri:?}: must be the absolute path of a socket in a folder of its own"))
                .hint("for example /run/containerd/containerd.sock or /run/crio/crio.sock"));
        }
        let mut features = features.to_vec();
        features.sort();
        features.dedup();
        let (namespace, image, cri) = (namespace.to_owned(), image.to_owned(), path.to_owned());
        Ok(Choices { namespace, image, features, cri, agent_listen: AGENT_LISTEN })
    }

    /// Returns the same choices, with agents that serve at this address of their node.
    pub(crate) fn agent_listen(mut self, address: SocketAddr) -> Result<Choices, Failure> {
        if address.port() == 0 {
            let why = format!("--agent-listen {address}: who is to read there must know the port");
            return Err(Failure::usage(why).hint(format!("for example {AGENT_LISTEN}")));
        }
        self.agent_listen = address;
        Ok(self)
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Returns the manifests, one YAML document after the other, in an order in which they can be applied.
    pub(crate) fn manifests(&self) -> String {
        let (markers, probes, profiles) = (self.has(Feature::Markers), self.has(Feature::Probes), self.has(Feature::Profiles));
        let mut text =
            format!("# Written by `lifesign install` {}; `kubectl apply -f -` takes it.\n", env!("CARGO_PKG_VERSION"));
        let mut document = |parts: &[&str]| {
            text.push_str("---\n");
            for part in parts {
                let _ = writeln!(text, "{}", self.fill(part).trim_end());
            }
        };
        document(&[part!("namespace")]);
        if markers {
            document(&[api::crds::POD_PROBE_MARKERS]);
            document(&[api::crds::NODE_POD_PROBES]);
        }
        if profiles {
            document(&[api::crds::CONFIG_NODES]);
        }
        let optional = |wanted: bool, part: &'static str| if wanted { part } else { "" };
        // The policies come before what they bind.
        document(&[part!("policy-accounts")]);
        document(&[
            part!("controllers"),
            optional(markers, part!("controllers-markers")),
            optional(profiles, part!("controllers-profiles")),
        ]);
        document(&[part!("controllers-pods")]);
        let reviews = !self.agent_listen.ip().is_loopback();
        document(&[
            part!("agent"),
            optional(markers, part!("agent-markers")),
            // Beyond loopback an agent asks the cluster who may read.
            optional(reviews, part!("agent-reviews")),
        ]);
        document(&[part!("agent-pods")]);
        if profiles {
            document(&[part!("profiles")]);
            document(&[&profiles_agent("worker", "DoesNotExist", "kubelet")]);
            document(&[&profiles_agent("control-plane", "Exists", "control-plane")]);
        }
        if probes {
            document(&[part!("webhook-pods")]);
        }
        if markers || profiles {
            document(&[
                part!("webhook-custom"),
                optional(markers, part!("webhook-markers")),
                optional(profiles, part!("webhook-profiles")),
            ]);
        }
        // Parts that are left out leave an empty line.
        text.lines().filter(|line| !line.is_empty()).fold(String::new(), |text, line| text + line + "\n")
    }

    fn fill(&self, part: &str) -> String {
        let folder = self.cri.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut arguments = String::new();
        if !self.has(Feature::Markers) {
            arguments.push_str("        - --marker-controller=false\n");
        }
        if self.has(Feature::Profiles) {
            arguments.push_str("        - --latency-profiles=apply\n");
        }
        part.replace("@CONTROLLERS_ARGS@", &arguments)
            .replace("@NAMESPACE@", &self.namespace)
            .replace("@IMAGE@", &self.image)
            .replace("@CRI_FOLDER@", folder)
            .replace("@CRI@", &self.cri)
            .replace("@AGENT_LISTEN@", &self.agent_listen.to_string())
    }
}

/// Returns the agent of nodes with or without the label of the control plane; each has an account of its own.
fn profiles_agent(role: &str, control_plane: &str, files: &str) -> String {
    let part = part!("profiles-agent");
    part.replace("@ROLE@", role).replace("@CONTROL_PLANE@", control_plane).replace("@FILES@", files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const ALL: [Feature; 3] = [Feature::Markers, Feature::Probes, Feature::Profiles];

    fn documents(features: &[Feature]) -> Vec<Value> {
        let choices = Choices::new("health", "registry.example/lifesign:1", features, "unix:///run/crio/crio.sock").unwrap();
        serde_saphyr::from_multiple::<Value>(&choices.manifests()).unwrap()
    }

    fn names(documents: &[Value]) -> Vec<String> {
        documents.iter().map(|object| format!("{} {}", object["kind"], object["metadata"]["name"]).replace('"', "")).collect()
    }

    #[test]
    fn every_choice_is_valid_yaml_without_a_gap() {
        for features in [&[][..], &ALL[..1], &ALL[1..2], &ALL[2..], &ALL] {
            let documents = documents(features);
            let text = serde_json::to_string(&documents).unwrap();
            assert!(!text.contains('@') && text.contains("unix:///run/crio/crio.sock"), "{features:?}");
            assert!(documents.iter().all(|object| object["apiVersion"].is_string() && object["kind"].is_string()));
            let mut seen = std::collections::BTreeSet::new();
            for (object, name) in documents.iter().zip(names(&documents)) {
                let namespaced = format!("{} {name}", object["metadata"]["namespace"]);
                assert!(seen.insert(namespaced.clone()), "{features:?}: {namespaced} is there twice");
            }
        }
    }

    #[test]
    fn features_bring_their_kinds_their_webhooks_and_their_rights() {
        let none = serde_json::to_string(&documents(&[])).unwrap();
        assert!(!none.contains("kruise") || !none.contains("WebhookConfiguration\""), "{none}");
        assert!(none.contains("--marker-controller=false"));
        let markers = names(&documents(&ALL[..1]));
        assert!(markers.contains(&"CustomResourceDefinition podprobemarkers.apps.kruise.io".to_owned()));
        assert!(!markers.contains(&"MutatingWebhookConfiguration lifesign".to_owned()));
        let probes = names(&documents(&ALL[1..2]));
        assert!(probes.contains(&"MutatingWebhookConfiguration lifesign".to_owned()));
        assert!(probes.contains(&"ValidatingAdmissionPolicy lifesign-pods".to_owned()));
        assert!(!probes.iter().any(|name| name.contains("kruise")), "{probes:?}");
        let webhooks = documents(&ALL[2..]);
        let webhooks = webhooks.iter().find(|object| object["kind"] == "ValidatingWebhookConfiguration").unwrap();
        assert_eq!(webhooks["webhooks"][0]["name"], "profiles.lifesign.dev");
    }

    #[test]
    fn an_agent_may_ask_who_asks_only_if_others_than_its_node_reach_it() {
        let manifests = |listen: &str| {
            let choices = Choices::new("health", "i", &ALL[..1], "/run/c/c.sock").unwrap();
            choices.agent_listen(listen.parse().unwrap()).map(|choices| choices.manifests())
        };
        let (own, public) = (manifests("127.0.0.1:10270").unwrap(), manifests("0.0.0.0:10271").unwrap());
        assert!(own.contains("--listen=127.0.0.1:10270") && public.contains("--listen=0.0.0.0:10271"));
        for review in ["tokenreviews", "subjectaccessreviews"] {
            assert!(!own.contains(review) && public.contains(review), "{review}");
        }
        assert!(manifests("127.0.0.1:0").is_err());
    }

    #[test]
    fn nothing_that_the_cluster_fills_in_is_applied() {
        for object in documents(&ALL) {
            assert!(object.get("data").is_none() || object["kind"] != "Secret", "applying again would empty the certificates");
            assert!(!object.to_string().contains("caBundle"));
        }
    }

    #[test]
    fn what_would_break_the_yaml_is_refused() {
        for (namespace, image, cri) in [
            ("Bad", "i", "/run/x.sock"),
            ("kube-system", "i", "/run/x/x.sock"),
            ("a", "x\n- y", "/run/x/x.sock"),
            ("a", "", "/run/x/x.sock"),
            ("a", "i", "run/x.sock"),
            ("a", "i", "/x.sock"),
            ("a", "i", "/run/../x.sock"),
        ] {
            assert!(Choices::new(namespace, image, &[], cri).is_err(), "{namespace} {image} {cri}");
        }
    }
}
