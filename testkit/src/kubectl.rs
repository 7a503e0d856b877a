//! The real kubectl, where there is one.

use std::process::Command;

use serde_json::Value;

/// The oldest minor version of kubectl 1.x that the tests are written for.
const MINOR_MIN: u32 = 32;

/// Returns why tests with kubectl cannot run here: there is none, or it is too old.
pub fn missing() -> Option<String> {
    match minor_version() {
        None => Some("kubectl is not installed".to_owned()),
        Some(minor) if minor < MINOR_MIN => Some(format!("kubectl 1.{minor} is older than 1.{MINOR_MIN}")),
        Some(_) => None,
    }
}

/// Returns whether there is a kubectl to run tests with.
pub fn is_installed() -> bool {
    missing().is_none()
}

fn minor_version() -> Option<u32> {
    let output = Command::new("kubectl").args(["version", "--client", "-o", "json"]).output().ok()?;
    let version: Value = serde_json::from_slice(&output.stdout).ok()?;
    let text = version.pointer("/clientVersion/gitVersion")?.as_str()?;
    text.strip_prefix("v1.")?.split('.').next()?.parse().ok()
}
