//! Subqueries within expressions: `EXISTS`, `COUNT`, patterns as conditions, and pattern comprehensions.

use super::expression::typed;
use super::types::Type;
use super::{Compiler, Purpose, Typed, name};
use crate::ast::{Expression as Source, PathPattern, Shortest, Union};
use crate::error::{Detail, Error, Result};
use crate::program::{Expression, Pipeline};

impl Compiler<'_> {
    /// Compiles `EXISTS { ... }` and `COUNT { ... }`.
    pub(super) fn subquery(&mut self, count: bool, query: &Union) -> Result<Typed> {
        if count && !query.all {
            let message = "`COUNT { ... }` takes `UNION ALL` alone.";
            return Err(Error::syntax(Detail::InvalidClauseComposition, query.at.0, message));
        }
        let purpose = if count { Purpose::Count } else { Purpose::Exists };
        let replacements = std::mem::take(&mut self.replacements);
        let compiled = self.inner(|compiler| compiler.union(query, purpose));
        self.replacements = replacements;
        let ((parts, _), _) = compiled?;
        let pipelines: Vec<Pipeline> = parts.into_iter().map(|part| part.pipeline).collect();
        Ok(if count {
            typed(Expression::CountRows(pipelines), Type::Integer)
        } else {
            typed(Expression::Exists(pipelines), Type::Boolean)
        })
    }

    /// Compiles a pattern that is true if the graph has it.
    pub(super) fn pattern_predicate(&mut self, pattern: &PathPattern) -> Result<Typed> {
        let ((), pipeline) = self.inner(|compiler| {
            let steps = compiler.matching(std::slice::from_ref(pattern), None, false, true)?;
            compiler.current.steps.extend(steps);
            Ok(())
        })?;
        Ok(typed(Expression::Exists(vec![pipeline]), Type::Boolean))
    }

    /// Compiles `[pattern WHERE condition | expression]`.
    pub(super) fn pattern_comprehension(
        &mut self,
        pattern: &PathPattern,
        filter: Option<&Source>,
        map: &Source,
    ) -> Result<Typed> {
        let (map, pipeline) = self.inner(|compiler| {
            let steps = compiler.matching(std::slice::from_ref(pattern), filter, true, false)?;
            compiler.current.steps.extend(steps);
            compiler.expression(map)
        })?;
        let kind = Type::list(map.kind);
        Ok(typed(Expression::Collect(Box::new(pipeline), Box::new(map.expression)), kind))
    }

    /// Compiles `shortestPath(...)` as an expression: the first path, or a list of all shortest ones.
    pub(super) fn shortest_path(&mut self, pattern: &PathPattern) -> Result<Typed> {
        // A name with a blank cannot be that of a variable outside of backquotes.
        let path_name = name(" shortest path");
        let named = PathPattern { name: Some(path_name.clone()), ..pattern.clone() };
        let (path, pipeline) = self.inner(|compiler| {
            let steps = compiler.matching(std::slice::from_ref(&named), None, true, false)?;
            compiler.current.steps.extend(steps);
            compiler.variable(&path_name, pattern.at.0)
        })?;
        let (pipeline, path) = (Box::new(pipeline), Box::new(path.expression));
        Ok(if pattern.shortest == Some(Shortest::All) {
            typed(Expression::Collect(pipeline, path), Type::list(Type::Path))
        } else {
            typed(Expression::First(pipeline, path), Type::Path)
        })
    }

    /// Runs the compilation of a subquery: its steps, variables and aggregations are its own.
    fn inner<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Pipeline)> {
        let scope = self.scope.clone();
        let result = self.without_aggregation(|compiler| compiler.apart(work));
        self.scope = scope;
        result
    }
}
