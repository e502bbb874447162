//! Definitions: functions, types, modules, their parameters, bases and decorators.

use tree_sitter::Node;

use super::expressions::first_value;
use super::{Child, Field, Lowering, Role, child_at, last_line_of, line_of, value_at};
use crate::builder::Opening;
use crate::facts::{Base, DefinitionKind, Expression, ExpressionId, Flow, VariableKind, Visibility};

/// Maximum length of a name, in bytes. Longer ones come from text that is no code.
const MAXIMUM_NAME: usize = 300;

impl<'a> Lowering<'a> {
    /// Opens the definition of a node, if it is one.
    pub(super) fn open(&mut self, node: Node<'a>, role: Role) -> bool {
        let dialect = self.grammar.dialect;
        let kind = match role {
            Role::Function => DefinitionKind::Function,
            Role::Lambda => DefinitionKind::Lambda,
            Role::Type(kind) => kind,
            Role::Namespace => DefinitionKind::Namespace,
            Role::Extension => DefinitionKind::Extension,
            Role::TypeAlias => DefinitionKind::TypeAlias,
            _ => return false,
        };
        if !dialect.opens(node, role) {
            return false;
        }
        let name = dialect.name(self, node).or_else(|| {
            let field = node.child_by_field_name("name");
            field.map(|name| self.text(name))
        });
        let name = name.filter(|name| name.len() <= MAXIMUM_NAME && role != Role::Extension).unwrap_or("");
        let around = self.builder.scope();
        let around_kind = self.builder.kind(around);
        let is_member = around_kind.is_type() || around_kind == DefinitionKind::Extension;
        let kind = match kind {
            DefinitionKind::Function if name.is_empty() => DefinitionKind::Lambda,
            DefinitionKind::Function if is_member => {
                let class = self.builder.definition(around).map_or(0, |definition| definition.name);
                let is_class_name = around_kind.is_type() && self.builder.text(class) == name;
                if is_class_name || dialect.is_constructor(name) {
                    DefinitionKind::Constructor
                } else {
                    DefinitionKind::Method
                }
            }
            kind => kind,
        };
        let visibility = self.take_visibility().unwrap_or_else(|| dialect.visibility_of(name));
        let opening = Opening { kind, name, first_line: line_of(node), last_line: last_line_of(node) };
        self.builder.open(&opening);
        let (decorators, decorated_from) = self.take_decorators();
        let is_static = self.names_one_of(&decorators, &["staticmethod"]);
        let is_class_method = self.names_one_of(&decorators, &["classmethod"]);
        let is_property = self.names_one_of(&decorators, &["property", "cached_property"]);
        self.builder.change(|definition| {
            definition.visibility = visibility;
            definition.decorators = decorators;
            definition.decorated_from = decorated_from.unwrap_or(u32::MAX).min(definition.first_line);
            definition.traits.is_static = is_static;
            definition.traits.is_class_method = is_class_method;
            definition.traits.is_property = is_property;
        });
        if kind == DefinitionKind::Lambda {
            self.declare_single_parameter(node);
        }
        true
    }

    /// Declares the parameter of a lambda that is written without parentheses.
    fn declare_single_parameter(&mut self, node: Node<'a>) {
        for field in ["parameter", "parameters"] {
            let Some(parameter) = node.child_by_field_name(field) else { continue };
            if self.role_of(parameter) == Role::Identifier {
                let name = self.builder.name(self.text(parameter));
                let variable = self.builder.declare(name, VariableKind::Parameter, 0);
                self.builder.change(|definition| definition.parameters.push(variable));
            }
        }
    }

    /// Closes the definition of a node, and returns it as a value.
    pub(super) fn close(&mut self, node: Node<'a>, role: Role, children: &[Child<'a>]) -> ExpressionId {
        let id = self.builder.scope();
        match role {
            Role::Function | Role::Lambda => {
                let result = value_at(children, &[Field::Result, Field::Type]);
                let body = value_at(children, &[Field::Body]);
                let has_body = children.iter().any(|child| child.field == Field::Body);
                self.builder.change(|definition| {
                    definition.result = if definition.result == 0 { result } else { definition.result };
                    definition.traits.is_abstract |= !has_body;
                });
                if body != 0 {
                    self.builder.flow(Flow::Return { function: id, value: body });
                }
            }
            Role::Extension => {
                let type_ = value_at(children, &[Field::Type]);
                self.builder.change(|definition| definition.attached_to = type_);
                let implemented = value_at(children, &[Field::Interfaces]);
                self.add_base(implemented, true);
            }
            Role::TypeAlias => {
                let target = value_at(children, &[Field::Value, Field::Type]);
                self.builder.change(|definition| definition.result = target);
            }
            _ => {}
        }
        if let Role::Type(_) = role {
            for child in
                children.iter().filter(|child| child.field == Field::Bases && child.role == Role::List)
            {
                for part in self.parts(child.value) {
                    self.add_base(part, false);
                }
            }
        }
        let dialect = self.grammar.dialect;
        dialect.finish_definition(self, node, children);
        self.note_test();
        self.builder.close();
        self.builder.push(Expression::Definition(id))
    }

    /// Notes that the definition is a test, if its decorators or its name say so.
    fn note_test(&mut self) {
        let id = self.builder.scope();
        let Some(definition) = self.builder.definition(id) else { return };
        let decorators = definition.decorators.clone();
        let is_marked = self.names_one_of(
            &decorators,
            &["test", "Test", "Fact", "Theory", "TestMethod", "ParameterizedTest", "rstest", "proptest"],
        );
        let name = self.builder.text(definition.name);
        let is_named = definition.kind.is_function() && self.grammar.dialect.is_test_name(name);
        if is_marked || is_named {
            self.builder.change(|definition| definition.traits.is_test = true);
        }
    }

    /// Adds a method of which only the declaration stands here.
    pub(crate) fn declare_method(&mut self, name: &str, node: Node<'a>, result: ExpressionId) {
        let name = name.trim_start_matches(['*', '&', ' ']);
        let (first_line, last_line) = (line_of(node), last_line_of(node));
        self.builder.open(&Opening { kind: DefinitionKind::Method, name, first_line, last_line });
        self.builder.change(|definition| {
            definition.result = result;
            definition.traits.is_abstract = true;
        });
        self.builder.close();
    }

    /// Adds another name for a type.
    pub(crate) fn declare_alias(&mut self, name: &str, node: Node<'a>, type_: ExpressionId) {
        let (first_line, last_line) = (line_of(node), last_line_of(node));
        self.builder.open(&Opening { kind: DefinitionKind::TypeAlias, name, first_line, last_line });
        self.builder.change(|definition| definition.result = type_);
        self.builder.close();
    }

    /// Adds a type that the innermost definition inherits from.
    pub(crate) fn add_base(&mut self, expression: ExpressionId, is_implemented: bool) {
        if expression != 0 && !matches!(self.builder.expression(expression), Expression::Keyword { .. }) {
            self.builder.change(|definition| definition.bases.push(Base { expression, is_implemented }));
        }
    }

    /// Adds the types of a list of bases.
    pub(super) fn bases(&mut self, role: Role, children: &[Child<'a>]) -> ExpressionId {
        for child in children {
            for part in self.parts(child.value) {
                self.add_base(part, role == Role::Interfaces);
            }
        }
        0
    }

    /// Lowers the list of parameters of the innermost definition.
    pub(super) fn parameters(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let mut parameters = Vec::new();
        for child in children {
            let variable = match (child.role, self.builder.expression(child.value)) {
                (Role::Receiver, _) => continue,
                (
                    Role::Parameter | Role::Rest | Role::NamedRest | Role::Special,
                    Expression::Variable(variable),
                ) => variable,
                (Role::Special, Expression::List(span)) => {
                    let several = self.builder.facts().list(span).to_vec();
                    for part in several {
                        if let Expression::Variable(variable) = self.builder.expression(part) {
                            parameters.push(variable);
                        }
                    }
                    continue;
                }
                _ if child.value == 0 => continue,
                _ => match self.declare_parameter(child.value, VariableKind::Parameter, 0) {
                    Some(variable) => variable,
                    None => continue,
                },
            };
            parameters.push(variable);
        }
        let takes_receiver = self.grammar.habits.first_parameter_is_receiver;
        self.builder.change(|definition| {
            let is_method = matches!(definition.kind, DefinitionKind::Method | DefinitionKind::Constructor);
            let mut parameters = parameters.into_iter();
            if takes_receiver && is_method && !definition.traits.is_static && definition.receiver.is_none() {
                definition.receiver = parameters.next();
            }
            definition.parameters.extend(parameters);
        });
        0
    }

    /// Lowers one parameter. Its value is its variable.
    pub(crate) fn parameter(&mut self, node: Node<'a>, role: Role, children: &[Child<'a>]) -> ExpressionId {
        let kind = match role {
            Role::Rest => VariableKind::Rest,
            Role::NamedRest => VariableKind::NamedRest,
            Role::Receiver => VariableKind::Receiver,
            _ => VariableKind::Parameter,
        };
        let type_ = value_at(children, &[Field::Type]);
        let value = value_at(children, &[Field::Value]);
        let target = value_at(children, &[Field::Name, Field::Target, Field::Property]);
        let target = if target == 0 {
            let rest = children.iter().filter(|child| !matches!(child.field, Field::Type | Field::Value));
            rest.map(|child| child.value).find(|value| *value != 0).unwrap_or(0)
        } else {
            target
        };
        if role == Role::Receiver {
            let name = self.builder.name("self");
            let variable = self.builder.declare(name, kind, type_);
            self.builder.change(|definition| definition.receiver = Some(variable));
            return self.builder.push(Expression::Variable(variable));
        }
        let target = if target == 0 {
            match node.child_by_field_name("name").map(|name| self.text(name)) {
                Some(text) if !text.is_empty() => self.builder.use_name(text.trim_start_matches('$')),
                _ => 0,
            }
        } else {
            target
        };
        let Some(variable) = self.declare_parameter(target, kind, type_) else { return 0 };
        let place = self.builder.push(Expression::Variable(variable));
        self.builder.assign(place, value);
        place
    }

    /// Declares a parameter by its pattern.
    pub(crate) fn declare_parameter(
        &mut self,
        target: ExpressionId,
        kind: VariableKind,
        type_: ExpressionId,
    ) -> Option<u32> {
        let (target, kind) = match self.builder.expression(target) {
            Expression::Spread(inner) => (inner, VariableKind::Rest),
            _ => (target, kind),
        };
        let name = match self.builder.expression(target) {
            Expression::Name { name, .. } => name,
            Expression::Variable(known) => self.builder.facts().variables.get(known as usize)?.name,
            _ => 0,
        };
        if name == 0 && target == 0 && type_ == 0 {
            return None;
        }
        let variable = self.builder.declare(name, kind, type_);
        let place = self.builder.push(Expression::Variable(variable));
        if type_ != 0 {
            let instance = self.builder.push(Expression::Instance(type_));
            self.builder.assign(place, instance);
        }
        if name != 0 {
            self.builder.replace(target, Expression::Variable(variable));
        } else if target != 0 {
            self.declare_targets(target, VariableKind::Local);
            self.builder.assign(target, place);
        }
        Some(variable)
    }

    /// Lowers a type parameter: a type that is known by its bounds.
    pub(super) fn type_parameter(&mut self, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        let named = child_at(children, &[Field::Name]).or_else(|| children.first());
        let text = named.map_or_else(|| self.text(node), |child| self.text(child.node));
        if text.is_empty() || text.len() > MAXIMUM_NAME || text.starts_with('\'') {
            return 0;
        }
        let name = self.builder.name(text);
        let variable = self.builder.declare(name, VariableKind::TypeParameter, 0);
        let place = self.builder.push(Expression::Variable(variable));
        for child in children.iter().filter(|child| named.is_none_or(|named| named.node != child.node)) {
            for bound in self.parts(child.value) {
                self.builder.assign(place, bound);
            }
        }
        0
    }

    /// Keeps a decorator for the definition that it stands at.
    pub(super) fn decorator(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let value = first_value(children);
        let is_inside = self.above(0).is_some_and(is_definition)
            || self.above(0) == Some(Role::Plain) && self.above(1).is_some_and(is_definition);
        if self.grammar.dialect.decorates_from_inside() {
            if is_inside && value != 0 {
                self.builder.change(|definition| definition.decorators.push(value));
            }
        } else {
            self.decorators.push((self.depth, self.builder.line, value));
        }
        0
    }

    /// Takes the decorators that stand before a definition at this depth, with the line of the first.
    fn take_decorators(&mut self) -> (Vec<ExpressionId>, Option<u32>) {
        let depth = self.depth;
        let (own, other): (Vec<_>, Vec<_>) = self.decorators.drain(..).partition(|(at, ..)| *at == depth);
        self.decorators = other;
        let first = own.iter().map(|(_, line, _)| *line).min();
        (own.into_iter().map(|(.., value)| value).filter(|value| *value != 0).collect(), first)
    }

    /// Forgets decorators of something that is no definition.
    pub(crate) fn drop_decorators(&mut self) {
        let depth = self.depth;
        self.decorators.retain(|(at, ..)| *at < depth);
    }

    /// Returns true if one of some expressions ends with one of the names.
    fn names_one_of(&self, expressions: &[ExpressionId], names: &[&str]) -> bool {
        expressions.iter().any(|expression| {
            let at = match self.builder.expression(*expression) {
                Expression::Call { callee, .. } => callee,
                _ => *expression,
            };
            match self.builder.expression(at) {
                Expression::Name { name, .. }
                | Expression::Member { name, .. }
                | Expression::Path { name, .. } => names.contains(&self.builder.text(name)),
                _ => false,
            }
        })
    }

    /// Applies a modifier to the innermost definition, or keeps it for what comes next.
    pub(crate) fn apply_visibility(&mut self, visibility: Visibility) {
        if self.above(0).is_some_and(is_definition) {
            self.builder.change(|definition| definition.visibility = visibility);
        } else {
            let word = match visibility {
                Visibility::Public => "public",
                Visibility::Internal => "internal",
                Visibility::Private => "private",
            };
            self.pending.push(word.to_owned());
        }
    }
}

/// Returns true for roles that open definitions.
pub(super) fn is_definition(role: Role) -> bool {
    matches!(
        role,
        Role::Function | Role::Lambda | Role::Type(_) | Role::Namespace | Role::Extension | Role::TypeAlias
    )
}
