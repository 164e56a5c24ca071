//! File or stream that is imported, decompressed.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::bulk::{BulkError, is_standard};

const BUFFER: usize = 128 * 1024;
/// First bytes of gzip (RFC 1952); neither JSON nor CSV begins with them.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Input of an import.
pub(crate) struct Input {
    bytes: Box<dyn Read + Send>,
    pub(crate) file: PathBuf,
    pub(crate) import_id: String,
    /// Size in bytes, as stored (compressed, if it is).
    pub(crate) size: Option<u64>,
    /// Number of these bytes that have been read.
    pub(crate) read: Count,
}

impl Input {
    /// Opens the file. Without `import_id`, the identifier is the SHA-256 of the file, which is then read
    /// twice.
    pub(crate) fn open(file: &Path, import_id: Option<&str>) -> Result<Self, BulkError> {
        let failed = |source| BulkError::Read { file: file.to_owned(), source };
        let read = Count::default();
        let (bytes, import_id, size): (Box<dyn Read + Send>, _, _) = if is_standard(file) {
            (Box::new(io::stdin()), import_id.map_or_else(new_id, str::to_owned), None)
        } else {
            let mut open = File::open(file).map_err(failed)?;
            let metadata = open.metadata().map_err(failed)?;
            let import_id = match import_id {
                Some(import_id) => import_id.to_owned(),
                None if metadata.is_file() => content_id(&mut open).map_err(failed)?,
                None => new_id(), // a pipe can be read only once
            };
            (Box::new(open), import_id, metadata.is_file().then_some(metadata.len()))
        };
        Ok(Self { bytes, file: file.to_owned(), import_id, size, read })
    }

    /// Returns the decompressed text. Waits for the first bytes.
    pub(crate) fn text(self) -> io::Result<Box<dyn BufRead + Send>> {
        let mut bytes = BufReader::with_capacity(BUFFER, Counted { bytes: self.bytes, count: self.read });
        if bytes.fill_buf()?.starts_with(&GZIP) {
            Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(bytes))))
        } else {
            Ok(Box::new(bytes))
        }
    }
}

fn new_id() -> String {
    Uuid::now_v7().to_string()
}

fn content_id(file: &mut File) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => digest.update(buffer.get(..read).unwrap_or_default()),
        }
    }
    file.rewind()?;
    Ok(digest.finalize().iter().fold("sha256:".to_owned(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}"); // cannot fail: the target is a String
        id
    }))
}

/// Counter of bytes. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Count(Arc<AtomicU64>);

impl Count {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Counted<R> {
    bytes: R,
    count: Count,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.count.0.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
