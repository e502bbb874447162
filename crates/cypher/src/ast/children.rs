//! The expressions directly within an expression.

use super::{Expression, Kind, PathPattern, Projected};

impl Expression {
    /// Returns the expressions directly within this one. Those of subqueries are left out, because a
    /// subquery is a query of its own.
    pub(crate) fn children(&self) -> Vec<&Expression> {
        match &self.kind {
            Kind::Literal(_)
            | Kind::Parameter(_)
            | Kind::Variable(_)
            | Kind::CountStar
            | Kind::Subquery { .. } => Vec::new(),
            Kind::List(items) | Kind::Logic(_, items) | Kind::Function { arguments: items, .. } => {
                items.iter().collect()
            }
            Kind::Map(entries) => entries.iter().map(|(_, value)| value).collect(),
            Kind::Property(inner, _)
            | Kind::HasLabels(inner, _)
            | Kind::Not(inner)
            | Kind::Negate(inner)
            | Kind::IsNull(inner, _) => vec![inner],
            Kind::Index(one, two) | Kind::Text(_, one, two) | Kind::In(one, two) => vec![one, two],
            Kind::Slice(subject, first, last) => {
                let bounds = [first, last].into_iter().flatten().map(|bound| &**bound);
                std::iter::once(&**subject).chain(bounds).collect()
            }
            Kind::MapProjection(_, items) => items.iter().filter_map(Projected::expression).collect(),
            Kind::Arithmetic(first, rest) => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)).collect()
            }
            Kind::Comparison(first, rest) => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, operand)| operand)).collect()
            }
            Kind::Case { subject, arms, otherwise } => {
                let arms = arms.iter().flat_map(|(condition, value)| [condition, value]);
                subject.as_deref().into_iter().chain(arms).chain(otherwise.as_deref()).collect()
            }
            Kind::ListComprehension { list, filter, map, .. } => [Some(list), filter.as_ref(), map.as_ref()]
                .into_iter()
                .flatten()
                .map(|part| &**part)
                .collect(),
            Kind::Quantifier { list, filter, .. } => vec![list, filter],
            Kind::Reduce { start, list, body, .. } => vec![start, list, body],
            Kind::Pattern(pattern) => of_pattern(pattern),
            Kind::PatternComprehension { pattern, filter, map } => {
                let mut children = of_pattern(pattern);
                children.extend(filter.as_deref());
                children.push(map);
                children
            }
        }
    }

    /// Returns true if a test holds for this expression or for one within it.
    // BOUNDED: by the height of an expression, which the parser limits.
    pub(crate) fn any(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        test(self) || self.children().iter().any(|child| child.any(test))
    }
}

impl Projected {
    fn expression(&self) -> Option<&Expression> {
        match self {
            Self::Entry(_, expression) => Some(expression),
            _ => None,
        }
    }
}

fn of_pattern(pattern: &PathPattern) -> Vec<&Expression> {
    let first = pattern.first.properties.iter();
    let rest = pattern
        .rest
        .iter()
        .flat_map(|(relationship, node)| relationship.properties.iter().chain(node.properties.iter()));
    first.chain(rest).map(|(_, value)| value).collect()
}
