//! Flows of values: assignments, declarations, loops and results.

use tree_sitter::Node;

use super::expressions::first_value;
use super::{Child, Field, Lowering, Role, child_at, value_at};
use crate::facts::{DefinitionKind, Expression, ExpressionId, Flow, VariableKind, Visibility};

impl<'a> Lowering<'a> {
    /// Lowers an assignment. Its value is the assigned value.
    pub(super) fn assignment(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let target = value_at(children, &[Field::Target, Field::Name]);
        let target = if target == 0 { children.first().map_or(0, |child| child.value) } else { target };
        let value = child_at(children, &[Field::Value]).or_else(|| children.get(1));
        let value = value.map_or(0, |child| child.value);
        let type_ = value_at(children, &[Field::Type]);
        if self.grammar.habits.assigning_declares {
            self.declare_targets(target, VariableKind::Local);
        }
        self.annotate(target, type_);
        self.builder.assign(target, value);
        value
    }

    /// Gives a place a declared type.
    pub(crate) fn annotate(&mut self, target: ExpressionId, type_: ExpressionId) {
        if target == 0 || type_ == 0 {
            return;
        }
        if let Expression::Variable(variable) = self.builder.expression(target) {
            self.builder.change_variable(variable, |variable| variable.declared = type_);
        }
        let instance = self.builder.push(Expression::Instance(type_));
        self.builder.assign(target, instance);
    }

    /// Turns the names of a target into variables of the scope around it.
    pub(crate) fn declare_targets(&mut self, target: ExpressionId, kind: VariableKind) {
        let mut open = vec![target];
        while let Some(at) = open.pop() {
            match self.builder.expression(at) {
                Expression::Name { name, .. } => self.declare_target(at, name, kind),
                Expression::List(span) => open.extend_from_slice(self.builder.facts().list(span)),
                Expression::Dictionary(span) => {
                    let values = self.builder.facts().list(span).iter().skip(1).step_by(2);
                    open.extend(values.copied());
                }
                Expression::Spread(inner) | Expression::Inner(inner) => open.push(inner),
                Expression::Variable(known) if !self.grammar.habits.assigning_declares => {
                    let name =
                        self.builder.facts().variables.get(known as usize).map_or(0, |known| known.name);
                    self.declare_target(at, name, kind);
                }
                _ => {}
            }
        }
    }

    fn declare_target(&mut self, at: ExpressionId, name: u32, kind: VariableKind) {
        let scope = self.builder.scope();
        let scope_kind = self.builder.kind(scope);
        let kind = match (kind, scope_kind) {
            (VariableKind::Local, DefinitionKind::Module | DefinitionKind::Namespace) => VariableKind::Global,
            (VariableKind::Local, scope_kind) if scope_kind.is_type() => VariableKind::Field,
            (kind, _) => kind,
        };
        let variable = if self.grammar.habits.assigning_declares {
            if self.builder.is_from_outside(name) {
                return;
            }
            self.builder.assign_in(scope, name, kind)
        } else {
            self.builder.declare(name, kind, 0)
        };
        self.builder.replace(at, Expression::Variable(variable));
    }

    /// Lowers a declaration of a variable.
    pub(super) fn declaration(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let target = child_at(children, &[Field::Target, Field::Name]).or_else(|| children.first());
        let Some(target) = target else { return 0 };
        let value = match child_at(children, &[Field::Value]) {
            Some(value) => value.value,
            None => children
                .iter()
                .filter(|child| !matches!(child.field, Field::Target | Field::Name | Field::Type))
                .filter(|child| child.node != target.node)
                .map(|child| child.value)
                .find(|value| *value != 0)
                .unwrap_or(0),
        };
        let type_ = value_at(children, &[Field::Type]);
        let target = if target.value == 0 {
            let text = self.text(target.node);
            self.builder.use_name(text)
        } else {
            target.value
        };
        self.declare_targets(target, VariableKind::Local);
        self.annotate(target, type_);
        self.builder.assign(target, value);
        if let Expression::Variable(variable) = self.builder.expression(target) {
            let name = self.builder.facts().variables.get(variable as usize).map_or(0, |known| known.name);
            self.name_lambda(value, name);
        }
        target
    }

    /// Gives a function without a name the name of the place that it is declared at.
    pub(crate) fn name_lambda(&mut self, value: ExpressionId, name: u32) {
        let Expression::Definition(definition) = self.builder.expression(value) else { return };
        let around = self.builder.scope();
        let is_member = self.builder.kind(around).is_type();
        self.builder.change_definition(definition, |definition| {
            if definition.kind == DefinitionKind::Lambda {
                definition.name = name;
                definition.kind = if is_member { DefinitionKind::Method } else { DefinitionKind::Function };
            }
        });
    }

    /// Lowers a declaration whose type stands beside its declarators.
    pub(super) fn declarations(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let type_ = value_at(children, &[Field::Type]);
        for child in children.iter().filter(|child| child.field != Field::Type && child.value != 0) {
            if matches!(self.builder.expression(child.value), Expression::Name { .. }) {
                self.declare_targets(child.value, VariableKind::Local);
            }
            if matches!(self.builder.expression(child.value), Expression::Variable(_) | Expression::List(_)) {
                self.annotate(child.value, type_);
            }
        }
        0
    }

    /// Lowers a loop over the elements of a value.
    pub(super) fn iteration(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let target = value_at(children, &[Field::Target, Field::Name]);
        let value = value_at(children, &[Field::Value, Field::Object]);
        let type_ = value_at(children, &[Field::Type]);
        self.bind_elements(target, value);
        self.annotate(target, type_);
        0
    }

    /// Lets the elements of a value flow to a target.
    pub(crate) fn bind_elements(&mut self, target: ExpressionId, value: ExpressionId) {
        if target == 0 || value == 0 {
            return;
        }
        let element = self.builder.push(Expression::Element(value));
        self.builder.assign(target, element);
    }

    /// Lowers a result.
    pub(super) fn result(&mut self, role: Role, children: &[Child<'a>]) -> ExpressionId {
        let value = first_value(children);
        let function = self.builder.function();
        if role == Role::Yield {
            self.builder.change_definition(function, |definition| definition.traits.is_generator = true);
            if value != 0 {
                self.builder.flow(Flow::Yield { function, value });
            }
        } else if value != 0 {
            self.builder.flow(Flow::Return { function, value });
        }
        0
    }

    /// Lowers a field of a type, or a case of an enum.
    pub(super) fn field(&mut self, node: Node<'a>, role: Role, children: &[Child<'a>]) -> ExpressionId {
        let type_ = value_at(children, &[Field::Type]);
        let value = value_at(children, &[Field::Value]);
        let is_name =
            |child: &&Child<'_>| matches!(child.field, Field::Name | Field::Property | Field::Target);
        let names: Vec<Child<'a>> = children.iter().filter(is_name).copied().collect();
        let names = if names.is_empty() {
            children.iter().find(|child| child.role == Role::MemberName).copied().into_iter().collect()
        } else {
            names
        };
        let kind = if role == Role::Case { VariableKind::Case } else { VariableKind::Field };
        let visibility = self.take_visibility();
        for child in names {
            let text = self.text(child.node).trim_start_matches(['$', '*', '&', ' ']);
            if text.is_empty() || text.len() > 200 {
                continue;
            }
            let name = self.builder.name(text);
            self.builder.line = super::line_of(node);
            let scope = self.builder.scope();
            let variable = self.builder.declare(name, kind, type_);
            if let Some(visibility) = visibility {
                self.builder.change_variable(variable, |variable| variable.visibility = visibility);
            }
            let place = self.builder.push(Expression::Variable(variable));
            self.annotate(place, type_);
            self.builder.assign(place, value);
            if role == Role::Case && self.builder.kind(scope).is_type() {
                let class = self.builder.push(Expression::Definition(scope));
                let instance = self.builder.push(Expression::Instance(class));
                self.builder.assign(place, instance);
            }
        }
        0
    }

    /// Takes the visibility that modifiers gave to what comes next.
    pub(crate) fn take_visibility(&mut self) -> Option<Visibility> {
        let found = self.pending.iter().find_map(|word| match word.as_str() {
            "public" => Some(Visibility::Public),
            "internal" => Some(Visibility::Internal),
            "private" => Some(Visibility::Private),
            _ => None,
        });
        self.pending.clear();
        found
    }
}
