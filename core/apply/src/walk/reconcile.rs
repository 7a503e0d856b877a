//! What a set means after its type has changed: what is atomic now is owned as a whole.

use crate::element::Element;
use crate::schema::{Elements, Form, Members, Schema, form};
use crate::set::{Node, Set};

/// Returns the set with what lies below atomic values drawn together; `None` if nothing changes.
pub(crate) fn reconcile<'a, S: Schema<'a>>(schema: S, set: &Set) -> Option<Set> {
    let changes: Vec<Option<Node>> = set.nodes.iter().map(|node| one(schema, node)).collect();
    if changes.iter().all(Option::is_none) {
        return None;
    }
    let nodes = changes.into_iter().zip(&set.nodes).map(|(changed, node)| changed.unwrap_or_else(|| node.clone()));
    Some(Set { nodes: nodes.collect() })
}

fn one<'a, S: Schema<'a>>(parent: S, node: &Node) -> Option<Node> {
    if node.below.is_empty() {
        return None;
    }
    let schema = match (&node.element, form(parent, None)) {
        (Element::Field(name), Form::Map(_)) => super::member(parent, name)?,
        (Element::Field(_), _) => return None,
        (_, Form::List(_)) => parent.item(),
        _ => return None,
    };
    let atomic = match form(schema, None) {
        // What shows its type by itself says nothing about how it is owned.
        Form::Map(_) if schema.is_deduced() => return None,
        Form::Map(members) => members == Members::Atomic,
        Form::List(elements) => elements == Elements::Atomic,
        Form::Scalar | Form::None => return None,
    };
    if atomic {
        return Some(Node { element: node.element.clone(), member: true, below: Set::default() });
    }
    let below = reconcile(schema, &node.below)?;
    Some(Node { element: node.element.clone(), member: node.member, below })
}
