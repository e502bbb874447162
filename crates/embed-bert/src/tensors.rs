//! Tensors of a `model.safetensors`, read one by one from their positions in the file.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::OpenError;

/// Maximum length of the header, in bytes.
const LONGEST_HEAD: u64 = 16 << 20;

/// An open file of tensors.
pub(crate) struct Tensors {
    path: PathBuf,
    file: File,
    start: u64,
    named: HashMap<String, Tensor>,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

impl Tensors {
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = || OpenError::unreadable(path);
        let file = File::open(path).map_err(failed())?;
        let size = file.metadata().map_err(failed())?.len();
        let mut length = [0; 8];
        if size < 8 {
            return Err(OpenError::damaged(path, "it ends before its head"));
        }
        file.read_exact_at(&mut length, 0).map_err(failed())?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEAD || length > size - 8 {
            return Err(OpenError::damaged(
                path,
                format!("its head has {length} bytes, but the file only {size}"),
            ));
        }
        let mut head = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut head, 8).map_err(failed())?;
        let mut head: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&head)
            .map_err(|error| OpenError::damaged(path, format!("its head: {error}")))?;
        head.remove("__metadata__");
        let mut named = HashMap::new();
        for (name, tensor) in head {
            let tensor: Tensor = serde_json::from_value(tensor)
                .map_err(|error| OpenError::damaged(path, format!("its head, at {name}: {error}")))?;
            let [from, to] = tensor.data_offsets;
            if from > to || to > size - 8 - length {
                return Err(OpenError::damaged(path, format!("it ends before the end of {name}")));
            }
            named.insert(name, tensor);
        }
        Ok(Self { path: path.to_owned(), file, start: 8 + length, named })
    }

    /// Reads a tensor of floats with exactly this shape. Some models prefix its name with `bert.`.
    pub(crate) fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, OpenError> {
        let found = self.named.get(name).or_else(|| self.named.get(&format!("bert.{name}")));
        let tensor = found.ok_or_else(|| OpenError::damaged(&self.path, format!("it has no {name}")))?;
        if tensor.shape != shape {
            let what = format!("{name} has the shape {:?}, but config.json has {shape:?}", tensor.shape);
            return Err(OpenError::damaged(&self.path, what));
        }
        if tensor.dtype != "F32" {
            let what = format!("{name} is {}, but only F32 is supported", tensor.dtype);
            return Err(OpenError::unsupported(&self.path, what));
        }
        let [from, to] = tensor.data_offsets;
        let count: usize = shape.iter().product();
        if to - from != 4 * count as u64 {
            return Err(OpenError::damaged(&self.path, format!("{name} has another size than its shape")));
        }
        let mut bytes = vec![0; count * 4];
        self.file.read_exact_at(&mut bytes, self.start + from).map_err(OpenError::unreadable(&self.path))?;
        let numbers: Vec<f32> =
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if numbers.iter().all(|number| number.is_finite()) {
            Ok(numbers)
        } else {
            Err(OpenError::damaged(&self.path, format!("{name} contains values that are not numbers")))
        }
    }
}
