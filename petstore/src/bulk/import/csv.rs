//! Pets in a table (RFC 4180).

use std::{
    io::{self, BufRead},
    path::Path,
};

use csv_core::{ReadRecordResult, Reader};
use petstore_gateway::exchange::{self, Refusal};

use super::records::{Record, too_long};
use crate::bulk::{BulkError, Line, Lines, MAX_LINE};

/// The most columns.
const MAX_COLUMNS: usize = 256;

/// Reads the rows of a table, line by line: most rows are one line, and one whose quotes span more ends with the last
/// of them. So the table goes on with the next line, whatever one line lacks.
#[derive(Debug)]
pub(super) struct Table {
    reader: Reader,
    cells: Vec<u8>,
    ends: Vec<usize>,
    columns: Columns,
}

/// Where a row has what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Columns {
    name: usize,
    category_id: usize,
    status: Option<usize>,
}

impl Columns {
    fn of<'a>(head: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let (mut name, mut category_id, mut status) = (None, None, None);
        for (index, cell) in head.enumerate() {
            let column = match cell.trim_ascii() {
                b"name" => &mut name,
                b"categoryId" => &mut category_id,
                b"status" => &mut status,
                _ => continue, // as a member that a pet does not have
            };
            if column.replace(index).is_some() {
                return None;
            }
        }
        Some(Self { name: name?, category_id: category_id?, status })
    }
}

/// What became of reading a row.
enum Row {
    /// It is in the cells: so many.
    Whole(usize),
    TooLong,
    /// The file ended inside of quotes.
    Open,
}

impl Table {
    /// Reads the first line that is not empty, which names the columns.
    pub(super) fn begin<R: BufRead>(lines: &mut Lines<R>, file: &Path) -> Result<Self, BulkError> {
        let (cells, ends) = (vec![0; MAX_LINE], vec![0; MAX_COLUMNS]);
        let mut table = Self { reader: Reader::new(), cells, ends, columns: Columns::default() };
        let row = table.row(lines).map_err(|source| BulkError::Read { file: file.to_owned(), source })?;
        let Some((_, Row::Whole(count))) = row else { return Err(BulkError::Columns) };
        table.columns = Columns::of((0..count).map(|index| table.cell(index, count).unwrap_or_default()))
            .ok_or(BulkError::Columns)?;
        Ok(table)
    }

    /// The pet of the next row.
    pub(super) fn next<R: BufRead>(&mut self, lines: &mut Lines<R>) -> io::Result<Option<Record>> {
        let Some((line, row)) = self.row(lines)? else { return Ok(None) };
        let pet = match row {
            Row::Whole(count) => self
                .cells(count)
                .and_then(|[name, category_id, status]| exchange::from_cells(name, category_id, status)),
            Row::TooLong => Err(too_long()),
            Row::Open => Err(malformed("the last quoted cell must end")),
        };
        Ok(Some(Record { line, pet }))
    }

    /// The cells of the columns that count.
    fn cells(&self, count: usize) -> Result<[Option<&str>; 3], Refusal> {
        let Columns { name, category_id, status } = self.columns;
        let text = |index| {
            let cell = self.cell(index, count).map(str::from_utf8).transpose();
            cell.map_err(|_| malformed("the line must be UTF-8"))
        };
        Ok([text(name)?, text(category_id)?, status.map_or(Ok(None), text)?])
    }

    fn cell(&self, index: usize, count: usize) -> Option<&[u8]> {
        let ends = self.ends.get(..count)?;
        let end = *ends.get(index)?;
        let begin = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
        self.cells.get(begin..end)
    }

    /// Reads the next row that is not empty, and tells the line that it begins on.
    fn row<R: BufRead>(&mut self, lines: &mut Lines<R>) -> io::Result<Option<(i64, Row)>> {
        self.reader.reset();
        let (mut begin, mut written, mut count) = (None, 0, 0);
        loop {
            let number = lines.number() + 1;
            let line = match (lines.next()?, begin) {
                (None, None) => return Ok(None),
                (None, Some(begin)) => return Ok(Some((begin, Row::Open))),
                (Some(Line::TooLong), _) => return Ok(Some((begin.unwrap_or(number), Row::TooLong))),
                (Some(Line::Text(b"")), None) => continue,
                (Some(Line::Text(line)), _) => line,
            };
            let begin = *begin.get_or_insert(number);
            for mut input in [line, b"\n"] {
                while !input.is_empty() {
                    let (Some(cells), Some(ends)) =
                        (self.cells.get_mut(written..), self.ends.get_mut(count..))
                    else {
                        return Ok(Some((begin, Row::TooLong)));
                    };
                    let (result, read, wrote, ended) = self.reader.read_record(input, cells, ends);
                    (written, count) = (written + wrote, count + ended);
                    input = input.get(read..).unwrap_or_default();
                    match result {
                        ReadRecordResult::InputEmpty => {}
                        ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                            return Ok(Some((begin, Row::TooLong)));
                        }
                        ReadRecordResult::Record => return Ok(Some((begin, Row::Whole(count)))),
                        ReadRecordResult::End => return Ok(None), // not before the input ends
                    }
                }
            }
        }
    }
}

fn malformed(message: &str) -> Refusal {
    Refusal { reason: "MALFORMED_CSV", message: message.to_owned() }
}

#[cfg(test)]
mod tests;
