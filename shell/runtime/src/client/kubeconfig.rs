//! Kubeconfig files: several merged as kubectl does, and what one context of them says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, Uri};
use serde_json::Value;

use super::config::{ClientCertificate, certificates, read};
use super::credentials::{Auth, Authorization};
use super::exec::Plugin;
use super::{Config, ConfigError, Trust};

/// The lists of a kubeconfig: where, what an entry is called, and the files that it names.
const LISTS: [(&str, &str, &[&[&str]]); 3] = [
    ("clusters", "cluster", &[&["certificate-authority"]]),
    ("contexts", "context", &[]),
    ("users", "user", &[&["client-certificate"], &["client-key"], &["tokenFile"], &["exec", "command"]]),
];

/// What kubeconfig files say.
#[derive(Debug)]
pub struct Kubeconfig {
    current: String,
    /// What the entries of each list say, by name, in the order of [`LISTS`].
    entries: [Vec<(String, Value)>; 3],
}

impl Kubeconfig {
    /// Reads a file, or several as `$KUBECONFIG` names them: what the first one says counts, and those that are not there do not.
    pub fn read(path: &Path) -> Result<Kubeconfig, ConfigError> {
        let named: Vec<PathBuf> = std::env::split_paths(path).filter(|path| !path.as_os_str().is_empty()).collect();
        let mut there: Vec<&PathBuf> = named.iter().filter(|path| path.exists()).collect();
        let whole = path.to_owned();
        if named.len() < 2 || there.is_empty() || path.exists() {
            there = vec![&whole];
        }
        let mut all = Kubeconfig { current: String::new(), entries: Default::default() };
        for file in &there {
            let folder = std::path::absolute(file).ok().and_then(|file| Some(file.parent()?.to_owned())).unwrap_or_default();
            let text = String::from_utf8_lossy(&read(file)?).into_owned();
            let added = all.add(&text, &folder);
            added.map_err(|error| match error {
                ConfigError::NotKubeconfig(why) if there.len() > 1 => {
                    ConfigError::NotKubeconfig(format!("{}: {why}", file.display()))
                }
                error => error,
            })?;
        }
        Ok(all)
    }

    /// Reads what `$KUBECONFIG` names; `None`: nothing.
    pub fn from_env() -> Result<Option<Kubeconfig>, ConfigError> {
        let named = std::env::var_os("KUBECONFIG").filter(|named| !named.is_empty());
        named.map(|named| Kubeconfig::read(Path::new(&named))).transpose()
    }

    /// Adds what a file says; files that it names are found from its folder.
    fn add(&mut self, text: &str, folder: &Path) -> Result<(), ConfigError> {
        let file: Value = match serde_saphyr::from_str(text) {
            Ok(Value::Null) if text.trim().is_empty() => return Ok(()),
            Ok(value @ Value::Object(_)) => value,
            Ok(_) => return Err(ConfigError::NotKubeconfig("it has no clusters, contexts and users".to_owned())),
            Err(error) => return Err(ConfigError::NotKubeconfig(error.to_string())),
        };
        if self.current.is_empty() {
            json::text(&file, &["current-context"]).clone_into(&mut self.current);
        }
        for (entries, (list, what, files)) in self.entries.iter_mut().zip(LISTS) {
            for entry in json::items(&file, &[list]) {
                let name = json::text(entry, &["name"]);
                if entries.iter().any(|(known, _)| known == name) {
                    continue;
                }
                let mut content = json::get(entry, what).cloned().unwrap_or_default();
                files.iter().for_each(|path| make_absolute(&mut content, path, folder));
                entries.push((name.to_owned(), content));
            }
        }
        Ok(())
    }

    /// Returns how to reach the cluster of a context; `None`: the current one. A plugin that issues credentials is run.
    pub async fn config(&self, context: Option<&str>) -> Result<Config, ConfigError> {
        let (config, plugin) = self.resolve(context)?;
        if let Some(plugin) = plugin {
            plugin.log_in().await?;
        }
        Ok(config)
    }

    fn resolve(&self, context: Option<&str>) -> Result<(Config, Option<Arc<Plugin>>), ConfigError> {
        let name = context.unwrap_or(&self.current);
        if name.is_empty() {
            return Err(ConfigError::NoContext);
        }
        let context = self.entry(1, name)?;
        let cluster = self.entry(0, json::text(context, &["cluster"]))?;
        let user = match json::text(context, &["user"]) {
            "" => &Value::Null,
            name => self.entry(2, name)?,
        };
        let server = json::text(cluster, &["server"]);
        let url = server.parse::<Uri>().ok().filter(|url| matches!(url.scheme_str(), Some("https" | "http")));
        let url = url.filter(|url| url.host().is_some());
        let url =
            url.ok_or_else(|| ConfigError::invalid("server", format!("{server:?} is no address like https://10.0.0.1:6443")))?;
        if !json::text(cluster, &["proxy-url"]).is_empty() {
            let instead = "take it out of the kubeconfig, and reach the API directly or through `kubectl proxy`";
            return Err(ConfigError::NotSupported { field: "proxy-url", instead });
        }
        let mut config = Config::new(url);
        config.trust = trust(cluster)?;
        let text = |value: &Value, key: &str| Some(json::text(value, &[key]).to_owned()).filter(|text| !text.is_empty());
        config.tls_server_name = text(cluster, "tls-server-name");
        if let Some(namespace) = text(context, "namespace") {
            config.default_namespace = namespace;
        }
        config.auth = auth(user, cluster)?;
        let plugin = match &config.auth.authorization {
            Authorization::Exec(plugin) => Some(Arc::clone(plugin)),
            _ => None,
        };
        Ok((config, plugin))
    }

    fn entry(&self, list: usize, name: &str) -> Result<&Value, ConfigError> {
        let found = self.entries[list].iter().find(|(known, _)| known == name);
        found.map(|(_, content)| content).ok_or_else(|| ConfigError::Missing { what: LISTS[list].1, name: name.to_owned() })
    }
}

/// Makes a path in a file one that holds everywhere. A command without a folder is looked for in the PATH.
fn make_absolute(content: &mut Value, path: &[&str], folder: &Path) {
    let file = json::text(content, path);
    if file.is_empty() || (path.len() > 1 && !file.contains('/')) {
        return;
    }
    let absolute = folder.join(file).display().to_string();
    if let Some((last, parents)) = path.split_last() {
        json::object_mut(content, parents).insert((*last).to_owned(), absolute.into());
    }
}

/// Returns what a field holds: its data, else what is in the file that it names.
fn content(value: &Value, field: &str) -> Result<Option<Vec<u8>>, ConfigError> {
    let data_field = format!("{field}-data");
    let data: String = json::text(value, &[&data_field]).split_ascii_whitespace().collect();
    if !data.is_empty() {
        return STANDARD.decode(data).map(Some).map_err(|error| ConfigError::invalid(data_field, error));
    }
    match json::text(value, &[field]) {
        "" => Ok(None),
        path => read(Path::new(path)).map(Some),
    }
}

fn trust(cluster: &Value) -> Result<Trust, ConfigError> {
    let authorities = content(cluster, "certificate-authority")?;
    match (authorities, json::boolean(cluster, &["insecure-skip-tls-verify"]) == Some(true)) {
        (Some(_), true) => {
            Err(ConfigError::invalid("insecure-skip-tls-verify", "certificate-authority is set too; take one of them out"))
        }
        (None, true) => Ok(Trust::Everything),
        (Some(pem), false) => Ok(Trust::Authorities(certificates("certificate-authority", &pem)?)),
        (None, false) => Ok(Trust::System),
    }
}

/// Reads who a user is.
fn auth(user: &Value, cluster: &Value) -> Result<Auth, ConfigError> {
    let text = |key: &str| json::text(user, &[key]).to_owned();
    if json::get(user, "auth-provider").is_some() {
        let instead = "use a plugin (exec), such as gke-gcloud-auth-plugin or kubelogin";
        return Err(ConfigError::NotSupported { field: "auth-provider", instead });
    }
    let certificate = match (content(user, "client-certificate")?, content(user, "client-key")?) {
        (Some(certificate), Some(key)) => Some(Arc::new(ClientCertificate::from_pem(&certificate, &key)?)),
        (None, None) => None,
        (Some(_), None) => return Err(ConfigError::invalid("client-certificate", "there is no client-key")),
        (None, Some(_)) => return Err(ConfigError::invalid("client-key", "there is no client-certificate")),
    };
    let (token, file, username) = (text("token"), text("tokenFile"), text("username"));
    let authorization = if !file.is_empty() {
        Authorization::TokenFile { path: file.into(), first: Some(token).filter(|token| !token.is_empty()) }
    } else if !token.is_empty() {
        Authorization::Token(token)
    } else if !username.is_empty() {
        Authorization::Basic { username, password: text("password") }
    } else if let Some(exec) = json::get(user, "exec") {
        Authorization::Exec(Arc::new(Plugin::new(exec, cluster)?))
    } else {
        Authorization::None
    };
    Ok(Auth { certificate, authorization, impersonate: impersonation(user)? })
}

/// Returns the headers that ask to be treated as somebody else.
fn impersonation(user: &Value) -> Result<Vec<(HeaderName, HeaderValue)>, ConfigError> {
    let mut pairs: Vec<(String, &str)> = Vec::new();
    for (key, header) in [("as", "impersonate-user"), ("as-uid", "impersonate-uid")] {
        pairs.extend(Some(json::text(user, &[key])).filter(|text| !text.is_empty()).map(|text| (header.to_owned(), text)));
    }
    let groups = json::items(user, &["as-groups"]).iter().filter_map(Value::as_str);
    pairs.extend(groups.map(|group| ("impersonate-group".to_owned(), group)));
    for (key, values) in json::object(user, &["as-user-extra"]).into_iter().flatten() {
        let values = values.as_array().into_iter().flatten().filter_map(Value::as_str);
        pairs.extend(values.map(|value| (format!("impersonate-extra-{}", key.to_ascii_lowercase()), value)));
    }
    let header = |(name, value): (String, &str)| {
        let parsed = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
        parsed.ok_or_else(|| ConfigError::invalid("as", format!("no header can have {name}: {value}")))
    };
    pairs.into_iter().map(header).collect()
}

#[cfg(test)]
mod tests;
