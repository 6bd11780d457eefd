//! Storage for the bytes of uploaded files: a folder, or anything else that implements [`Storage`].
//!
//! Files are named by the tokens of their upload slots. A storage must guarantee: a finished file
//! is complete, also after a crash; an unfinished one is never served, and is removed by the
//! request that began it. Nothing here blocks the calling thread.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use tokio::task::spawn_blocking;

use crate::reply::Body;

/// An action of a storage; the error is the system's, or another server's.
pub(crate) type StorageDoing<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// A storage of files.
pub(crate) trait Storage: Send + Sync {
    /// Begins a file of this size; an existing one of that name is removed.
    fn begin(&self, token: &str, size: u64) -> StorageDoing<'static, Box<dyn Growing>>;

    /// Returns `len` bytes of a file, from `start` on; `None` if there is no such file.
    fn read(&self, token: &str, start: u64, len: u64) -> StorageDoing<'static, Option<Body>>;

    /// Removes a file, if there is one.
    fn remove(&self, token: &str) -> StorageDoing<'static, ()>;

    /// Returns an address to which a client that wants a file is redirected; `None` if the file is
    /// served here. That address has to send the same headers about the file.
    fn address(&self, _token: &str, _shown: ShownFile<'_>) -> Option<String> {
        None
    }
}

/// The headers that describe a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownFile<'a> {
    pub content_type: &'a str,
    pub disposition: &'a str,
    pub cache_control: &'a str,
}

/// A file that is being written.
pub(crate) trait Growing: Send {
    /// Writes the next bytes.
    fn append(&mut self, bytes: Vec<u8>) -> StorageDoing<'_, ()>;

    /// Completes the file and keeps it.
    fn end(self: Box<Self>) -> StorageDoing<'static, ()>;
}

/// Returns the place of a file below the folder of all. Two characters of the token are a folder,
/// since folders with millions of files are slow.
pub fn place(token: &str) -> String {
    format!("{}/{token}", token.get(..2).unwrap_or_default())
}

/// Files in a folder, which is created with the first file.
#[derive(Debug, Clone)]
pub(crate) struct StorageFolder(PathBuf);

impl StorageFolder {
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    fn path(&self, token: &str) -> PathBuf {
        self.0.join(place(token))
    }
}

impl Storage for StorageFolder {
    fn begin(&self, token: &str, _size: u64) -> StorageDoing<'static, Box<dyn Growing>> {
        let path = self.path(token);
        off_this_thread(move || {
            let file: Box<dyn Growing> = Box::new(GrowingFile(Some(create(&path)?)));
            Ok(file)
        })
    }

    fn read(&self, token: &str, start: u64, len: u64) -> StorageDoing<'static, Option<Body>> {
        let path = self.path(token);
        off_this_thread(move || match File::open(path) {
            Ok(file) => Ok(Some(Body::file(file, start, len))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn remove(&self, token: &str) -> StorageDoing<'static, ()> {
        let path = self.path(token);
        off_this_thread(move || match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
    }
}

/// A file that is being written; `None` after an error.
struct GrowingFile(Option<File>);

impl Growing for GrowingFile {
    fn append(&mut self, bytes: Vec<u8>) -> StorageDoing<'_, ()> {
        let file = self.0.take();
        Box::pin(async move {
            let mut file = file.ok_or_else(failed_before)?;
            let written = off_this_thread(move || file.write_all(&bytes).map(|()| file));
            self.0 = Some(written.await?);
            Ok(())
        })
    }

    fn end(self: Box<Self>) -> StorageDoing<'static, ()> {
        let file = self.0.ok_or_else(failed_before);
        off_this_thread(move || file?.sync_all())
    }
}

fn failed_before() -> io::Error {
    io::Error::other("the file could not be written before")
}

fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create(path)
}

fn off_this_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> StorageDoing<'static, T> {
    Box::pin(async { spawn_blocking(work).await.map_err(io::Error::other)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_what_was_ended_until_it_is_removed() {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(kept_until_removed());
    }

    async fn kept_until_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = StorageFolder::new(place.path().join("files"));
        let token = "aB3-_aB3-_aB3-_aB3-_";
        assert!(folder.read(token, 0, 1).await.unwrap().is_none());
        let mut growing = folder.begin(token, 9).await.unwrap();
        growing.append(b"begin".to_vec()).await.unwrap();
        growing.append(b"ning".to_vec()).await.unwrap();
        growing.end().await.unwrap();
        assert!(folder.read(token, 5, 4).await.unwrap().is_some());
        assert_eq!(fs::read(place.path().join("files/aB").join(token)).unwrap(), b"beginning");
        folder.remove(token).await.unwrap();
        folder.remove(token).await.expect("removing what isn't there succeeds");
        assert!(folder.read(token, 0, 1).await.unwrap().is_none());
    }
}
