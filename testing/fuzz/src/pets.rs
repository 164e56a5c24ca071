//! Targets of pets: a body in JSON, and a file to import.

use petstore_admin_commands::{fuzz_export, fuzz_import};
use petstore_core::pets::{ImportChunk, fuzz_pet};
use petstore_gateway::pets;
use petstore_proto::v1::{NewPet, Pet};
use prost_reflect::{DynamicMessage, ReflectMessage, prost::Message};
use serde_json::Value;

/// Returns the pet that the core makes of a pet that the gateway has read, if it accepts it. A refusal names
/// the member.
fn judged(pet: &NewPet) -> Option<Pet> {
    let judged = fuzz_pet(pet.clone());
    match judged {
        Ok(judged) => {
            let NewPet { name, category_id, status } = pet;
            assert_eq!(
                (&judged.name, Some(judged.category_id), judged.status),
                (name, *category_id, *status)
            );
            Some(judged)
        }
        Err(refusal) => {
            crate::assert_names(&refusal.to_string(), &["name must", "status must"]);
            None
        }
    }
}

/// Checks that another parser reads the same pet. It reads the last of two members with one name.
fn assert_unambiguous(pet: &NewPet, body: &[u8]) {
    // It refuses numbers that only fit into a longer type.
    let Ok(read) = serde_json::from_slice::<Value>(body) else { return };
    let (name, category, status) = (&read["name"], &read["categoryId"], read.get("status"));
    let number = |word: &Value| ["available", "pending", "sold"].iter().position(|known| word == known);
    let status = status.map_or(Some(0), |word| i32::try_from(number(word)? + 1).ok());
    // -0 is a fraction to it.
    let category_id = if *category == -0.0 { Some(0) } else { category.as_i64() };
    assert_eq!((name.as_str(), category_id), (Some(pet.name.as_str()), pet.category_id));
    assert_eq!(status.unwrap_or(-1), pet.status);
}

/// A pet that is read is the one that another parser reads. If it is accepted, it is written as JSON that is
/// read back unchanged. A request of an operator arrives at the core as it was read.
pub(crate) fn json_body(input: &[u8]) {
    match pets::from_json(input) {
        Ok(pet) => {
            assert_unambiguous(&pet, input);
            if let Some(judged) = judged(&pet) {
                assert_eq!(pets::from_json(&pets::to_json(&judged)), Ok(pet));
            }
        }
        Err((reason, message)) => {
            let members = ["name ", "categoryId ", "status ", "the body must be"];
            crate::assert_names(&message, &members);
            assert!(["MALFORMED_JSON", "VALIDATION_FAILED"].contains(&reason), "{reason}: {message}");
            assert!(message.len() < 400, "{message}");
        }
    }
    for (name, request) in petstore_admin_web::fuzz_requests("", input) {
        match request {
            Ok(message) => {
                let sent = message.encode_to_vec();
                let received = DynamicMessage::decode(message.descriptor(), sent.as_slice());
                assert_eq!(received.map(|message| message.encode_to_vec()), Ok(sent), "{name}");
            }
            Err(faults) => {
                assert!(!faults.is_empty() && faults.len() <= 200 + 64 * input.len(), "{name}: {faults}");
            }
        }
    }
}

type Row = (i64, Result<NewPet, String>);

/// The core accepts every message that imports a file, and every invalid line is named. An import that
/// continues at any row gives the rows from there on. Accepted pets are exported to a file that is imported
/// unchanged. A number in a cell is judged as in a body.
pub(crate) fn import_lines(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let is_number =
        |cell: &&str| !cell.is_empty() && cell.bytes().all(|byte| b"0123456789+-.eE".contains(&byte));
    for number in text.split([',', '\n']).filter(is_number) {
        let of_body = pets::from_json(format!(r#"{{"name":"Rex","categoryId":{number}}}"#).as_bytes()).ok();
        assert_eq!(pets::from_cells([Some("Rex"), Some(number), None]).ok(), of_body, "{number}");
    }
    for is_csv in [false, true] {
        let Ok(rows) = rows(input.to_vec(), is_csv, 0) else { continue };
        if let Some(rest) = rows.get(input.len() % rows.len().max(1)..)
            && let Some((line, _)) = rest.first()
        {
            assert_eq!(self::rows(input.to_vec(), is_csv, line - 1).as_deref(), Ok(rest));
        }
        let pets: Vec<_> = rows.iter().filter_map(|(_, pet)| judged(pet.as_ref().ok()?)).collect();
        for to_csv in [false, true] {
            let again = self::rows(fuzz_export(&pets, to_csv), to_csv, 0).unwrap_or_default();
            let again: Vec<_> = again.into_iter().filter_map(|(_, pet)| fuzz_pet(pet.ok()?).ok()).collect();
            assert_eq!(again, pets);
        }
    }
}

/// Returns the rows of a file after the line `done`.
fn rows(file: Vec<u8>, is_csv: bool, done: i64) -> Result<Vec<Row>, String> {
    let (mut rows, mut position) = (Vec::new(), done);
    for (message, rejected) in fuzz_import(file, is_csv, done)? {
        let numbers: Vec<_> = message.lines.iter().map(|line| line.line).collect();
        assert_eq!(ImportChunk::end(&numbers, message.last_line).ok(), Some(message.last_line));
        let begin = rows.len();
        for (line, text) in rejected {
            assert!(
                text.starts_with(&format!("line {line}: ")) && !text.contains(char::is_control),
                "{text}"
            );
            rows.push((line, Err(text)));
        }
        rows.extend(message.lines.into_iter().map(|line| (line.line, Ok(line.pet.unwrap_or_default()))));
        rows[begin..].sort_by_key(|(line, _)| *line);
        for (line, _) in &rows[begin..] {
            assert!((position + 1..=message.last_line).contains(line), "line {line} after {position}");
            position = *line;
        }
        position = message.last_line;
    }
    Ok(rows)
}
