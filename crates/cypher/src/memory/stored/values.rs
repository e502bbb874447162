//! The values of a column as bytes.

use std::sync::Arc;

use super::reader::Reader;
use super::writer::Writer;
use crate::memory::column::Values;
use crate::value::{List, Value};

const BOOLEANS: u8 = 0;
const SMALL_INTEGERS: u8 = 1;
const TEXTS: u8 = 2;
const MIXED: u8 = 3;

const BOOLEAN: u8 = 0;
const INTEGER: u8 = 1;
const FLOAT: u8 = 2;
const STRING: u8 = 3;
const LIST: u8 = 4;

impl Writer {
    /// Writes the values of a column.
    pub(super) fn values(&mut self, values: &Values) {
        match values {
            Values::Booleans(values) => {
                self.byte(BOOLEANS);
                self.bytes(values.iter().map(|value| u8::from(*value)));
            }
            Values::SmallIntegers(values) => {
                self.byte(SMALL_INTEGERS);
                self.numbers(values.iter().map(|value| value.cast_unsigned()));
            }
            Values::Texts(values) => {
                self.byte(TEXTS);
                self.numbers(values.iter().copied());
            }
            Values::Mixed(values) => {
                self.byte(MIXED);
                self.count(values.len());
                for value in values {
                    self.value(value);
                }
            }
        }
    }

    /// Writes a scalar or a list of scalars.
    // BOUNDED: a property is a list of scalars at most.
    fn value(&mut self, value: &Value) {
        match value {
            Value::Boolean(value) => {
                self.byte(BOOLEAN);
                self.byte(u8::from(*value));
            }
            Value::Integer(value) => {
                self.byte(INTEGER);
                self.word(value.cast_unsigned());
            }
            Value::Float(value) => {
                self.byte(FLOAT);
                self.word(value.to_bits());
            }
            Value::String(text) => {
                self.byte(STRING);
                self.bytes(text.bytes());
            }
            Value::List(list) => {
                self.byte(LIST);
                self.count(list.items().len());
                for item in list.items() {
                    self.value(item);
                }
            }
            // No property is one of these, and no reader takes this byte.
            Value::Null | Value::Map(_) | Value::Node(_) | Value::Relationship(_) | Value::Path(_) => {
                self.byte(u8::MAX);
            }
        }
    }
}

impl Reader<'_> {
    /// Reads the values of a column, whose texts are in a table.
    pub(super) fn values(&mut self, texts: &[Arc<str>]) -> Option<Values> {
        match self.byte()? {
            BOOLEANS => {
                let bytes = self.bytes()?;
                bytes.iter().map(|byte| truth(*byte)).collect::<Option<_>>().map(Values::Booleans)
            }
            SMALL_INTEGERS => {
                Some(Values::SmallIntegers(self.numbers()?.into_iter().map(u32::cast_signed).collect()))
            }
            TEXTS => {
                let numbers = self.numbers()?;
                let is_known = numbers.iter().all(|number| (*number as usize) < texts.len());
                is_known.then_some(Values::Texts(numbers))
            }
            MIXED => {
                let mut values = Vec::new();
                for _ in 0..self.count()? {
                    values.push(self.value()?);
                }
                Some(Values::Mixed(values))
            }
            _ => None,
        }
    }

    fn value(&mut self) -> Option<Value> {
        let kind = self.byte()?;
        if kind != LIST {
            return self.scalar(kind);
        }
        let mut items = Vec::new();
        for _ in 0..self.count()? {
            let kind = self.byte()?;
            items.push(self.scalar(kind)?);
        }
        Some(Value::List(Arc::new(List::new(items))))
    }

    fn scalar(&mut self, kind: u8) -> Option<Value> {
        match kind {
            BOOLEAN => truth(self.byte()?).map(Value::Boolean),
            INTEGER => Some(Value::Integer(self.word()?.cast_signed())),
            FLOAT => Some(Value::Float(f64::from_bits(self.word()?))),
            STRING => std::str::from_utf8(self.bytes()?).ok().map(Value::from),
            _ => None,
        }
    }
}

fn truth(byte: u8) -> Option<bool> {
    match byte {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}
