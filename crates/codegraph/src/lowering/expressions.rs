//! The values of expressions.

use tree_sitter::Node;

use super::{Child, Field, Lowering, Role, child_at, value_at};
use crate::facts::{Expression, ExpressionId};

/// Maximum length of a text that is kept as a key, in bytes.
const MAXIMUM_TEXT: usize = 200;

impl<'a> Lowering<'a> {
    /// Returns the value of an expression.
    pub(super) fn expression(&mut self, node: Node<'a>, role: Role, children: &[Child<'a>]) -> ExpressionId {
        match role {
            Role::Identifier => {
                let text = self.text(node);
                if text.is_empty() { 0 } else { self.builder.use_name(text) }
            }
            Role::Text => self.literal(node, children),
            Role::Number => match self.text(node).parse() {
                Ok(number) => self.builder.push(Expression::Number(number)),
                Err(_) => 0,
            },
            Role::This => {
                let scope = self.builder.scope();
                self.builder.push(Expression::This { scope })
            }
            Role::Super => {
                let scope = self.builder.scope();
                self.builder.push(Expression::Super { scope })
            }
            Role::Member => self.member(children),
            Role::Path => self.path(children),
            Role::Call => self.call(children),
            Role::New => self.creation(children),
            Role::List => self.list(children),
            Role::Dictionary => self.dictionary(children),
            Role::Pair => self.pair(children),
            Role::Keyword => self.keyword(children),
            Role::Spread => match first_value(children) {
                0 => 0,
                value => self.builder.push(Expression::Spread(value)),
            },
            Role::Inner => match first_value(children) {
                0 => 0,
                value => self.builder.push(Expression::Inner(value)),
            },
            Role::Index => self.index(children),
            Role::Generic => self.generic(children),
            _ => 0,
        }
    }

    /// Returns the value of a text.
    fn literal(&mut self, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        let text = self.text(node);
        if text.len() > MAXIMUM_TEXT || children.iter().any(|child| child.value != 0) {
            return 0;
        }
        let bare = text.trim_start_matches(['r', 'b', 'u', 'f', 'R', 'B', 'U', '@', '$']);
        let bare = if bare.starts_with(['"', '\'', '`', ':']) { bare } else { text };
        let bare = bare.trim_matches(['"', '\'', '`']).trim_start_matches(':');
        let name = self.builder.name(bare);
        self.builder.push(Expression::Text(name))
    }

    /// Returns a member of a value.
    fn member(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let object = child_at(children, &[Field::Object, Field::Value]).or_else(|| children.first());
        let name = child_at(children, &[Field::Property, Field::Name]).or_else(|| children.last());
        let (Some(object), Some(name)) = (object, name) else { return 0 };
        let text = self.member_text(name);
        self.member_of(object.value, text)
    }

    /// Returns the name of a member, without its type arguments.
    pub(crate) fn member_text(&self, child: &Child<'a>) -> &'a str {
        let inner = child.node.child_by_field_name("name").filter(|_| child.role == Role::Generic);
        let inner = inner.or_else(|| child.node.named_child(0).filter(|_| child.role == Role::Generic));
        self.text(inner.unwrap_or(child.node)).trim_start_matches(['$', '@'])
    }

    /// Adds a member of a value; the value may be unknown.
    pub(crate) fn member_of(&mut self, object: ExpressionId, name: &str) -> ExpressionId {
        if name.is_empty() {
            return 0;
        }
        let name = self.builder.name(name);
        self.builder.push(Expression::Member { object, name })
    }

    /// Returns a member of a module or type.
    fn path(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let name = child_at(children, &[Field::Name, Field::Property]).or_else(|| children.last());
        let object = child_at(children, &[Field::Object]);
        let object = object.or_else(|| children.first().filter(|_| children.len() > 1));
        let Some(name) = name else { return 0 };
        let text = self.member_text(name);
        match object {
            Some(object) => self.path_of(object.value, text),
            None => self.builder.use_name(text),
        }
    }

    /// Adds a member of a module or type.
    pub(crate) fn path_of(&mut self, object: ExpressionId, name: &str) -> ExpressionId {
        if name.is_empty() {
            return 0;
        }
        let name = self.builder.name(name);
        self.builder.push(Expression::Path { object, name })
    }

    /// Returns the value of a call.
    pub(crate) fn call(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let callee = match child_at(children, &[Field::Callee]) {
            Some(callee) => callee.value,
            None => {
                let object = child_at(children, &[Field::Object]);
                let name = child_at(children, &[Field::Property, Field::Name]);
                match (object, name) {
                    (Some(object), Some(name)) => {
                        let text = self.member_text(name);
                        self.member_of(object.value, text)
                    }
                    (None, Some(name)) if name.value != 0 => name.value,
                    (None, Some(name)) => {
                        let text = self.member_text(name);
                        self.builder.use_name(text)
                    }
                    _ => children.first().map_or(0, |child| child.value),
                }
            }
        };
        let arguments = self.arguments(children);
        self.call_of(callee, &arguments)
    }

    /// Adds a call. A call of something unknown still is a call.
    pub(crate) fn call_of(&mut self, callee: ExpressionId, arguments: &[ExpressionId]) -> ExpressionId {
        let arguments = self.builder.span(arguments);
        self.builder.push(Expression::Call { callee, arguments })
    }

    /// Returns the arguments of a call: those in its list, and a block or lambda after it.
    pub(crate) fn arguments(&mut self, children: &[Child<'a>]) -> Vec<ExpressionId> {
        let list = value_at(children, &[Field::Arguments]);
        let mut arguments = self.parts(list);
        if list == 0 {
            let unnamed = children.iter().find(|child| child.role == Role::List);
            arguments = unnamed.map(|child| self.parts(child.value)).unwrap_or_default();
        }
        let lambda = |child: &&Child<'_>| {
            child.role == Role::Lambda && !matches!(child.field, Field::Callee | Field::Object)
        };
        arguments.extend(children.iter().filter(lambda).map(|child| child.value));
        arguments
    }

    /// Returns the elements of a list, or the expression itself.
    pub(crate) fn parts(&self, list: ExpressionId) -> Vec<ExpressionId> {
        match self.builder.expression(list) {
            Expression::List(span) => self.builder.facts().list(span).to_vec(),
            _ if list == 0 => Vec::new(),
            _ => vec![list],
        }
    }

    /// Returns the value of `new Class(...)`.
    fn creation(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let class = value_at(children, &[Field::Callee, Field::Type, Field::Name]);
        let class = if class == 0 { first_value(children) } else { class };
        let arguments = self.arguments(children);
        let arguments: Vec<ExpressionId> =
            arguments.into_iter().filter(|argument| *argument != class).collect();
        let arguments = self.builder.span(&arguments);
        self.builder.push(Expression::New { class, arguments })
    }

    /// Returns a list. Unknown elements keep their places.
    pub(crate) fn list(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let parts: Vec<ExpressionId> = children.iter().map(|child| child.value).collect();
        let span = self.builder.span(&parts);
        self.builder.push(Expression::List(span))
    }

    /// Returns a dictionary of the pairs among the children.
    fn dictionary(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let mut parts = Vec::new();
        for child in children {
            match self.builder.expression(child.value) {
                Expression::List(span) if matches!(child.role, Role::Pair | Role::Special) => {
                    parts.extend_from_slice(self.builder.facts().list(span));
                }
                Expression::Definition(definition) => {
                    let name = self.builder.definition(definition).map_or(0, |definition| definition.name);
                    let key = self.builder.push(Expression::Text(name));
                    parts.extend([key, child.value]);
                }
                Expression::Name { name, .. } => {
                    let key = self.builder.push(Expression::Text(name));
                    parts.extend([key, child.value]);
                }
                Expression::Variable(variable) => {
                    let name =
                        self.builder.facts().variables.get(variable as usize).map_or(0, |known| known.name);
                    let key = self.builder.push(Expression::Text(name));
                    parts.extend([key, child.value]);
                }
                Expression::Spread(_) => parts.extend([0, child.value]),
                _ => {}
            }
        }
        let span = self.builder.span(&parts);
        self.builder.push(Expression::Dictionary(span))
    }

    /// Returns a key and a value as a list of two.
    fn pair(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let key = child_at(children, &[Field::Key, Field::Name]).or_else(|| children.first());
        let value = child_at(children, &[Field::Value]).or_else(|| children.get(1));
        let Some(key) = key else { return 0 };
        let value = value.map_or(0, |child| child.value);
        let key = if key.role == Role::MemberName {
            let name = self.text(key.node);
            let name = self.builder.name(name);
            self.builder.push(Expression::Text(name))
        } else {
            key.value
        };
        let span = self.builder.span(&[key, value]);
        self.builder.push(Expression::List(span))
    }

    /// Returns an argument with a name.
    fn keyword(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let name = child_at(children, &[Field::Name, Field::Key]);
        let value = child_at(children, &[Field::Value]).or_else(|| children.last());
        let Some(value) = value else { return 0 };
        match name {
            Some(name) => {
                let text = self.text(name.node);
                let name = self.builder.name(text);
                self.builder.push(Expression::Keyword { name, value: value.value })
            }
            None => value.value,
        }
    }

    /// Returns an element of a container.
    fn index(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let object = child_at(children, &[Field::Object, Field::Value]).or_else(|| children.first());
        let Some(object) = object.map(|child| child.value) else { return 0 };
        let key = value_at(children, &[Field::Key]);
        let key = if key == 0 { children.get(1).map_or(0, |child| child.value) } else { key };
        let key = match self.parts(key).as_slice() {
            [only] => *only,
            _ => key,
        };
        self.builder.push(Expression::Index { object, key })
    }

    /// Returns a type with type arguments.
    fn generic(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let base = value_at(children, &[Field::Type, Field::Name, Field::Callee]);
        let base = if base == 0 { first_value(children) } else { base };
        let list = value_at(children, &[Field::Arguments]);
        let list = if list == 0 {
            children.iter().find(|child| child.role == Role::List).map_or(0, |child| child.value)
        } else {
            list
        };
        let parts = self.parts(list);
        let arguments = self.builder.span(&parts);
        self.builder.push(Expression::Generic { base, arguments })
    }

    /// Returns the type of a container without a name, such as a slice, by the type of its elements.
    pub(crate) fn container_of(&mut self, element: ExpressionId) -> ExpressionId {
        if element == 0 {
            return 0;
        }
        let arguments = self.builder.span(&[element]);
        self.builder.push(Expression::Generic { base: 0, arguments })
    }

    /// Returns the value of a block.
    pub(super) fn block(&mut self, children: &[Child<'a>]) -> ExpressionId {
        if !self.grammar.habits.blocks_have_values {
            return 0;
        }
        children.last().map_or(0, |child| child.value)
    }

    /// Returns one of the values of the children, without the condition.
    pub(super) fn alternatives(&mut self, children: &[Child<'a>]) -> ExpressionId {
        let branches = children.iter().filter(|child| child.field != Field::Condition);
        let values: Vec<ExpressionId> = branches.map(|child| child.value).collect();
        self.builder.choice(&values)
    }
}

/// Returns the first known value of the children.
pub(crate) fn first_value(children: &[Child<'_>]) -> ExpressionId {
    children.iter().map(|child| child.value).find(|value| *value != 0).unwrap_or(0)
}
