use petstore_proto::v1::NewPet;
use proptest::prelude::*;

use super::*;

/// Returns the line numbers with their name, category and status number, or their refusal.
fn read(file: &str) -> Vec<(i64, Result<NewPet, String>)> {
    let mut lines = Lines::new(file.as_bytes());
    let mut table = Table::open(&mut lines, Path::new("pets.csv")).unwrap();
    let mut rows = Vec::new();
    while let Some((line, pet)) = table.next(&mut lines).unwrap() {
        rows.push((line, pet.map_err(|(_, message)| message)));
    }
    rows
}

fn pet(name: &str, category_id: i64, status: i32) -> NewPet {
    let mut pet = NewPet { name: name.into(), category_id: Some(category_id), ..NewPet::default() };
    pet.status = status;
    pet
}

#[test]
fn columns_come_in_any_order_among_others() {
    let rows = read("id,status,name,colour,categoryId\n9,sold,Rex,brown,7\n,,\"Tom, \"\"the cat\"\"\",,-1\n");
    assert_eq!(rows, [(2, Ok(pet("Rex", 7, 3))), (3, Ok(pet("Tom, \"the cat\"", -1, 0)))]);
}

#[test]
fn an_invalid_line_fails_alone() {
    let rows = read("name,categoryId\r\nRex,x\r\n\r\nTom\r\nKit,1, the cat,3\r\n,\r\nLast,2,,");
    let said: Vec<_> =
        rows.iter().map(|(line, pet)| (*line, pet.as_ref().err().map(String::as_str))).collect();
    assert_eq!(said[0].0, 2);
    assert!(said[0].1.unwrap().starts_with("categoryId must be a whole number"));
    assert_eq!(
        said[1..],
        [
            (4, Some("categoryId is required")),
            (5, Some("the line has more cells than the first line: quote a text with a comma")),
            (6, Some("name is required; categoryId is required")),
            (7, None),
        ]
    );
}

#[test]
fn a_line_of_too_many_cells_is_called_so() {
    let rows = read(&format!("name,categoryId\nRex,1{}\nTom,2\n", ",x".repeat(300)));
    assert_eq!(rows[0], (2, Err("the line must have at most 256 cells".to_owned())));
    assert_eq!(rows[1], (3, Ok(pet("Tom", 2, 0))));
}

#[test]
fn an_unclosed_quote_spans_at_most_the_maximum_line_length() {
    let rows = read("note,name,categoryId\n\"two\nlines\",Rex,1\nx,Tom,2\n");
    assert_eq!(rows, [(2, Ok(pet("Rex", 1, 0))), (4, Ok(pet("Tom", 2, 0)))]);
    assert_eq!(
        read("name,categoryId\n\"Rex,1\nTom,2\n")[0].1,
        Err("the quote that opens a cell in line 2 is not closed; lines 2 to 3 are skipped".to_owned())
    );
    let file = format!("name,categoryId\n\"Rex,1\n{}Tom,2\n", "swallowed,1\n".repeat(10_000));
    let rows = read(&file);
    let message = rows[0].1.as_ref().unwrap_err();
    let (begin, last) = message.split_once(" to ").unwrap();
    assert_eq!(begin, "the quote that opens a cell in line 2 is not closed; lines 2");
    let last: i64 = last.strip_suffix(" are skipped").unwrap().parse().unwrap();
    assert_eq!((rows[0].0, rows[1].0), (2, last + 1));
    assert_eq!(rows.last(), Some(&(10_003, Ok(pet("Tom", 2, 0)))));
}

#[test]
fn a_quote_of_a_later_row_does_not_close_a_cell() {
    let rows = read("name,categoryId\nKit,1\n\"Rex,7\nMia,3\n\"Tom\",2\nLast,4\n");
    let message = "the quote that opens a cell in line 3 is not closed; lines 3 to 5 are skipped";
    assert_eq!(rows[1..], [(3, Err(message.to_owned())), (6, Ok(pet("Last", 4, 0)))]);
    let rows = read("name,categoryId\n\"Rex\" the dog,7\n\"two\nlines\" ,1\n5\" tall,2\n");
    let names: Vec<_> = rows.iter().map(|(line, pet)| (*line, pet.as_ref().unwrap().name.as_str())).collect();
    assert_eq!(names, [(2, "Rex the dog"), (3, "two\nlines "), (5, "5\" tall")]);
}

#[test]
fn nothing_after_a_carriage_return_alone_is_lost_silently() {
    let rows = read("name,categoryId\r\r\nRex,7\rMia,3\nTom,2\r\r\n");
    let surplus = Err("the line must end with LF or CRLF, not with CR alone".to_owned());
    assert_eq!(rows, [(2, surplus), (3, Ok(pet("Tom", 2, 0)))]);
}

#[test]
fn a_table_names_its_columns_first() {
    for file in [
        "name,categoryId\rRex,7\r",
        "",
        "\n\n",
        "Rex,7\n",
        "name\n",
        "name,categoryId,name\n",
        "\"name,categoryId\n",
    ] {
        let begun = Table::open(&mut Lines::new(file.as_bytes()), Path::new("pets.csv"));
        assert!(matches!(begun, Err(CommandError::Unreadable { .. })), "{file:?}");
    }
    assert!(Table::open(&mut Lines::new(&b"\xef\xbb\xbfname,categoryId"[..]), Path::new("")).is_ok());
}

proptest! {
    #[test]
    fn every_quoted_name_is_read_exactly(
        names in proptest::collection::vec("[^\\r\\n]{1,12}|[\"a,]{1,6}", 1..6)
    ) {
        let file = names.iter().fold("categoryId,name\n".to_owned(), |file, name| {
            format!("{file}1,\"{}\"\n", name.replace('"', "\"\""))
        });
        let read: Vec<_> = read(&file).into_iter().map(|(_, pet)| pet.unwrap().name).collect();
        prop_assert_eq!(read, names);
    }

    #[test]
    fn no_text_makes_it_panic_and_lines_ascend(file in "[\"a,1\\r\\n]{0,60}") {
        let rows = read(&format!("name,categoryId\n{file}"));
        prop_assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
