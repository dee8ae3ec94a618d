//! A filter as a flat list of nodes, each join after its parts, without recursion.

use std::ops::Not;

use super::{Filter, matches::Test};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Test {
        test: Test,
        negated: bool,
    },
    /// Joins the filters just before it. None of them has the same join, and there are at least two. `span`
    /// counts the nodes of its parts, and itself.
    Join {
        join: Join,
        parts: usize,
        span: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    All,
    Any,
}

/// A join whose value is not known yet.
struct Open {
    join: Join,
    /// The start of its first part.
    start: usize,
    /// A part was undecided.
    undecided: bool,
}

impl Filter {
    pub(super) fn test(test: Test) -> Self {
        Self { nodes: vec![Node::Test { test, negated: false }] }
    }

    pub(super) fn join(join: Join, filters: impl IntoIterator<Item = Self>) -> Self {
        let mut nodes = Vec::new();
        let mut parts = 0;
        for mut filter in filters {
            // A filter with the same join contributes its parts, so that a long chain of `and` stays flat.
            parts += match filter.nodes.last() {
                Some(&Node::Join { join: inner, parts, .. }) if inner == join => {
                    filter.nodes.pop();
                    parts
                }
                _ => 1,
            };
            if nodes.is_empty() {
                nodes = filter.nodes;
            } else {
                nodes.append(&mut filter.nodes);
            }
        }
        if parts != 1 {
            let span = nodes.len() + 1;
            nodes.push(Node::Join { join, parts, span });
        }
        Self { nodes }
    }

    /// Whether the filter holds, given tests that hold, do not hold, or are undecided (`None`); decided as
    /// soon as the decided tests suffice.
    ///
    /// Visits the nodes from the end, and skips those that no longer matter.
    pub(super) fn evaluate(&self, mut holds: impl FnMut(&Test) -> Option<bool>) -> Option<bool> {
        let mut open: Vec<Open> = Vec::new();
        let mut next = self.nodes.len();
        'nodes: loop {
            next = next.checked_sub(1)?;
            let mut value = match &self.nodes[next] {
                Node::Test { test, negated } => holds(test).map(|holds| holds != *negated),
                Node::Join { join, parts: 0, .. } => Some(*join == Join::All),
                &Node::Join { join, span, .. } => {
                    open.push(Open { join, start: next + 1 - span, undecided: false });
                    continue;
                }
            };
            // `value` belongs to a part of the innermost open join, which it may close, and so on.
            while let Some(mut innermost) = open.pop() {
                let so_far = innermost.join == Join::All;
                if value == Some(!so_far) {
                    next = innermost.start;
                    continue;
                }
                innermost.undecided |= value.is_none();
                if next > innermost.start {
                    open.push(innermost);
                    continue 'nodes;
                }
                value = if innermost.undecided { None } else { Some(so_far) };
            }
            return value;
        }
    }

    /// Computes a value for the whole filter, from a value for each test (and whether it is negated) and a
    /// function that combines those of a join's parts.
    pub(super) fn fold<'a, T>(
        &'a self,
        mut test_value: impl FnMut(&'a Test, bool) -> T,
        mut join_values: impl FnMut(Join, Vec<T>) -> T,
    ) -> Option<T> {
        let mut values = Vec::new();
        for node in &self.nodes {
            let value = match node {
                Node::Test { test, negated } => test_value(test, *negated),
                Node::Join { join, parts, .. } => {
                    let parts = values.split_off(values.len().checked_sub(*parts)?);
                    join_values(*join, parts)
                }
            };
            values.push(value);
        }
        values.pop()
    }
}

/// The filter that matches exactly what this one does not.
///
/// By De Morgan's laws, so only tests are ever negated, and negating twice gives the same filter.
impl Not for Filter {
    type Output = Self;

    fn not(mut self) -> Self {
        for node in &mut self.nodes {
            match node {
                Node::Test { negated, .. } => *negated = !*negated,
                Node::Join { join: join @ Join::All, .. } => *join = Join::Any,
                Node::Join { join: join @ Join::Any, .. } => *join = Join::All,
            }
        }
        self
    }
}
