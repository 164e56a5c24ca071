//! Fuzz targets. Each takes any bytes as one kind of input, and panics if a promise about it is broken.
//!
//! `cargo test` runs the inputs in `corpus/` through the targets. `scripts/fuzz` searches for further inputs,
//! with libFuzzer.

mod headers;
mod lists;
mod pets;
mod redis;

/// Name of a target, which is also that of the folder with its inputs, and the function that checks an input.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 9] = [
    ("bearer", headers::bearer),
    ("cursor", lists::cursor),
    ("idempotency_key", headers::idempotency_key),
    ("import_lines", pets::import_lines),
    ("json_body", pets::json_body),
    ("page_token", lists::page_token),
    ("query", lists::query),
    ("redis_reply", redis::redis_reply),
    ("x_forwarded_for", headers::x_forwarded_for),
];

/// Checks that a refusal names one of these members.
#[track_caller]
fn assert_names(refusal: &str, members: &[&str]) {
    assert!(members.iter().any(|member| refusal.contains(member)), "{refusal:?} names none of {members:?}");
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_input_of_the_corpus_keeps_its_promises() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        assert_eq!(fs::read_dir(&corpus).unwrap().count(), TARGETS.len(), "a folder for each target");
        for (name, target) in TARGETS {
            let inputs: Vec<_> = fs::read_dir(corpus.join(name)).unwrap().collect();
            assert!(inputs.len() >= 10, "{name} has only {} inputs", inputs.len());
            for input in inputs {
                let path = input.unwrap().path();
                println!("{}", path.display()); // of a failed test, the last line names the input
                target(&fs::read(path).unwrap());
            }
        }
    }
}
