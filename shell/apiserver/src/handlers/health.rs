//! Health and metrics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use http::StatusCode;
use registry::query::Parameters;

use crate::reply::{self, Reply};
use crate::request::Route;
use crate::server::Server;

/// Answers `/livez`, `/readyz`, `/healthz`, and one check of them.
pub(crate) fn health(server: &Server, route: &Route, parameters: &Parameters) -> Reply {
    let Route::Health(which, only) = route else { return reply::text(StatusCode::NOT_FOUND, "404 page not found\n") };
    let (which, only) = (*which, only.as_str());
    let ready = which == "readyz";
    let mut checks = vec![("ping", None), ("store-writable", server.0.hub.failed().then_some("the disk has failed"))];
    if ready {
        let synced = server.0.synced.load(Ordering::Relaxed);
        checks.push(("controllers-synced", (!synced).then_some("the server's own controllers have not seen everything yet")));
        let stopping = server.0.stopping.load(Ordering::Relaxed);
        checks.push(("shutdown", stopping.then_some("the server is stopping")));
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
            None => text.push_str(&format!("[+]{name} ok\n")),
            Some(problem) => text.push_str(&format!("[-]{name} failed: {problem}\n")),
        }
    }
    text.push_str(&format!("{which} check {}\n", if good { "passed" } else { "failed" }));
    reply::text(if good { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, text)
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
