//! `securityContext`: which user a container runs as. What would change how the program runs and cannot be had is refused; what
//! would only have restricted it is told (`api::process_rules`).

use api::json::{boolean, int, items};
use serde_json::Value;

use super::{ConfigError, PodContext};

/// The user and group of a container, where they are not lifesign's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
}

pub(super) fn user(pod: &Value, container: &Value, context: &PodContext) -> Result<User, ConfigError> {
    let set = |name: &str| int(container, &["securityContext", name]).or_else(|| int(pod, &["spec", "securityContext", name]));
    let may = |field: &'static str, wanted: Option<i64>, own: u32| match wanted {
        None => Ok(None),
        Some(id) if id == i64::from(own) => Ok(None),
        Some(id) if context.uid == 0 => u32::try_from(id).map(Some).map_err(|_| ConfigError::NeedsRoot { field, id, own }),
        Some(id) => Err(ConfigError::NeedsRoot { field, id, own }),
    };
    let user = may("runAsUser", set("runAsUser"), context.uid)?;
    let group = may("runAsGroup", set("runAsGroup"), context.gid)?;
    let flag = |name: &str| {
        boolean(container, &["securityContext", name]).or_else(|| boolean(pod, &["spec", "securityContext", name]))
    };
    if flag("runAsNonRoot") == Some(true) && user.unwrap_or(context.uid) == 0 {
        return Err(ConfigError::WouldBeRoot);
    }
    if context.uid != 0 {
        let unsupported = |field: String| ConfigError::Unsupported { field, hint: "remove it or start lifesign as root" };
        if let Some(capability) = items(container, &["securityContext", "capabilities", "add"]).first() {
            return Err(unsupported(format!("capabilities.add {}", capability.as_str().unwrap_or_default())));
        }
        if flag("privileged") == Some(true) {
            return Err(unsupported("privileged".to_owned()));
        }
    }
    if !items(pod, &["spec", "securityContext", "supplementalGroups"]).is_empty() {
        let field = "supplementalGroups".to_owned();
        return Err(ConfigError::Unsupported { field, hint: "remove it and use runAsGroup" });
    }
    Ok(User { user, group })
}
