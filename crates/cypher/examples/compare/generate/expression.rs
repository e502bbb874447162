//! Random expressions over the names of a query.

use super::{Generator, Kind};

impl Generator {
    /// Returns an expression for a column.
    pub(super) fn value(&mut self) -> String {
        match self.below(6) {
            0 => self.truth(2),
            1 => self.numbers(2),
            2 => self.text(),
            _ => self.number(2),
        }
    }

    /// Returns an aggregate that does not depend on the order of its rows.
    pub(super) fn aggregate(&mut self) -> String {
        let inner = self.number(1);
        match self.below(9) {
            0 | 1 => "count(*)".to_owned(),
            2 => format!("count({inner})"),
            3 => format!("count(DISTINCT {inner})"),
            4 => format!("sum({inner})"),
            5 => format!("min({inner})"),
            6 => format!("max({inner})"),
            7 => format!("avg({inner})"),
            _ => format!("size(collect(DISTINCT {inner}))"),
        }
    }

    /// Returns an expression whose value is a number or null.
    pub(super) fn number(&mut self, depth: usize) -> String {
        if depth == 0 || self.one_in(3) {
            return self.plain_number();
        }
        let inner = depth - 1;
        match self.below(12) {
            0 => format!("({} + {})", self.number(inner), self.number(inner)),
            1 => format!("({} - {})", self.number(inner), self.number(inner)),
            2 => format!("({} * {})", self.number(inner), self.number(inner)),
            3 => format!("-({})", self.number(inner)),
            4 => format!("coalesce({}, {})", self.number(inner), self.number(inner)),
            5 => {
                let (condition, one, two) = (self.truth(inner), self.number(inner), self.number(inner));
                format!("CASE WHEN {condition} THEN {one} ELSE {two} END")
            }
            6 => format!("size({})", self.numbers(inner)),
            7 => format!("size([i IN {} WHERE i > {} | i])", self.numbers(inner), self.below(3)),
            8 => format!("head({})", self.numbers(inner)),
            9 => format!("{}[{}]", self.numbers(inner), self.below(3)),
            10 => format!("({} % {})", self.number(inner), 1 + self.below(3)),
            _ => match self.known(Kind::Node) {
                Some(name) => {
                    let pattern = self.around(&name);
                    format!("size([{pattern} | 1])")
                }
                None => format!("abs({})", self.number(inner)),
            },
        }
    }

    fn plain_number(&mut self) -> String {
        let kind = self.any(&[Kind::Node, Kind::Node, Kind::Relationship, Kind::Number, Kind::Path]);
        let name = kind.and_then(|kind| self.known(kind).map(|name| (kind, name)));
        match name {
            Some((Kind::Node, name)) if self.one_in(2) => format!("{name}.k"),
            Some((Kind::Node, name)) => format!("{name}.x"),
            Some((Kind::Relationship, name)) if self.one_in(2) => format!("{name}.k"),
            Some((Kind::Relationship, name)) => format!("{name}.w"),
            Some((Kind::Path, name)) => format!("length({name})"),
            Some((_, name)) => name,
            None if self.one_in(12) => "null".to_owned(),
            None => format!("{}", self.below(4)),
        }
    }

    /// Returns an expression whose value is a text or null.
    fn text(&mut self) -> String {
        match (self.below(3), self.known(Kind::Node), self.known(Kind::Relationship)) {
            (0, _, Some(name)) => format!("type({name})"),
            (1, Some(name), _) => format!("toUpper({name}.s)"),
            (_, Some(name), _) => format!("{name}.s"),
            _ => format!("toString({})", self.below(5)),
        }
    }

    /// Returns an expression whose value is a list of numbers, in an order that the language gives.
    pub(super) fn numbers(&mut self, depth: usize) -> String {
        if depth == 0 || self.one_in(4) {
            let items: Vec<String> = (0..self.below(4)).map(|_| self.plain_number()).collect();
            return format!("[{}]", items.join(", "));
        }
        let inner = depth - 1;
        match self.below(7) {
            0 => format!("range({}, {})", self.below(3), self.below(5)),
            1 => format!("[i IN {} WHERE i > {} | i + 1]", self.numbers(inner), self.below(3)),
            2 => format!("({} + {})", self.numbers(inner), self.numbers(inner)),
            3 => format!("tail({})", self.numbers(inner)),
            4 => format!("{}[{}..{}]", self.numbers(inner), self.below(2), 1 + self.below(3)),
            5 => match self.known(Kind::Relationships) {
                Some(name) => format!("[e IN {name} | e.k]"),
                None => format!("reverse({})", self.numbers(inner)),
            },
            _ => match self.known(Kind::Path) {
                Some(name) => format!("[q IN nodes({name}) | q.k]"),
                None => format!("[i IN {} | -i]", self.numbers(inner)),
            },
        }
    }

    /// Returns an expression whose value is true, false or null.
    pub(super) fn truth(&mut self, depth: usize) -> String {
        if depth > 0 && self.one_in(2) {
            let inner = depth - 1;
            return match self.below(5) {
                0 => format!("({} AND {})", self.truth(inner), self.truth(inner)),
                1 => format!("({} OR {})", self.truth(inner), self.truth(inner)),
                2 => format!("({} XOR {})", self.truth(inner), self.truth(inner)),
                3 => format!("NOT ({})", self.truth(inner)),
                _ => {
                    let word = self.any(&["any", "all", "none", "single"]).unwrap_or("any");
                    format!("{word}(i IN {} WHERE i > {})", self.numbers(inner), self.below(3))
                }
            };
        }
        let node = self.known(Kind::Node);
        match (self.below(9), node) {
            (0, Some(name)) => format!("{name}:{}", self.label()),
            (1, Some(name)) => {
                let word = self.any(&["STARTS WITH", "ENDS WITH", "CONTAINS", "=", "<"]).unwrap_or("=");
                format!("{name}.s {word} 'a'")
            }
            (2, Some(name)) => format!("EXISTS {{ MATCH {} }}", self.around(&name)),
            (3, Some(name)) => {
                let pattern = self.around(&name);
                format!("size([{pattern} | 1]) > {}", self.below(2))
            }
            (4, Some(name)) => match self.known(Kind::Node) {
                Some(other) => format!("{name} = {other}"),
                None => format!("{name}.x IS NULL"),
            },
            (5, _) => {
                let is_not = if self.one_in(2) { " NOT" } else { "" };
                format!("{} IS{is_not} NULL", self.number(1))
            }
            (6, _) => format!("{} IN {}", self.number(1), self.numbers(1)),
            (7, _) => format!("{} < {} <= {}", self.plain_number(), self.plain_number(), self.plain_number()),
            _ => {
                let word = self.any(&["=", "<>", "<", "<=", ">", ">="]).unwrap_or("=");
                format!("{} {word} {}", self.number(1), self.number(1))
            }
        }
    }

    /// Returns a pattern that starts at a node, without new names.
    pub(super) fn around(&mut self, name: &str) -> String {
        let (before, after) = self.any(&[("-", "->"), ("<-", "-"), ("-", "-")]).unwrap_or(("-", "-"));
        let wanted = self.any(&["", ":R", ":S"]).unwrap_or_default();
        let label = if self.one_in(2) { format!(":{}", self.label()) } else { String::new() };
        format!("({name}){before}[{wanted}]{after}({label})")
    }
}
