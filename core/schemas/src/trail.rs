//! Where a walk through a value is; turned into text only when there is something to report.

use std::fmt;

use api::field::Path;

/// A place in a value: the steps from the root, kept on the stack of the walk.
#[derive(Clone, Copy)]
pub(super) struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Member(&'a str),
    Index(usize),
}

impl<'a> Trail<'a> {
    pub(super) const ROOT: Trail<'static> = Trail { parent: None, step: Step::Root };

    pub(super) fn member(&'a self, name: &'a str) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Member(name) }
    }

    pub(super) fn index(&'a self, index: usize) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Index(index) }
    }

    /// Returns the path for an error; that of the root is `<nil>`, as kube-apiserver prints it.
    pub(super) fn path(&self) -> Path {
        Path::new(if matches!(self.step, Step::Root) { "<nil>".to_owned() } else { self.to_string() })
    }
}

/// `spec.list[0].name`; the root is empty.
impl fmt::Display for Trail<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(out)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Index(index) => write!(out, "[{index}]"),
            Step::Member(name) if self.parent.is_none_or(|parent| matches!(parent.step, Step::Root)) => out.write_str(name),
            Step::Member(name) => write!(out, ".{name}"),
        }
    }
}
