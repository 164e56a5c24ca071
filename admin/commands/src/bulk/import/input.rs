//! File or stream that is imported, decompressed and cut into lines. A line that is too long for a pet is
//! skipped without holding it in memory.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use flate2::bufread::GzDecoder;
use petstore_gateway::pets::RowError;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{bulk::is_standard, error::CommandError};

const BUFFER: usize = 128 * 1024;
/// First bytes of gzip (RFC 1952); neither JSON nor CSV begins with them.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Input of an import.
pub(crate) struct Input {
    /// Bytes as they are stored.
    pub(crate) bytes: Box<dyn Read + Send>,
    pub(crate) file: PathBuf,
    pub(crate) import_id: String,
    /// Size in bytes, as stored (compressed, if it is).
    pub(crate) size: Option<u64>,
}

impl Input {
    /// Opens the file. Without `import_id`, the identifier is the SHA-256 of the file, which is then read
    /// twice.
    pub(crate) fn open(file: &Path, import_id: Option<&str>) -> Result<Self, CommandError> {
        let failed = |source| CommandError::Read { file: file.to_owned(), source };
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
        Ok(Self { bytes, file: file.to_owned(), import_id, size })
    }

    /// Returns the decompressed text. Waits for the first bytes.
    pub(crate) fn text(self) -> io::Result<Box<dyn BufRead + Send>> {
        let mut bytes = BufReader::with_capacity(BUFFER, self.bytes);
        if bytes.fill_buf()?.starts_with(&GZIP) {
            let members = Members { member: Some(GzDecoder::new(bytes)) };
            Ok(Box::new(BufReader::with_capacity(BUFFER, members)))
        } else {
            Ok(Box::new(bytes))
        }
    }
}

/// Decompressed members of a gzip file, between or after which zero bytes are padding, as for `gzip`.
struct Members<R> {
    /// Current member; `None` after the last.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let rest = member.get_mut();
            while let Some(0) = rest.fill_buf()?.first() {
                rest.consume(1);
            }
            let has_more = !rest.fill_buf()?.is_empty();
            self.member = self.member.take().filter(|_| has_more).map(|it| GzDecoder::new(it.into_inner()));
        }
        Ok(0)
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

/// Maximum number of bytes in a line, which is that of a request body (docs/contract.md, 7.3).
pub(super) const MAX_LINE: usize = 64 * 1024;

/// Reads lines, and counts them from 1.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    number: i64,
    text: Vec<u8>,
}

/// Line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Text(&'a [u8]),
    /// Line of more than [`MAX_LINE`] bytes.
    TooLong,
}

/// Returns the error of a line that is too long.
pub(super) fn too_long() -> RowError {
    ("BODY_TOO_LARGE", "the line must be at most 64 KiB long".to_owned())
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, number: 0, text: Vec::new() }
    }

    /// Returns the number of the last line that was read; 0 before the first.
    pub(super) fn number(&self) -> i64 {
        self.number
    }

    /// Returns the next line; `None` after the last.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.text.clear();
        let bound = MAX_LINE + 2; // with the line end
        let read = self.input.by_ref().take(bound as u64).read_until(b'\n', &mut self.text)?;
        if read == 0 {
            return Ok(None);
        }
        let is_whole = read < bound || self.text.ends_with(b"\n");
        if !is_whole {
            self.input.skip_until(b'\n')?;
        }
        self.number += 1;
        let text = self.text.strip_suffix(b"\n").unwrap_or(&self.text);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        // The byte order mark that Windows puts before UTF-8 is not part of the text.
        let text = text.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.number == 1).unwrap_or(text);
        Ok(Some(if is_whole && text.len() <= MAX_LINE { Line::Text(text) } else { Line::TooLong }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    fn read(file: &[u8], buffer: usize) -> Vec<Option<String>> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, file));
        let mut read = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            read.push(match line {
                Line::Text(text) => Some(String::from_utf8(text.to_vec()).unwrap()),
                Line::TooLong => None,
            });
            assert_eq!(lines.number(), i64::try_from(read.len()).unwrap());
        }
        read
    }

    #[test]
    fn lines_end_in_either_way_and_the_last_need_not() {
        for (file, expected) in [
            ("", vec![]),
            ("a", vec!["a"]),
            ("a\n", vec!["a"]),
            ("a\r\nb\n\nc\r", vec!["a", "b", "", "c"]),
            ("\u{feff}a\n\u{feff}b", vec!["a", "\u{feff}b"]),
        ] {
            for buffer in [1, 2, 3, 100] {
                let expected: Vec<_> = expected.iter().map(|line| Some((*line).to_owned())).collect();
                assert_eq!(read(file.as_bytes(), buffer.max(3)), expected, "{file:?}");
            }
        }
    }

    #[test]
    fn an_overlong_line_is_skipped_and_never_buffered() {
        let longest = "x".repeat(MAX_LINE);
        for end in ["\n", "\r\n"] {
            let file = format!("{longest}{end}{longest}x{end}{}{end}last", "y".repeat(1_000_000));
            let lines = read(file.as_bytes(), 8_192);
            assert_eq!(lines, [Some(longest.clone()), None, None, Some("last".to_owned())]);
        }
    }

    proptest! {
        #[test]
        fn lines_equal_those_of_the_standard_library(file in "[ab\r\n]{0,40}", buffer in 1..9_usize) {
            let expected: Vec<_> = file.split_inclusive('\n')
                .map(|line| line.strip_suffix('\n').unwrap_or(line))
                .map(|line| Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
                .collect();
            prop_assert_eq!(read(file.as_bytes(), buffer), expected);
        }
    }
}
