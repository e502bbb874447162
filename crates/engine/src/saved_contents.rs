//! The bytes of saved files: storage, retrieval, and the time limit for saving.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use checkpoint::{ContentHash, Contents};
use parking_lot::Mutex;
use store_api::{BlobReader, BlobWriter, Blobs, Store};
use tokio::task::JoinHandle;
use tool::{Stop, StopReason};

/// Bytes of saved files in the store.
pub(crate) struct SavedContents<'a> {
    blobs: &'a dyn Blobs,
    saver: SharedValue<Box<dyn BlobWriter + 'a>>,
    reader: SharedValue<Box<dyn BlobReader + 'a>>,
    stop: Option<&'a Stop>,
}

/// Content whose reads fail when the call is to stop, however long the content is.
struct UntilStopped<'a> {
    content: &'a mut dyn Read,
    stop: Option<&'a Stop>,
}

impl Read for UntilStopped<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_some_and(|stop| stop.requested().is_some()) {
            return Err(stopped());
        }
        self.content.read(buffer)
    }
}

/// Returns the error of a call that was stopped. Its kind is one that readers do not retry.
fn stopped() -> io::Error {
    io::Error::other("the call was stopped")
}

/// Value that the first of several threads creates on demand.
struct SharedValue<T>(Mutex<Option<Arc<T>>>);

impl<T> SharedValue<T> {
    fn get(&self, begin: impl FnOnce() -> Result<T, store_api::StoreError>) -> io::Result<Arc<T>> {
        let mut begun = self.0.lock();
        let begun = match &mut *begun {
            Some(begun) => begun,
            none => none.insert(Arc::new(begin().map_err(io::Error::other)?)),
        };
        Ok(begun.clone())
    }
}

impl<'a> SavedContents<'a> {
    pub(crate) fn new(store: &'a dyn Store, stop: Option<&'a Stop>) -> Self {
        let (saver, reader) = (SharedValue(Mutex::default()), SharedValue(Mutex::default()));
        Self { blobs: store.blobs(), saver, reader, stop }
    }

    /// Ensures that every content is stored before a row refers to it.
    pub(crate) fn finish(&self) -> Result<(), store_api::StoreError> {
        let saver = self.saver.0.lock();
        saver.as_ref().map_or(Ok(()), |saver| saver.finish())
    }
}

impl Contents for SavedContents<'_> {
    fn keep(&self, content: &mut dyn Read) -> io::Result<ContentHash> {
        if self.stop.is_some_and(|stop| stop.requested().is_some()) {
            return Err(stopped());
        }
        let saver = self.saver.get(|| self.blobs.saver())?;
        let mut content = UntilStopped { content, stop: self.stop };
        Ok(*saver.save(&mut content).map_err(io::Error::other)?.as_bytes())
    }

    fn open(&self, content: &ContentHash) -> io::Result<Box<dyn Read>> {
        let reader = self.reader.get(|| self.blobs.reader())?;
        reader.open(&(*content).into()).map_err(|error| match error {
            store_api::StoreError::BlobUnknown { .. } => io::Error::new(io::ErrorKind::NotFound, error),
            error => io::Error::other(error),
        })
    }
}

/// Minimum time for saving the files that a call replaces. A call with a longer timeout gets its
/// timeout once more.
const LEAST_SAVING: Duration = Duration::from_mins(1);

/// Time limit for saving the files that a call replaces. Cancelling the call ends it too.
pub(crate) struct SavingTime {
    pub(crate) stop: Stop,
    timer: JoinHandle<()>,
}

impl SavingTime {
    /// Starts the time for a call with this stop and timeout.
    pub(crate) fn begin(of_call: &Stop, timeout: Duration) -> Self {
        let stop = Stop::default();
        let (by_call, by_time) = (stop.clone(), stop.clone());
        // The changes of a command that was killed at its deadline may be kept, and this time limit
        // applies to them.
        of_call.on_request(move |reason| {
            if reason == StopReason::Cancelled {
                by_call.request(reason);
            }
        });
        let time = timeout.max(LEAST_SAVING);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            by_time.request(StopReason::Deadline);
        });
        Self { stop, timer }
    }
}

impl Drop for SavingTime {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content without an end, which requests the stop of its reader after some reads.
    struct EndlessContent<'a>(u32, &'a Stop);

    impl Read for EndlessContent<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0 += 1;
            if self.0 == 100 {
                self.1.request(StopReason::Cancelled);
            }
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }

    #[test]
    fn a_call_is_stopped_in_the_midst_of_a_content_however_large_that_is() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_sqlite::SqliteStore::open(folder.path()).unwrap();
        let stop = Stop::default();
        let contents = SavedContents::new(&store, Some(&stop));
        // The control: the content is saved before the stop.
        contents.keep(&mut &b"content"[..]).unwrap();
        let error = contents.keep(&mut EndlessContent(0, &stop)).unwrap_err();
        assert!(format!("{error:?}").contains("stopped"), "{error:?}");
        contents.keep(&mut &b"content"[..]).unwrap_err();
    }
}
