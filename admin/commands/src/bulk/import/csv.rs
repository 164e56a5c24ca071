//! Pets in CSV (RFC 4180).

use std::{
    io::{self, BufRead},
    path::Path,
};

use csv_core::{ReadRecordResult, Reader};
use petstore_gateway::pets::{self, RowError};
use petstore_proto::v1::NewPet;

use super::input::{Line, Lines, MAX_LINE, too_long};
use crate::error::CommandError;

/// Maximum number of columns.
const MAX_COLUMNS: usize = 256;

/// Reads the rows of a table line by line. Most rows are one line; a row whose quotes span several ends with
/// the last of them. Reading continues with the next line after an invalid one.
#[derive(Debug)]
pub(super) struct Table {
    reader: Reader,
    cells: Vec<u8>,
    ends: Vec<usize>,
    columns: Columns,
    /// Number of cells of the first line.
    width: usize,
}

/// Cell index of each known column.
type Columns = [Option<usize>; pets::COLUMNS.len()];

/// Returns the columns that the head of a table names, or `None` if one is named twice or a required one is
/// missing. Unknown columns are ignored, as are unknown members of a pet.
fn columns<'a>(head: impl Iterator<Item = &'a [u8]>) -> Option<Columns> {
    let mut columns = Columns::default();
    for (index, cell) in head.enumerate() {
        let named = pets::COLUMNS.iter().position(|name| name.as_bytes() == cell.trim_ascii());
        if let Some(column) = named.and_then(|named| columns.get_mut(named))
            && column.replace(index).is_some()
        {
            return None;
        }
    }
    let is_missing =
        |(name, index): (&&str, &Option<usize>)| index.is_none() && pets::REQUIRED_COLUMNS.contains(name);
    (!pets::COLUMNS.iter().zip(&columns).any(is_missing)).then_some(columns)
}

/// Quotes of a row, in the lines that were read.
#[derive(Debug, Default)]
struct Quotes {
    place: Place,
    /// Line of the last quote that opened a cell.
    opened: i64,
    /// `true` if a cell that spans lines has text after its closing quote, which is then the opening quote of
    /// a later row.
    has_swallowed_rows: bool,
}

/// Place in a row, by the last character.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    CellBegin,
    Plain,
    Quoted,
    /// After a quote within quotes, which closes the cell unless another quote follows.
    Closed,
}

impl Quotes {
    fn read(&mut self, line: &[u8], number: i64) {
        for byte in line {
            self.place = match (self.place, byte) {
                (Place::CellBegin, b'"') => {
                    self.opened = number;
                    Place::Quoted
                }
                (Place::Quoted, b'"') | (Place::Closed, b' ' | b'\t' | b'\r') => Place::Closed,
                (Place::Quoted, _) | (Place::Closed, b'"') => Place::Quoted,
                (_, b',') => Place::CellBegin,
                (Place::Closed, _) => {
                    self.has_swallowed_rows |= self.opened < number;
                    Place::Plain
                }
                (Place::CellBegin | Place::Plain, _) => Place::Plain,
            }
        }
    }

    /// Returns the fault of a row in these lines whose end is not reached. The quote that opens a cell is not
    /// closed before the file ends or the row is too long, or only by a quote of a later line with text after
    /// it.
    fn unclosed(&self, first: i64, last: i64) -> RowError {
        if !self.has_swallowed_rows && !matches!(self.place, Place::Quoted) {
            return too_long();
        }
        let open = format!("the quote that opens a cell in line {} is not closed", self.opened);
        let skipped = format!("{open}; lines {first} to {last} are skipped");
        malformed(if first == last { &open } else { &skipped })
    }
}

impl Table {
    /// Reads the first line that is not empty, which names the columns.
    pub(super) fn open<R: BufRead>(lines: &mut Lines<R>, file: &Path) -> Result<Self, CommandError> {
        let (cells, ends) = (vec![0; MAX_LINE], vec![0; MAX_COLUMNS]);
        let mut table =
            Self { reader: Reader::new(), cells, ends, columns: Columns::default(), width: MAX_COLUMNS };
        let row = table.row(lines).map_err(|source| CommandError::Read { file: file.to_owned(), source })?;
        let count = row.and_then(|(_, count)| count.ok()).unwrap_or_default();
        let cell = |index| table.cell(index, count).unwrap_or_default();
        let columns = columns((0..count).map(cell)).ok_or_else(|| CommandError::Unreadable {
            file: file.to_owned(),
            reason: fault_of_head(cell(0)),
        })?;
        Ok(Self { columns, width: count, ..table })
    }

    /// Returns the pet of the next row, and the line that it begins on.
    pub(super) fn next<R: BufRead>(
        &mut self,
        lines: &mut Lines<R>,
    ) -> io::Result<Option<(i64, Result<NewPet, RowError>)>> {
        let Some((line, row)) = self.row(lines)? else { return Ok(None) };
        Ok(Some((line, row.and_then(|count| self.cells(count)).and_then(pets::from_cells))))
    }

    /// Returns the cells of the known columns. More cells than the first line has are the rest of a text with
    /// a comma, unless they are empty.
    fn cells(&self, count: usize) -> Result<[Option<&str>; pets::COLUMNS.len()], RowError> {
        let mut beyond = (self.width..count).filter_map(|index| self.cell(index, count));
        if beyond.any(|cell| !cell.is_empty()) {
            return Err(malformed("the line has more cells than the first line: quote a text with a comma"));
        }
        let mut cells = [None; pets::COLUMNS.len()];
        for (cell, column) in cells.iter_mut().zip(self.columns) {
            let bytes = column.and_then(|index| self.cell(index, count));
            *cell = bytes.map(str::from_utf8).transpose().map_err(|_| malformed("the line must be UTF-8"))?;
        }
        Ok(cells)
    }

    fn cell(&self, index: usize, count: usize) -> Option<&[u8]> {
        let ends = self.ends.get(..count)?;
        let end = *ends.get(index)?;
        let begin = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
        self.cells.get(begin..end)
    }

    /// Reads the next row that is not empty. Returns the line that it begins on, and its number of cells.
    fn row<R: BufRead>(
        &mut self,
        lines: &mut Lines<R>,
    ) -> io::Result<Option<(i64, Result<usize, RowError>)>> {
        self.reader.reset();
        let (mut begin, mut written, mut count, mut quotes) = (None, 0, 0, Quotes::default());
        loop {
            let number = lines.number() + 1;
            let line = match (lines.next()?, begin) {
                (None, None) => return Ok(None),
                (None, Some(begin)) => return Ok(Some((begin, Err(quotes.unclosed(begin, number - 1))))),
                (Some(Line::TooLong), _) => {
                    let begin = begin.unwrap_or(number);
                    return Ok(Some((begin, Err(quotes.unclosed(begin, number)))));
                }
                (Some(Line::Text(b"")), None) => continue,
                (Some(Line::Text(line)), _) => line,
            };
            let begin = *begin.get_or_insert(number);
            quotes.read(line, number);
            for mut input in [line, b"\n"] {
                while !input.is_empty() {
                    let (cells, ends) = (&mut self.cells[written..], &mut self.ends[count..]);
                    let (result, read, wrote, ended) = self.reader.read_record(input, cells, ends);
                    (written, count) = (written + wrote, count + ended);
                    input = input.get(read..).unwrap_or_default();
                    let row = match result {
                        ReadRecordResult::InputEmpty => continue,
                        ReadRecordResult::End => return Ok(None), // only at the end of the input
                        ReadRecordResult::Record if !quotes.has_swallowed_rows => {
                            let is_whole = input.trim_ascii().is_empty();
                            let fault = "the line must end with LF or CRLF, not with CR alone";
                            is_whole.then_some(count).ok_or_else(|| malformed(fault))
                        }
                        ReadRecordResult::OutputEndsFull => {
                            Err(malformed(&format!("the line must have at most {MAX_COLUMNS} cells")))
                        }
                        _ => Err(quotes.unclosed(begin, number)),
                    };
                    return Ok(Some((begin, row)));
                }
            }
        }
    }
}

/// Returns what is wrong with a first line that does not name the columns, by its first cell.
fn fault_of_head(first: &[u8]) -> String {
    let first = String::from_utf8_lossy(first);
    let separates = |separator: &char| {
        let is_column = |cell: &&str| pets::COLUMNS.contains(&cell.trim());
        first.split(*separator).filter(is_column).count() > 1
    };
    if first.starts_with("sep=") {
        "begins with a line `sep=`, which is for spreadsheets: remove it".to_owned()
    } else if let Some(separator) = [';', '\t', '|'].into_iter().find(separates) {
        format!("has {separator:?} between its columns: save it with commas")
    } else {
        "must name each column once in its first line, with name and categoryId among them".to_owned()
    }
}

fn malformed(message: &str) -> RowError {
    ("MALFORMED_CSV", message.to_owned())
}

#[cfg(test)]
mod tests;
