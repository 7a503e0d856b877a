//! Health and metrics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use http::StatusCode;
use registry::query::Parameters;

use crate::reply::{self, Reply};
use crate::request::Route;
use crate::server::Server;
use crate::store::Fallback;

/// Answers `/livez`, `/readyz`, `/healthz`, and one check of them.
pub(crate) fn health(server: &Server, route: &Route, parameters: &Parameters) -> Reply {
    let Route::Health(which, only) = route else { return reply::text(StatusCode::NOT_FOUND, "404 page not found\n") };
    let (which, only) = (*which, only.as_str());
    let ready = which == "readyz";
    let hub = &server.0.hub;
    let reason_if = |problem: bool, text: &str| problem.then(|| text.to_owned());
    let mut checks = vec![("ping", None)];
    if ready {
        // A restart does not help against a full disk: it is no matter of life.
        checks.push(("store-writable", reason_if(hub.failed(), "the disk has failed").or_else(|| hub.full())));
        let synced = server.0.synced.load(Ordering::Relaxed);
        checks.push(("controllers-synced", reason_if(!synced, "the server's own controllers have not seen everything yet")));
        checks.push(("shutdown", reason_if(server.0.stopping.load(Ordering::Relaxed), "the server is stopping")));
    } else {
        checks.push(("store-writable", reason_if(hub.failed(), "the disk has failed")));
    }
    let excluded: Vec<&str> = parameters.all("exclude").collect();
    checks.retain(|(name, _)| !excluded.contains(name) && (only.is_empty() || only == *name));
    if checks.is_empty() {
        return reply::text(StatusCode::NOT_FOUND, "404 page not found\n");
    }
    let good = checks.iter().all(|(_, problem)| problem.is_none());
    if good && parameters.get("verbose").is_none() {
        return reply::text(StatusCode::OK, "ok");
    }
    let mut text = String::new();
    for (name, problem) in &checks {
        match problem {
            None => text.push_str(&format!("[+]{name} ok{}\n", remark(server, name))),
            Some(problem) => text.push_str(&format!("[-]{name} failed: {problem}\n")),
        }
    }
    text.push_str(&format!("{which} check {}\n", if good { "passed" } else { "failed" }));
    reply::text(if good { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, text)
}

/// Returns what somebody should know about a check that passes.
fn remark(server: &Server, check: &str) -> String {
    let fallback = server.0.hub.fallback().filter(|_| check == "store-writable");
    fallback.map_or_else(String::new, |Fallback { kept, resumed }| {
        format!(
            " (at the start the last commit did not hold: changes after revision {kept} that it had are lost, revisions go on after {resumed})"
        )
    })
}

/// Answers `/metrics`.
pub(crate) fn metrics(server: &Server) -> Reply {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (key, _) in server.0.hub.snapshot().range("/", None) {
        let mut parts = key.splitn(4, '/').skip(1);
        let (group, resource) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let name = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        *counts.entry(name).or_default() += 1;
    }
    let text = server.0.metrics.text(counts, server.0.settings.further_metrics.as_deref());
    reply::reply(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", reply::full(text))
}
