//! Imports: pets from the lines of a file, each added once.

use super::{NewPet, Violation, Violations};

/// Name of an import: 1 to 200 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportId(String);

impl ImportId {
    /// Maximum length in characters.
    pub const MAX_LEN: usize = 200;

    /// Parses a name.
    ///
    /// # Errors
    ///
    /// If the name is not of that form.
    pub fn parse(raw: &str) -> Result<Self, Violation> {
        if (1..=Self::MAX_LEN).contains(&raw.len()) && raw.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(raw.to_owned()))
        } else {
            Err(Violation::new("import_id", "must be 1 to 200 visible ASCII characters"))
        }
    }

    /// Returns the name as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Lines of an import that take effect together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportChunk {
    /// Numbered lines with pets to add, in ascending order.
    pub lines: Vec<(i64, NewPet)>,
    /// Position of the import afterwards.
    pub last_line: i64,
}

impl ImportChunk {
    /// Maximum number of lines.
    pub const MAX: usize = 1_000;

    /// Checks that these are lines of one chunk, and returns the chunk's last line: `last_line`, if it is not
    /// 0.
    ///
    /// # Errors
    ///
    /// If there are too many lines, or they do not ascend from 1 on, or one is after `last_line`.
    pub fn end(lines: &[i64], last_line: i64) -> Result<i64, Violations> {
        let ascending = lines.first().is_none_or(|first| *first > 0)
            && lines.windows(2).all(|pair| matches!(pair, [one, other] if one < other));
        if lines.len() > Self::MAX || !ascending {
            let rule = "must be at most 1,000, their numbers ascending from 1 on";
            return Err(Violation::new("lines", rule).into());
        }
        let last = lines.last().copied().unwrap_or_default();
        match last_line {
            0 => Ok(last),
            end if end >= last => Ok(end),
            _ => Err(Violation::new("last_line", "must be the last of the lines, or a later one").into()),
        }
    }
}

/// Progress of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportProgress {
    /// Last line that is done; 0 before the first.
    pub last_line: i64,
    /// Number of pets added.
    pub created: i64,
}

/// Result of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Number of pets added; 0 if all its lines had been done before.
    pub created: i64,
    /// Progress of the import.
    pub progress: ImportProgress,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_named_by_visible_ascii_characters() {
        for name in ["x", "sha256:09af", &"x".repeat(200)] {
            assert_eq!(ImportId::parse(name).unwrap().as_str(), name);
        }
        for name in ["", " ", "a b", "a\n", "é", &"x".repeat(201)] {
            assert!(ImportId::parse(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_chunk_ends_with_its_last_line_unless_an_end_is_given() {
        for (lines, last_line, end) in
            [([1, 2, 9].as_slice(), 0, 9), (&[1], 1, 1), (&[1], 5, 5), (&[], 0, 0), (&[], 7, 7)]
        {
            assert_eq!(ImportChunk::end(lines, last_line).unwrap(), end);
        }
        for (lines, last_line) in [([3, 4].as_slice(), 3), (&[], -1), (&[1], i64::MIN)] {
            let refusal = ImportChunk::end(lines, last_line).unwrap_err().to_string();
            assert_eq!(refusal, "last_line must be the last of the lines, or a later one");
        }
    }

    #[test]
    fn lines_ascend_and_are_bounded() {
        let most: Vec<i64> = (1..=1_000).collect();
        assert_eq!(ImportChunk::end(&most, 0).unwrap(), 1_000);
        let more: Vec<i64> = (1..=1_001).collect();
        for lines in [more.as_slice(), &[0], &[-1, 2], &[2, 2], &[3, 2]] {
            assert!(ImportChunk::end(lines, 0).is_err(), "{lines:?}");
        }
    }
}
