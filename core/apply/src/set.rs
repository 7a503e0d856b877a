//! Sets of paths, as trees: what a manager owns, what a write has changed.

use std::fmt;

use crate::element::Element;
use crate::schema::Schema;

/// A set of paths into an object.
///
/// A path may be a member without the paths below it, and the other way round. The empty path is never a member: nobody owns
/// a whole object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// Sorted by element; each is a member or has something below.
    pub(crate) nodes: Vec<Node>,
}

/// One element and what lies below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) element: Element,
    /// Whether the path that ends here is a member.
    pub(crate) member: bool,
    pub(crate) below: Set,
}

impl Set {
    /// Returns whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// Adds the path of these fields.
    #[must_use]
    pub fn with(mut self, fields: &[&str]) -> Set {
        let path: Vec<Element> = fields.iter().map(|name| Element::field(name)).collect();
        self.insert(&path);
        self
    }

    /// Adds a path; its parents are not added.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let mut below = Set::default();
        below.insert(rest);
        self.put(first.clone(), rest.is_empty(), below);
    }

    /// Adds an element as a member, or what lies below it, or both.
    pub(crate) fn put(&mut self, element: Element, member: bool, below: Set) {
        if !member && below.is_empty() {
            return;
        }
        // Walks go in order, so the end is nearly always the right place.
        if self.nodes.last().is_none_or(|last| last.element < element) {
            self.nodes.push(Node { element, member, below });
            return;
        }
        match self.find(&element) {
            Ok(place) => {
                let node = &mut self.nodes[place];
                node.member |= member;
                node.below = if node.below.is_empty() { below } else { node.below.union(&below) };
            }
            Err(place) => self.nodes.insert(place, Node { element, member, below }),
        }
    }

    fn find(&self, element: &Element) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    pub(crate) fn get(&self, element: &Element) -> Option<&Node> {
        self.find(element).ok().map(|place| &self.nodes[place])
    }

    /// Returns whether a path is a member.
    pub fn contains(&self, path: &[Element]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        self.get(first).is_some_and(|node| if rest.is_empty() { node.member } else { node.below.contains(rest) })
    }

    /// Returns the members of either.
    #[must_use]
    pub fn union(&self, other: &Set) -> Set {
        self.combine(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => (left.member || right.member, left.below.union(&right.below)),
            (Some(one), None) | (None, Some(one)) => (one.member, one.below.clone()),
            (None, None) => (false, Set::default()),
        })
    }

    /// Returns the members of both.
    #[must_use]
    pub fn intersection(&self, other: &Set) -> Set {
        self.combine(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => (left.member && right.member, left.below.intersection(&right.below)),
            _ => (false, Set::default()),
        })
    }

    /// Returns the members that the other has not.
    #[must_use]
    pub fn difference(&self, other: &Set) -> Set {
        self.combine(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => (left.member && !right.member, left.below.difference(&right.below)),
            (Some(left), None) => (left.member, left.below.clone()),
            (None, _) => (false, Set::default()),
        })
    }

    /// Returns the members that neither the other has nor lie below one that it has.
    #[must_use]
    pub fn without_trees(&self, other: &Set) -> Set {
        self.combine(other, |left, right| match (left, right) {
            (Some(_), Some(right)) if right.member => (false, Set::default()),
            (Some(left), Some(right)) => (left.member, left.below.without_trees(&right.below)),
            (Some(left), None) => (left.member, left.below.clone()),
            (None, _) => (false, Set::default()),
        })
    }

    /// Walks both in order and makes a set of what `choose` says about each element.
    fn combine(&self, other: &Set, choose: impl Fn(Option<&Node>, Option<&Node>) -> (bool, Set)) -> Set {
        let mut out = Set::default();
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(left), Some(right)) => left.element.cmp(&right.element),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (None, None) => return out,
            };
            let left = if order.is_le() { left.next() } else { None };
            let right = if order.is_ge() { right.next() } else { None };
            let (member, below) = choose(left, right);
            if let Some(node) = left.or(right).filter(|_| member || !below.is_empty()) {
                out.nodes.push(Node { element: node.element.clone(), member, below });
            }
        }
    }

    /// Returns the set with every declared field that something lies below as a member too.
    ///
    /// Such fields are not owned by themselves, but they go when everything below them goes.
    #[must_use]
    pub(crate) fn with_declared_parents<'a, S: Schema<'a>>(&self, schema: Option<S>) -> Set {
        let nodes = self.nodes.iter().map(|node| {
            let declared = match (&node.element, schema) {
                (Element::Field(name), Some(schema)) => schema.field(name),
                _ => None,
            };
            let inner = match (&node.element, schema) {
                (Element::Field(_), Some(schema)) => declared.or_else(|| schema.rest()),
                (Element::Key(_), Some(schema)) if schema.list().is_some() => Some(schema.item()),
                _ => None,
            };
            let member = node.member || (declared.is_some() && !node.below.is_empty());
            Node { element: node.element.clone(), member, below: node.below.with_declared_parents(inner) }
        });
        Set { nodes: nodes.collect() }
    }

    /// Returns the paths of the members, those of a level before those below.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut out = Vec::new();
        self.walk(&mut Vec::new(), &mut out);
        out
    }

    fn walk(&self, path: &mut Vec<Element>, out: &mut Vec<Vec<Element>>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            out.push(path.iter().chain([&node.element]).cloned().collect());
        }
        for node in &self.nodes {
            path.push(node.element.clone());
            node.below.walk(path, out);
            path.pop();
        }
    }
}

/// A path as errors show it: `.spec.containers[name="a"].image`.
pub(crate) fn show(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

impl fmt::Display for Set {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.paths().iter().map(|path| show(path)).collect();
        out.write_str(&lines.join("\n"))
    }
}
