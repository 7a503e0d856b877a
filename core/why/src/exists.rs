//! The first link: is there such an object, and where else is one of that name.

use api::json;
use serde_json::Value;

use crate::answer::Finding;
use crate::chain::{Step, Stop};
use crate::facts::{Facts, Query, Refused, Resource};
use crate::target::{Kind, Target};
use crate::words;

/// Names like the one asked for are looked for among at most this many.
const NEIGHBOURS_MAX: u32 = 500;
const ELSEWHERE_MAX: u32 = 20;

/// Returns the question for a target.
pub(crate) fn query(target: &Target) -> Query {
    Query::get(target.kind.resource(), &target.namespace, &target.name)
}

/// Returns the object, or what is known of its absence.
pub(crate) fn find<'a>(target: &Target, facts: &'a Facts) -> Step<Result<&'a Value, Finding>> {
    match facts.object(&query(target))? {
        Ok(Some(object)) => Ok(Ok(object)),
        Ok(None) => missing(target, facts).map(Err),
        Err(refused) => Err(Stop::CannotTell(cannot_read(target, &refused))),
    }
}

/// Says that something may not be read, and who can change that.
pub(crate) fn cannot_read(target: &Target, refused: &Refused) -> Finding {
    let plural = target.kind.resource().plural();
    let finding = Finding::new("CannotRead", target.short(), refused.say()).seen(
        "API server",
        if refused.code == 0 { String::new() } else { format!("status {}", refused.code) },
        refused.message.clone(),
    );
    match refused.code {
        401 => finding.act("use credentials that this cluster knows", "kubectl auth whoami"),
        403 => {
            let place = if target.namespace.is_empty() { String::new() } else { format!(" -n {}", target.namespace) };
            finding.act(
                "ask for a role with get on it, or use other credentials",
                format!("kubectl auth can-i get {plural}{place}"),
            )
        }
        _ => finding.act("try again, or look at the API server", "kubectl get --raw /readyz?verbose"),
    }
}

fn names<'a>(items: &'a [Value], field: &'static str) -> impl Iterator<Item = &'a str> {
    items.iter().map(move |item| json::text(item, &["metadata", field])).filter(|name| !name.is_empty())
}

fn missing(target: &Target, facts: &Facts) -> Step<Finding> {
    let resource = target.kind.resource();
    let short = target.short();
    let here = Query::list(resource, &target.namespace, "", "", NEIGHBOURS_MAX);
    if target.kind == Kind::Node {
        let near = near(target, facts, &here)?;
        return Ok(Finding::new("NotFound", &short, format!("there is no node {}", target.name))
            .with(near)
            .act("the nodes that there are", "kubectl get nodes"));
    }
    let elsewhere = Query::list(resource, "", "", &format!("metadata.name={}", target.name), ELSEWHERE_MAX);
    let namespace = Query::get(Resource::Namespaces, "", &target.namespace);
    facts.want([here.clone(), elsewhere.clone(), namespace.clone()]);
    let no_namespace = facts.object(&namespace)?.is_ok_and(|found| found.is_none());
    let places: Vec<String> = match facts.list(&elsewhere)? {
        Ok(found) => names(found.items, "namespace").map(str::to_owned).collect(),
        Err(_) => Vec::new(),
    };
    if let Some(first) = places.first() {
        let what = format!("{short} is not in namespace {}, but in {}", target.namespace, words::some(&places, 5));
        return Ok(Finding::new("OtherNamespace", &short, what)
            .seen(format!("namespace/{first}"), "", format!("has {short}"))
            .act("ask there", format!("lifesign why {short} -n {first}")));
    }
    if no_namespace {
        return Ok(Finding::new("NoNamespace", &short, format!("there is no namespace {}", target.namespace))
            .act("the namespaces that there are", "kubectl get namespaces"));
    }
    let near = near(target, facts, &here)?;
    let what = format!("there is no {short} in namespace {}", target.namespace);
    let command = format!("kubectl -n {} get {}", target.namespace, resource.plural());
    Ok(Finding::new("NotFound", &short, what).with(near).act("what there is", command))
}

/// Returns names that may have been meant: the same but for a slip, or with the suffix that a controller gives.
fn near(target: &Target, facts: &Facts, here: &Query) -> Step<Option<crate::answer::Evidence>> {
    let Ok(found) = facts.list(here)? else { return Ok(None) };
    let prefix = format!("{}-", target.name);
    let alike: Vec<&str> =
        names(found.items, "name").filter(|name| name.starts_with(&prefix) || words::alike(name, &target.name)).collect();
    Ok((!alike.is_empty()).then(|| crate::answer::Evidence {
        object: here.subject(),
        field: String::new(),
        value: format!("there is {}", words::some(&alike, 5)),
        at: None,
    }))
}
