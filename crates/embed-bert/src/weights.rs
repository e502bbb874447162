//! Weights of a network, as floats or as bytes, and the file that stores the byte weights.

use std::io::{self, Read, Write};

use simd::{Panels, Rows};

use crate::OpenError;
use crate::config::Config;
use crate::tensors::Tensors;

/// A matrix in the form in which it is multiplied.
#[derive(Debug)]
pub(crate) enum Matrix {
    Floats(Rows),
    Bytes(Panels),
    /// Two bytes for each number: the first, and the remainder that it leaves.
    Fine(Panels, Panels),
}

/// Precision that a matrix needs for the result to be precise enough.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// Floats.
    Floats,
    /// Two bytes for each number.
    Fine,
    /// One byte for each number.
    Bytes,
}

/// Vectors of the vocabulary.
#[derive(Debug)]
pub(crate) enum Words {
    Floats(Vec<f32>),
    Bytes { bytes: Vec<i8>, scales: Vec<f32> },
}

/// A matrix, and the bias that is added after it.
#[derive(Debug)]
pub(crate) struct Linear {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Vec<f32>,
}

/// Gain and shift of a normalisation.
#[derive(Debug)]
pub(crate) struct Norm {
    pub(crate) gain: Vec<f32>,
    pub(crate) shift: Vec<f32>,
}

/// One layer of the network.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Queries and keys side by side.
    pub(crate) asked: Linear,
    /// Floats: this matrix would lose the most precision as bytes, above all with rows of bytes,
    /// and it is a twelfth of the work.
    pub(crate) values: Linear,
    pub(crate) output: Linear,
    pub(crate) after_attention: Norm,
    pub(crate) up: Linear,
    /// Two bytes for each number: large input values would make the steps of single bytes visible.
    pub(crate) down: Linear,
    pub(crate) after: Norm,
}

/// All weights of a network.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) words: Words,
    /// One row for each position, with the vector of the first token type added.
    pub(crate) positions: Vec<f32>,
    pub(crate) norm: Norm,
    pub(crate) layers: Vec<Layer>,
}

/// Source of the weights of a network, which are requested in one fixed order.
pub(crate) trait Source {
    type Error;
    fn words(&mut self, rows: usize, width: usize) -> Result<Words, Self::Error>;
    /// Returns several tensors of the same width, one below the other.
    fn floats(&mut self, names: &[String], shape: &[usize]) -> Result<Vec<f32>, Self::Error>;
    fn matrix(
        &mut self,
        names: &[String],
        columns: usize,
        depth: usize,
        fine: bool,
    ) -> Result<Matrix, Self::Error>;
    fn positions(&mut self, config: &Config, most: usize) -> Result<Vec<f32>, Self::Error>;
}

impl Weights {
    /// Reads all weights from a source, with the first `most` positions.
    pub(crate) fn from<S: Source>(source: &mut S, config: &Config, most: usize) -> Result<Self, S::Error> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let words = source.words(config.vocab_size, hidden)?;
        let positions = source.positions(config, most)?;
        let norm = norm(source, "embeddings.LayerNorm", hidden)?;
        let mut layers = Vec::with_capacity(config.num_hidden_layers);
        for layer in 0..config.num_hidden_layers {
            let of = |name: &str| format!("encoder.layer.{layer}.{name}");
            let asked = ["query", "key"].map(|name| of(&format!("attention.self.{name}")));
            let values = [of("attention.self.value")];
            layers.push(Layer {
                asked: linear(source, &asked, hidden, hidden, Need::Bytes)?,
                values: linear(source, &values, hidden, hidden, Need::Floats)?,
                output: linear(source, &[of("attention.output.dense")], hidden, hidden, Need::Bytes)?,
                after_attention: self::norm(source, &of("attention.output.LayerNorm"), hidden)?,
                up: linear(source, &[of("intermediate.dense")], wide, hidden, Need::Bytes)?,
                down: linear(source, &[of("output.dense")], hidden, wide, Need::Fine)?,
                after: self::norm(source, &of("output.LayerNorm"), hidden)?,
            });
        }
        Ok(Self { words, positions, norm, layers })
    }
}

fn linear<S: Source>(
    source: &mut S,
    names: &[String],
    columns: usize,
    depth: usize,
    need: Need,
) -> Result<Linear, S::Error> {
    let with = |end: &str| -> Vec<String> { names.iter().map(|name| format!("{name}.{end}")).collect() };
    Ok(Linear {
        matrix: match need {
            Need::Floats => {
                Matrix::Floats(Rows::new(&source.floats(&with("weight"), &[columns, depth])?, depth))
            }
            Need::Fine | Need::Bytes => {
                source.matrix(&with("weight"), columns, depth, matches!(need, Need::Fine))?
            }
        },
        bias: source.floats(&with("bias"), &[columns])?,
    })
}

fn norm<S: Source>(source: &mut S, name: &str, width: usize) -> Result<Norm, S::Error> {
    Ok(Norm {
        gain: source.floats(&[format!("{name}.weight")], &[width])?,
        shift: source.floats(&[format!("{name}.bias")], &[width])?,
    })
}

/// Weights from the file of the model.
pub(crate) struct Original<'tensors> {
    pub(crate) tensors: &'tensors Tensors,
    /// True if matrices are turned into bytes.
    pub(crate) bytes: bool,
}

impl Source for Original<'_> {
    type Error = OpenError;

    fn words(&mut self, rows: usize, width: usize) -> Result<Words, OpenError> {
        let numbers = self.tensors.floats("embeddings.word_embeddings.weight", &[rows, width])?;
        if !self.bytes {
            return Ok(Words::Floats(numbers));
        }
        let (mut bytes, mut scales) = (Vec::with_capacity(numbers.len()), Vec::with_capacity(rows));
        for row in numbers.chunks_exact(width) {
            let largest = row.iter().fold(f32::MIN_POSITIVE, |largest, number| largest.max(number.abs()));
            let scale = largest / 127.0;
            #[allow(clippy::cast_possible_truncation, reason = "at most 127 by the scale")]
            bytes.extend(row.iter().map(|number| (number / scale).round() as i8));
            scales.push(scale);
        }
        Ok(Words::Bytes { bytes, scales })
    }

    fn floats(&mut self, names: &[String], shape: &[usize]) -> Result<Vec<f32>, OpenError> {
        let mut all = Vec::new();
        for name in names {
            all.extend(self.tensors.floats(name, shape)?);
        }
        Ok(all)
    }

    fn matrix(
        &mut self,
        names: &[String],
        columns: usize,
        depth: usize,
        fine: bool,
    ) -> Result<Matrix, OpenError> {
        let numbers = self.floats(names, &[columns, depth])?;
        if !self.bytes {
            return Ok(Matrix::Floats(Rows::new(&numbers, depth)));
        }
        let first = Panels::new(&numbers, depth);
        Ok(if fine {
            let second = Panels::new(&first.left_of(&numbers), depth);
            Matrix::Fine(first, second)
        } else {
            Matrix::Bytes(first)
        })
    }

    fn positions(&mut self, config: &Config, most: usize) -> Result<Vec<f32>, OpenError> {
        let width = config.hidden_size;
        let shape = [config.max_position_embeddings, width];
        let mut positions = self.tensors.floats("embeddings.position_embeddings.weight", &shape)?;
        let shape = [config.type_vocab_size, width];
        let types = self.tensors.floats("embeddings.token_type_embeddings.weight", &shape)?;
        positions.truncate(most * width);
        for row in positions.chunks_exact_mut(width) {
            row.iter_mut().zip(&types).for_each(|(number, of_type)| *number += of_type);
        }
        Ok(positions)
    }
}

/// Weights from a file of [`write`]. They are valid only if [`StoredWeights::finish`] returns true.
pub(crate) struct StoredWeights<R> {
    reader: R,
    hasher: blake3::Hasher,
    room: Vec<u8>,
}

impl<R: Read> StoredWeights<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, hasher: blake3::Hasher::new(), room: Vec::new() }
    }

    pub(crate) fn bytes(&mut self, count: usize) -> io::Result<&[u8]> {
        self.room.resize(count, 0);
        self.reader.read_exact(&mut self.room)?;
        self.hasher.update(&self.room);
        Ok(&self.room)
    }

    fn numbers(&mut self, count: usize) -> io::Result<Vec<f32>> {
        let bytes = self.bytes(count * 4)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }

    fn panels(&mut self, columns: usize, depth: usize) -> io::Result<Panels> {
        let bytes = self.bytes(Panels::written(depth, columns))?;
        Panels::read(bytes, depth, columns).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns true if the hash of all bytes matches and the file ends here.
    pub(crate) fn finish(mut self) -> io::Result<bool> {
        let mut hash = [0; 32];
        self.reader.read_exact(&mut hash)?;
        let ended = self.reader.read(&mut [0])? == 0;
        Ok(ended && *self.hasher.finalize().as_bytes() == hash)
    }
}

impl<R: Read> Source for StoredWeights<R> {
    type Error = io::Error;

    fn words(&mut self, rows: usize, width: usize) -> io::Result<Words> {
        let bytes = self.bytes(rows * width)?.iter().map(|byte| byte.cast_signed()).collect();
        Ok(Words::Bytes { bytes, scales: self.numbers(rows)? })
    }

    fn floats(&mut self, names: &[String], shape: &[usize]) -> io::Result<Vec<f32>> {
        self.numbers(names.len() * shape.iter().product::<usize>())
    }

    fn matrix(&mut self, names: &[String], columns: usize, depth: usize, fine: bool) -> io::Result<Matrix> {
        let columns = names.len() * columns;
        let first = self.panels(columns, depth)?;
        Ok(if fine { Matrix::Fine(first, self.panels(columns, depth)?) } else { Matrix::Bytes(first) })
    }

    fn positions(&mut self, config: &Config, most: usize) -> io::Result<Vec<f32>> {
        self.numbers(config.max_position_embeddings.min(most) * config.hidden_size)
    }
}

/// Writes byte weights after `head`, in the order in which they are read, followed by the hash of everything.
pub(crate) fn write(weights: &Weights, head: &[u8], file: &mut impl Write) -> io::Result<()> {
    let mut hasher = blake3::Hasher::new();
    let mut put = |bytes: &[u8]| {
        hasher.update(bytes);
        file.write_all(bytes)
    };
    put(head)?;
    if let Words::Bytes { bytes, scales } = &weights.words {
        put(&bytes.iter().map(|byte| byte.cast_unsigned()).collect::<Vec<_>>())?;
        put(&plain(scales))?;
    }
    put(&plain(&weights.positions))?;
    let mut parts = Vec::new();
    of_norm(&weights.norm, &mut parts);
    for layer in &weights.layers {
        of_linear(&layer.asked, &mut parts);
        of_linear(&layer.values, &mut parts);
        of_linear(&layer.output, &mut parts);
        of_norm(&layer.after_attention, &mut parts);
        of_linear(&layer.up, &mut parts);
        of_linear(&layer.down, &mut parts);
        of_norm(&layer.after, &mut parts);
        put(&std::mem::take(&mut parts))?;
    }
    file.write_all(hasher.finalize().as_bytes())
}

fn of_linear(linear: &Linear, parts: &mut Vec<u8>) {
    match &linear.matrix {
        Matrix::Bytes(panels) => panels.write(parts),
        Matrix::Fine(first, second) => {
            first.write(parts);
            second.write(parts);
        }
        Matrix::Floats(rows) => parts.extend(plain(&rows.weights())),
    }
    parts.extend(plain(&linear.bias));
}

fn of_norm(norm: &Norm, parts: &mut Vec<u8>) {
    parts.extend(plain(&norm.gain));
    parts.extend(plain(&norm.shift));
}

fn plain(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
