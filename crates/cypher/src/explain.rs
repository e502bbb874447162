//! The text of a plan, one step a line. It says what a step does, and estimates nothing.

use std::fmt::Write;

use crate::ast::Name;
use crate::graph::{Graph, Side};
use crate::program::{Barrier, Follow, Program, Slot, Stage, Step, VariableExpand};

/// Returns the lines of a plan.
pub(crate) fn lines(program: &Program, graph: &dyn Graph) -> Vec<String> {
    let plan = Plan { names: &program.names, graph };
    let mut lines = Vec::new();
    for (number, part) in program.parts.iter().enumerate() {
        if number > 0 {
            lines.push(if program.all { "union all".to_owned() } else { "union".to_owned() });
        }
        for stage in &part.pipeline.stages {
            plan.stage(stage, &mut lines);
        }
    }
    lines.push(format!("return {}", program.columns.join(", ")));
    lines
}

struct Plan<'a> {
    names: &'a [Name],
    graph: &'a dyn Graph,
}

impl Plan<'_> {
    fn stage(&self, stage: &Stage, lines: &mut Vec<String>) {
        for step in &stage.steps {
            lines.push(self.step(step));
            if let Step::Optional { steps, .. } = step {
                lines.extend(steps.iter().map(|step| format!("  {}", self.step(step))));
            }
        }
        match &stage.barrier {
            None => {}
            Some(Barrier::Sort { keys, limit, .. }) => {
                let limit = if limit.is_some() { ", limited" } else { "" };
                lines.push(format!("sort by {} keys{limit}", keys.len()));
            }
            Some(Barrier::Aggregate { groups, aggregates }) => {
                let (groups, aggregates) = (groups.len(), aggregates.len());
                lines.push(format!("aggregate {aggregates} values by {groups} keys"));
            }
        }
    }

    fn step(&self, step: &Step) -> String {
        match step {
            Step::AllNodes { slot } => format!("scan all nodes as {}", self.name(*slot)),
            Step::LabelScan { slot, label } => {
                format!("scan {} as {}", label_name(self.graph, label.0), self.name(*slot))
            }
            Step::IndexLookup { slot, label, key, .. } => {
                let label = label.map(|label| format!("{} ", label_name(self.graph, label.0)));
                let key = self.graph.property_keys().get(usize::from(key.0)).map_or("?", |key| key);
                format!("look {}{key} up as {}", label.unwrap_or_default(), self.name(*slot))
            }
            Step::NodeById { slot, .. } => format!("take the node by its id as {}", self.name(*slot)),
            Step::Nothing => "nothing: a name does not occur in the graph".to_owned(),
            Step::BoundNode { slot } => format!("start at {}", self.name(*slot)),
            Step::HasLabels { slot, .. } => format!("check the labels of {}", self.name(*slot)),
            Step::Filter(_) => "filter".to_owned(),
            Step::Expand(expand) => self.expansion(expand.from, expand.to, expand.into, &expand.follow, ""),
            Step::VariableExpand(expand) => self.variable("", expand),
            Step::Shortest(shortest) => self.variable(
                if shortest.all { "all shortest paths: " } else { "shortest path: " },
                &shortest.expand,
            ),
            Step::Path { slot, .. } => format!("build the path {}", self.name(*slot)),
            Step::Optional { .. } => "optionally".to_owned(),
            Step::Unwind { slot, .. } => format!("unwind as {}", self.name(*slot)),
            Step::Project(items) => {
                let names: Vec<&str> = items.iter().map(|(_, slot)| self.name(*slot)).collect();
                format!("compute {}", names.join(", "))
            }
            Step::Distinct { .. } => "distinct".to_owned(),
            Step::Skip { .. } => "skip".to_owned(),
            Step::Limit { .. } => "limit".to_owned(),
            Step::Call(call) => format!("call {}", call.procedure),
        }
    }

    fn variable(&self, prefix: &str, expand: &VariableExpand) -> String {
        let ends = if expand.ends_only { ", each end once" } else { "" };
        let length = format!("*{}..{}", expand.minimum, expand.maximum);
        let text = self.expansion(expand.from, expand.to, expand.into, &expand.follow, &length);
        format!("{prefix}{text}{ends}")
    }

    fn expansion(&self, from: Slot, to: Slot, into: bool, follow: &Follow, length: &str) -> String {
        let known = self.graph.relationship_types();
        let mut types = String::new();
        for number in follow.types.iter().flatten() {
            let name = known.get(usize::from(number.0)).map_or("?", |name| name);
            // Writing to a string cannot fail.
            let _ = write!(types, "{}{name}", if types.is_empty() { ":" } else { "|" });
        }
        let (left, right) = match follow.side {
            Some(Side::Outgoing) => ("-", "->"),
            Some(Side::Incoming) => ("<-", "-"),
            None => ("-", "-"),
        };
        let verb = if into { "connect" } else { "expand" };
        format!("{verb} ({}){left}[{types}{length}]{right}({})", self.name(from), self.name(to))
    }

    fn name(&self, slot: Slot) -> &str {
        self.names.get(slot).map_or("?", |name| name)
    }
}

fn label_name(graph: &dyn Graph, number: u16) -> &str {
    graph.labels().get(usize::from(number)).map_or("?", |name| name)
}
