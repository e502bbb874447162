//! Promises of the outputs and the blobs.

use std::io::{Cursor, Read, Seek};
use std::time::Duration;

use store_api::{BlobRef, Hash, Output, Retention, Store, StoreError};

use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("an output comes back by its id, with its session and its content", outputs),
    ("an output id is given once, and an unknown one is an error", output_ids),
    ("pruning removes the oldest outputs, and keeps the newest with their contents", pruned),
    ("a blob comes back by its hash, and equal content is one blob", blobs),
    ("saved content comes back by its hash, from another process", saved),
];

fn read(mut content: impl Read) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    content.read_to_end(&mut bytes).map_err(|error| Problem(format!("a content cannot be read: {error}")))?;
    Ok(bytes)
}

fn keep(store: &dyn Store, id: &str, session: Option<&str>, minutes: i64) -> Result<Output, Problem> {
    let output = Output {
        id: id.to_owned(),
        blob: store.blobs().put(&mut id.as_bytes())?,
        media_type: "text/plain".to_owned(),
        session: session.map(str::to_owned),
        created_at: at(minutes),
    };
    store.outputs().keep(&output)?;
    Ok(output)
}

fn outputs(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    for (id, session) in [("o1", Some("s1")), ("o2", Some("s2")), ("o3", None)] {
        let output = keep(one.as_ref(), id, session, 0)?;
        equal("the output", other.outputs().find(id)?, output.clone())?;
        let (opened, content) = other.outputs().open(id)?;
        equal("the opened output", opened, output)?;
        equal("the content", read(content)?, id.as_bytes().to_vec())?;
    }
    Ok(())
}

fn output_ids(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let output = keep(one.as_ref(), "o1", Some("s1"), 0)?;
    let again = other.outputs().keep(&Output { session: Some("s2".to_owned()), ..output.clone() });
    holds("a taken id is refused", matches!(again, Err(StoreError::OutputExists { .. })))?;
    equal("the first output", other.outputs().find("o1")?, output)?;
    let unknown = other.outputs().open("../o1");
    holds("an unknown id is an error", matches!(unknown, Err(StoreError::OutputUnknown { .. })))
}

fn pruned(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    for (id, minutes) in [("o1", 0), ("o2", 10), ("o3", 20)] {
        keep(store.as_ref(), id, None, minutes)?;
    }
    let by_age = Retention { max_bytes: u64::MAX, max_age: Duration::from_mins(1), keep_newest: 2 };
    let by_bytes = Retention { max_bytes: 3, max_age: Duration::from_hours(24), keep_newest: 0 };
    let left = || -> Result<String, Problem> {
        let mut left = String::new();
        for id in ["o1", "o2", "o3"] {
            match store.outputs().open(id) {
                Ok((_, content)) => left += &String::from_utf8_lossy(&read(content)?),
                Err(StoreError::OutputUnknown { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(left)
    };
    equal("removed by age", store.outputs().prune(&by_age, at(60), &|| true)?.outputs, 1)?;
    equal("the outputs after that", left()?, "o2o3".to_owned())?;
    equal("removed by bytes", store.outputs().prune(&by_bytes, at(60), &|| true)?.outputs, 1)?;
    equal("the outputs in the end", left()?, "o3".to_owned())
}

fn blobs(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let blob = one.blobs().put(&mut &b"content"[..])?;
    equal("the reference", blob, BlobRef { hash: Hash::of(b"content"), size: 7 })?;
    equal("the reference of equal content", other.blobs().put(&mut &b"content"[..])?, blob)?;
    let mut file = other.blobs().open(&blob)?;
    equal("the content", read(&file)?, b"content".to_vec())?;
    file.seek(std::io::SeekFrom::Start(3)).map_err(|error| Problem(error.to_string()))?;
    equal("the whole file put again", one.blobs().put_file(file)?, blob)?;
    let unknown = other.blobs().open(&BlobRef { hash: Hash::of(b"unknown"), size: 7 });
    holds("an unknown hash is an error", matches!(unknown, Err(StoreError::BlobUnknown { .. })))
}

fn saved(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    let contents = [Vec::new(), b"small".to_vec(), vec![7; 3_000_000]];
    {
        let writer = one.blobs().saver()?;
        for content in &contents {
            equal("the hash", writer.save(&mut Cursor::new(content))?, Hash::of(content))?;
        }
        writer.finish()?;
    }
    let reader = other.blobs().reader()?;
    for content in &contents {
        holds("the content is the same", read(reader.open(&Hash::of(content))?)? == *content)?;
    }
    let unknown = reader.open(&Hash::of(b"unknown"));
    holds("an unknown hash is an error", matches!(unknown, Err(StoreError::BlobUnknown { .. })))?;
    let checked = other.blobs().check(&|_| true)?.map(|checked| checked.damaged);
    equal("the damaged checkpoints", checked, Some(Vec::new()))
}
