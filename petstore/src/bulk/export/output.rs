//! The file or stream that pets are exported to.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use tokio::sync::mpsc;

use crate::{
    bulk::{is_gzip, is_standard},
    error::BulkError,
};

const BUFFER: usize = 128 * 1024;

/// A part of the file.
pub(crate) enum Part {
    Bytes(Vec<u8>),
    /// End of a complete export. Without it the file is incomplete.
    End,
}

/// Output of an export. A file is written as `NAME.partial` and renamed when it is complete, so that an
/// incomplete export is never mistaken for a complete one.
pub(crate) struct OutputFile {
    to: Box<dyn Sink>,
    file: PathBuf,
    partial: Option<PathBuf>,
}

/// Destination of the bytes.
trait Sink: Write {
    /// Writes what is buffered, and syncs a file to the disk.
    fn finish(&mut self) -> io::Result<()>;
}

impl Sink for io::Stdout {
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl Sink for File {
    fn finish(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

impl<S: Sink> Sink for BufWriter<S> {
    fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.get_mut().finish()
    }
}

impl<S: Sink> Sink for GzEncoder<S> {
    fn finish(&mut self) -> io::Result<()> {
        self.try_finish()?;
        self.get_mut().finish()
    }
}

impl OutputFile {
    pub(crate) fn create(file: &Path) -> Result<Self, BulkError> {
        if is_standard(file) {
            let to = BufWriter::with_capacity(BUFFER, io::stdout());
            return Ok(Self { to: Box::new(to), file: file.to_owned(), partial: None });
        }
        let mut name = file.file_name().map(OsString::from).unwrap_or_default();
        name.push(".partial");
        let partial = file.with_file_name(name);
        let open =
            File::create(&partial).map_err(|source| BulkError::Write { file: partial.clone(), source })?;
        let open = BufWriter::with_capacity(BUFFER, open);
        let to: Box<dyn Sink> = if is_gzip(file) {
            Box::new(GzEncoder::new(open, Compression::default()))
        } else {
            Box::new(open)
        };
        Ok(Self { to, file: file.to_owned(), partial: Some(partial) })
    }

    /// Writes the parts as they arrive. If the last is not [`Part::End`], the file is removed.
    pub(crate) fn write(mut self, mut parts: mpsc::Receiver<Part>) -> Result<(), BulkError> {
        let written = self.try_write(&mut parts);
        match (&self.partial, &written) {
            (Some(partial), Ok(true)) => fs::rename(partial, &self.file),
            (Some(partial), _) => fs::remove_file(partial),
            (None, _) => Ok(()),
        }
        .and(written.map(drop))
        .map_err(|source| BulkError::Write { file: self.file, source })
    }

    /// Writes the parts, and returns `true` if [`Part::End`] arrived.
    fn try_write(&mut self, parts: &mut mpsc::Receiver<Part>) -> io::Result<bool> {
        while let Some(part) = parts.blocking_recv() {
            match part {
                Part::Bytes(bytes) => self.to.write_all(&bytes)?,
                Part::End => return self.to.finish().map(|()| true),
            }
        }
        Ok(false)
    }
}
