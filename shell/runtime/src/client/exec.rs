//! Credentials that a plugin issues: a command of the kubeconfig that prints an ExecCredential of `client.authentication.k8s.io`.

use std::io::IsTerminal;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api::json;
use machine::Time;
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::Mutex;

use super::ConfigError;
use super::config::ClientCertificate;

/// The versions of what is printed that are understood.
const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];
/// A plugin may ask people to log in, who take their time.
const TIMEOUT: Duration = Duration::from_secs(300);
/// What is about to expire is issued again: a request takes time too.
const EXPIRES_SOON: Duration = Duration::from_secs(10);

/// Why a plugin gives no credentials.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// Its output could not be understood anyway.
    #[error("exec: apiVersion {0:?} is not supported; update the plugin to client.authentication.k8s.io/v1")]
    Version(String),
    /// It must ask somebody, and nobody is there.
    #[error("exec: {0} must be run from a terminal: it asks for input")]
    NoTerminal(String),
    /// It does not run.
    #[error("exec: {command} cannot be run: {source}{hint}")]
    Start {
        /// The command.
        command: String,
        /// Why.
        source: std::io::Error,
        /// Where it comes from, as the kubeconfig says.
        hint: String,
    },
    /// It ran in vain.
    #[error("exec: {command} {why}")]
    Failed {
        /// The command.
        command: String,
        /// What happened.
        why: String,
    },
}

/// What a plugin has issued.
pub(super) struct Issued {
    pub(super) token: Option<String>,
    pub(super) certificate: Option<ClientCertificate>,
    expires: Option<Time>,
}

/// A plugin.
pub(super) struct Plugin {
    command: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    version: String,
    install_hint: String,
    /// `Never`, `IfAvailable` or `Always`.
    interactive: String,
    /// What the plugin is told about the cluster, if it asks for it.
    cluster: Option<Value>,
    issued: Mutex<Option<Arc<Issued>>>,
}

impl Plugin {
    /// Reads `exec` of a user; `cluster` is that of the context.
    pub(super) fn new(exec: &Value, cluster: &Value) -> Result<Plugin, ConfigError> {
        let text = |key: &str| json::text(exec, &[key]).to_owned();
        let version = text("apiVersion");
        if !VERSIONS.contains(&version.as_str()) {
            return Err(PluginError::Version(version).into());
        }
        let command = text("command");
        if command.is_empty() {
            return Err(ConfigError::invalid("exec", "it has no command"));
        }
        let words = json::items(exec, &["args"]).iter();
        let pair = |pair: &Value| (json::text(pair, &["name"]).to_owned(), json::text(pair, &["value"]).to_owned());
        let wants_cluster = json::boolean(exec, &["provideClusterInfo"]) == Some(true);
        Ok(Plugin {
            command,
            arguments: words.map(|word| word.as_str().unwrap_or_default().to_owned()).collect(),
            environment: json::items(exec, &["env"]).iter().map(pair).collect(),
            version,
            install_hint: text("installHint"),
            interactive: text("interactiveMode"),
            cluster: wants_cluster.then(|| described(cluster)),
            issued: Mutex::default(),
        })
    }

    /// Asks for credentials while somebody is there who can be asked for a password.
    pub(super) async fn log_in(&self) -> Result<(), PluginError> {
        let terminal = std::io::stdin().is_terminal() && self.interactive != "Never";
        *self.issued.lock().await = Some(Arc::new(self.run(terminal).await?));
        Ok(())
    }

    /// Returns credentials that hold for a while.
    pub(super) async fn issued(&self) -> Result<Arc<Issued>, PluginError> {
        let mut issued = self.issued.lock().await;
        let soon = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + EXPIRES_SOON;
        let soon = Time::from_micros(i64::try_from(soon.as_micros()).unwrap_or(i64::MAX));
        match &*issued {
            Some(issued) if issued.expires.is_none_or(|expires| expires > soon) => Ok(Arc::clone(issued)),
            _ => Ok(Arc::clone(issued.insert(Arc::new(self.run(false).await?)))),
        }
    }

    /// Asks the plugin again next time.
    pub(super) async fn forget(&self) {
        *self.issued.lock().await = None;
    }

    async fn run(&self, terminal: bool) -> Result<Issued, PluginError> {
        if self.interactive == "Always" && !terminal {
            return Err(PluginError::NoTerminal(self.command.clone()));
        }
        let mut info = serde_json::json!({
            "apiVersion": self.version, "kind": "ExecCredential", "spec": {"interactive": terminal},
        });
        if let Some(cluster) = &self.cluster {
            info["spec"]["cluster"] = cluster.clone();
        }
        let mut command = Command::new(&self.command);
        command.args(&self.arguments).env("KUBERNETES_EXEC_INFO", info.to_string()).kill_on_drop(true);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // What it says to people goes to people, if there are any.
        let (stdin, stderr) = if terminal { (Stdio::inherit(), Stdio::inherit()) } else { (Stdio::null(), Stdio::piped()) };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(stderr);
        let output = tokio::time::timeout(TIMEOUT, async { command.spawn()?.wait_with_output().await }).await;
        match output {
            Err(_) => Err(self.failed(format!("did not end within {TIMEOUT:?}"))),
            Ok(Err(source)) => {
                let hint = if self.install_hint.is_empty() { "" } else { &format!("; {}", self.install_hint.trim()) };
                Err(PluginError::Start { command: self.command.clone(), source, hint: hint.to_owned() })
            }
            Ok(Ok(output)) => self.read(&output),
        }
    }

    fn failed(&self, why: impl ToString) -> PluginError {
        PluginError::Failed { command: self.command.clone(), why: why.to_string() }
    }

    fn read(&self, output: &Output) -> Result<Issued, PluginError> {
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let reason = stderr.trim();
            let separator = if reason.is_empty() { "" } else { ": " };
            return Err(self.failed(format!("ended with {}{separator}{reason}", output.status)));
        }
        let printed: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| self.failed(format!("printed no ExecCredential: {error}")))?;
        let version = json::text(&printed, &["apiVersion"]);
        if version != self.version {
            return Err(self.failed(format!("printed {version:?}, but the kubeconfig says {:?}", self.version)));
        }
        let text = |key: &str| Some(json::text(&printed, &["status", key]).to_owned()).filter(|text| !text.is_empty());
        let certificate = match (text("clientCertificateData"), text("clientKeyData")) {
            (Some(certificate), Some(key)) => {
                let read = ClientCertificate::from_pem(certificate.as_bytes(), key.as_bytes());
                Some(read.map_err(|error| self.failed(format!("printed a bad certificate: {error}")))?)
            }
            (None, None) => None,
            _ => return Err(self.failed("printed a certificate without a key, or a key without a certificate")),
        };
        let expires = text("expirationTimestamp").map(|text| api::Timestamp::parse(&text)).transpose();
        let expires = expires.map_err(|_| self.failed("printed an expirationTimestamp that is no time"))?;
        let issued = Issued { token: text("token"), certificate, expires: expires.map(|at| at.0) };
        if issued.token.is_none() && issued.certificate.is_none() {
            return Err(self.failed("printed neither a token nor a certificate"));
        }
        Ok(issued)
    }
}

/// Returns what a plugin is told about a cluster; its `config` is what the kubeconfig has for it.
fn described(cluster: &Value) -> Value {
    let mut described = serde_json::Map::new();
    for key in ["server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data"] {
        described.extend(json::get(cluster, key).map(|value| (key.to_owned(), value.clone())));
    }
    let mut extensions = json::items(cluster, &["extensions"]).iter();
    let config = extensions.find(|extension| json::text(extension, &["name"]) == "client.authentication.k8s.io/exec");
    described
        .extend(config.and_then(|found| json::get(found, "extension")).map(|config| ("config".to_owned(), config.clone())));
    Value::Object(described)
}

#[cfg(test)]
mod tests;
