//! A pet as a row of a file.

use petstore_gateway::bulk;
use petstore_proto::v1::Pet;

use crate::bulk::Format;

/// Returns the text before the first row.
pub(crate) fn head(format: Format) -> Vec<u8> {
    match format {
        Format::Ndjson => Vec::new(),
        Format::Csv => format!("id,{}\r\n", bulk::COLUMNS.join(",")).into_bytes(),
    }
}

/// Adds the pet's line.
pub(crate) fn append(file: &mut Vec<u8>, pet: &Pet, format: Format) {
    match format {
        Format::Ndjson => {
            file.extend(bulk::to_json(pet));
            file.push(b'\n');
        }
        Format::Csv => {
            let row = bulk::to_cells(pet).map(|cell| quoted(&cell)).join(",");
            file.extend(row.into_bytes());
            file.extend(b"\r\n");
        }
    }
}

/// Returns the cell, in quotes where RFC 4180 requires them.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use petstore_proto::v1::PetStatus;

    use super::*;

    fn row(name: &str, status: PetStatus, format: Format) -> String {
        let mut file = Vec::new();
        let pet = Pet { id: 1, name: name.into(), category_id: -7, status: status.into() };
        append(&mut file, &pet, format);
        String::from_utf8(file).unwrap()
    }

    #[test]
    fn a_pet_is_a_line_in_either_format() {
        let json = "{\"id\":1,\"name\":\"Rex, \\\"the dog\\\"\",\"categoryId\":-7,\"status\":\"sold\"}\n";
        assert_eq!(row("Rex, \"the dog\"", PetStatus::Sold, Format::Ndjson), json);
        for (name, status, expected) in [
            ("Rex, \"the dog\"", PetStatus::Sold, "1,\"Rex, \"\"the dog\"\"\",-7,sold\r\n"),
            (" Rex ", PetStatus::Unspecified, "1, Rex ,-7,\r\n"),
        ] {
            assert_eq!(row(name, status, Format::Csv), expected);
        }
    }
}
