//! Reader of GGUF files: named facts, and the places of named tensors.
//!
//! A file may come from anybody. What it says about its own sizes is believed only as far as the bytes
//! are there: nothing is allocated that the file does not have.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{OpenError, damaged, unsupported};

/// Maximum size of everything before the tensors, in bytes. A vocabulary of 256,000 tokens needs 12 MiB.
const LONGEST_HEAD: u64 = 64 << 20;
/// Maximum number of dimensions of a tensor, by the format.
const MOST_DIMENSIONS: u32 = 4;
/// Maximum distance of the bytes of two tensors that the format rounds up to. Usual is 32.
const LARGEST_ALIGNMENT: u64 = 1 << 16;

/// Fact of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Whole number.
    Whole(i64),
    /// Other number.
    Float(f64),
    /// Truth value.
    Flag(bool),
    /// Text.
    Text(String),
    /// List of texts.
    Texts(Vec<String>),
    /// List of whole numbers.
    Wholes(Vec<i64>),
    /// List that no model here needs, such as one of floats.
    Other,
}

/// Form of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Floats of 32 bits.
    F32,
    /// Floats of 16 bits.
    F16,
    /// 32 numbers of 4 bits with one scale.
    Q4Zero,
    /// 32 numbers of 4 bits with a scale and a least number.
    Q4One,
    /// 32 numbers of 8 bits with one scale.
    Q8Zero,
}

impl Form {
    /// Returns the form with this number in the format.
    fn of(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::F32),
            1 => Some(Self::F16),
            2 => Some(Self::Q4Zero),
            3 => Some(Self::Q4One),
            8 => Some(Self::Q8Zero),
            _ => None,
        }
    }

    /// Returns the number of values of one block, and its size in bytes.
    pub(crate) fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 => (1, 2),
            Self::Q4Zero => (32, 18),
            Self::Q4One => (32, 20),
            Self::Q8Zero => (32, 34),
        }
    }
}

/// Place and shape of a tensor.
#[derive(Debug, Clone)]
struct Tensor {
    /// Sizes, the innermost first.
    shape: Vec<u64>,
    form: u32,
    start: u64,
}

/// Bytes of a file.
enum Source {
    File(File, PathBuf),
    Bytes(Vec<u8>),
}

/// Open file.
pub(crate) struct Gguf {
    source: Source,
    size: u64,
    facts: HashMap<String, Value>,
    tensors: HashMap<String, Tensor>,
    /// Position of the first tensor.
    start: u64,
}

impl Gguf {
    /// Opens the file at a path.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = OpenError::unreadable(path);
        let file = File::open(path).map_err(&failed)?;
        let size = file.metadata().map_err(&failed)?.len();
        let (facts, tensors, start) = head(BufReader::new(&file), size)?;
        Ok(Self { source: Source::File(file, path.to_owned()), size, facts, tensors, start })
    }

    /// Opens a file that is already in memory.
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Result<Self, OpenError> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let (facts, tensors, start) = head(bytes.as_slice(), size)?;
        Ok(Self { source: Source::Bytes(bytes), size, facts, tensors, start })
    }

    /// Returns a fact.
    pub(crate) fn fact(&self, name: &str) -> Option<&Value> {
        self.facts.get(name)
    }

    /// Returns a fact that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        if let Some(Value::Text(text)) = self.fact(name) { Some(text) } else { None }
    }

    /// Returns a fact that is a whole number of at least 0.
    pub(crate) fn whole(&self, name: &str) -> Option<usize> {
        if let Some(Value::Whole(number)) = self.fact(name) { usize::try_from(*number).ok() } else { None }
    }

    /// Returns the names of all tensors.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Returns true if there is a tensor with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Returns the form and the bytes of a tensor with exactly this shape, the innermost size first.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<(Form, Vec<u8>), OpenError> {
        let tensor = self.tensors.get(name).ok_or_else(|| damaged(format!("it has no tensor {name}")))?;
        let wanted = shape.iter().map(|size| u64::try_from(*size).unwrap_or(u64::MAX));
        if !tensor.shape.iter().copied().eq(wanted) {
            let found = &tensor.shape;
            return Err(damaged(format!("{name} has the shape {found:?}, and should have {shape:?}")));
        }
        let number = tensor.form;
        let form = Form::of(number)
            .ok_or_else(|| unsupported(format!("{name} has numbers in the form {number} of GGUF")))?;
        let (values, bytes) = form.block();
        if !shape.first().is_some_and(|inner| inner.is_multiple_of(values)) {
            return Err(damaged(format!("a row of {name} is not made of whole blocks")));
        }
        let blocks =
            shape.iter().try_fold(1_usize, |all, size| all.checked_mul(*size)).map(|all| all / values);
        let length = blocks.and_then(|blocks| blocks.checked_mul(bytes));
        let from = self.start.checked_add(tensor.start);
        let (Some(length), Some(from)) = (length, from) else {
            return Err(damaged(format!("{name} is larger than any file")));
        };
        let end = u64::try_from(length).ok().and_then(|length| from.checked_add(length));
        if end.is_none_or(|end| end > self.size) {
            return Err(damaged(format!("the file ends before the end of {name}")));
        }
        Ok((form, self.source.bytes(from, length)?))
    }
}

/// Facts, tensors, and the position of the first tensor.
type Contents = (HashMap<String, Value>, HashMap<String, Tensor>, u64);

/// Reads everything before the tensors.
fn head(reader: impl Read, size: u64) -> Result<Contents, OpenError> {
    let mut head = Head { reader, position: 0, end: size.min(LONGEST_HEAD) };
    if head.array()? != *b"GGUF" {
        return Err(damaged("it does not begin like a GGUF file"));
    }
    let version = head.u32()?;
    if !(2..=3).contains(&version) {
        return Err(unsupported(format!("GGUF of version {version}; known are 2 and 3")));
    }
    let (tensor_count, fact_count) = (head.u64()?, head.u64()?);
    let mut facts = HashMap::new();
    for _ in 0..fact_count {
        let name = head.text()?;
        let kind = head.u32()?;
        let value = head.value(kind)?;
        facts.insert(name, value);
    }
    let mut tensors = HashMap::new();
    for _ in 0..tensor_count {
        let name = head.text()?;
        let dimensions = head.u32()?;
        if dimensions > MOST_DIMENSIONS {
            return Err(damaged(format!("a tensor has {dimensions} dimensions")));
        }
        let shape = (0..dimensions).map(|_| head.u64()).collect::<Result<Vec<_>, _>>()?;
        let (form, start) = (head.u32()?, head.u64()?);
        tensors.insert(name, Tensor { shape, form, start });
    }
    let alignment = match facts.get("general.alignment") {
        None => 32,
        Some(Value::Whole(number)) => u64::try_from(*number).unwrap_or(0),
        Some(_) => 0,
    };
    if alignment == 0 || alignment > LARGEST_ALIGNMENT {
        return Err(damaged("its alignment is no usable number"));
    }
    let start = head.position.next_multiple_of(alignment);
    Ok((facts, tensors, start))
}

impl Source {
    /// Returns bytes of the file, whose size the caller has checked.
    fn bytes(&self, from: u64, length: usize) -> Result<Vec<u8>, OpenError> {
        match self {
            Self::File(file, path) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, from).map_err(OpenError::unreadable(path))?;
                Ok(bytes)
            }
            Self::Bytes(all) => {
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                let found = all.get(from..).and_then(|rest| rest.get(..length));
                found.map(<[u8]>::to_vec).ok_or_else(|| damaged("it ends early"))
            }
        }
    }
}

/// Beginning of a file, before the tensors, read from front to back.
struct Head<R> {
    reader: R,
    position: u64,
    end: u64,
}

impl<R: Read> Head<R> {
    /// Takes `length` bytes off what may still be read.
    fn take(&mut self, length: u64) -> Result<(), OpenError> {
        let after = self.position.checked_add(length).filter(|after| *after <= self.end);
        self.position = after.ok_or_else(|| {
            let position = self.position;
            damaged(format!("its head ends, or is longer than {LONGEST_HEAD} bytes, at byte {position}"))
        })?;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], OpenError> {
        self.take(u64::try_from(N).unwrap_or(u64::MAX))?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes).map_err(|_| damaged("its head ends early"))?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, OpenError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, OpenError> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, OpenError> {
        let length = self.u64()?;
        self.take(length)?;
        // The length was checked against the size of the file.
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.reader.read_exact(&mut bytes).map_err(|_| damaged("its head ends early"))?;
        String::from_utf8(bytes).map_err(|_| damaged("a text is not UTF-8"))
    }

    /// Reads a value that is no list.
    fn single(&mut self, kind: u32) -> Result<Value, OpenError> {
        Ok(match kind {
            0 => Value::Whole(self.array().map(u8::from_le_bytes)?.into()),
            1 => Value::Whole(self.array().map(i8::from_le_bytes)?.into()),
            2 => Value::Whole(self.array().map(u16::from_le_bytes)?.into()),
            3 => Value::Whole(self.array().map(i16::from_le_bytes)?.into()),
            4 => Value::Whole(self.u32()?.into()),
            5 => Value::Whole(self.array().map(i32::from_le_bytes)?.into()),
            6 => Value::Float(self.array().map(f32::from_le_bytes)?.into()),
            7 => Value::Flag(self.array().map(u8::from_le_bytes)? != 0),
            8 => Value::Text(self.text()?),
            10 => Value::Whole(i64::try_from(self.u64()?).map_err(|_| damaged("a number is too large"))?),
            11 => Value::Whole(self.array().map(i64::from_le_bytes)?),
            12 => Value::Float(self.array().map(f64::from_le_bytes)?),
            _ => return Err(damaged(format!("a fact is of the unknown kind {kind}"))),
        })
    }

    fn value(&mut self, kind: u32) -> Result<Value, OpenError> {
        if kind != 9 {
            return self.single(kind);
        }
        let (kind, count) = (self.u32()?, self.u64()?);
        let (mut texts, mut wholes) = (Vec::new(), Vec::new());
        // Every item takes at least a byte of the file, so `take` ends a count without end.
        for _ in 0..count {
            match self.single(kind)? {
                Value::Text(text) => texts.push(text),
                Value::Whole(number) => wholes.push(number),
                _ => {}
            }
        }
        Ok(match kind {
            8 => Value::Texts(texts),
            0..=5 | 10 | 11 => Value::Wholes(wholes),
            _ => Value::Other,
        })
    }
}
