//! Parsing of the text of SQL statements.

/// Returns the table that the statement is about: the first one that it adds to, or else the first one that
/// it names. In a transaction it is the last one that it adds to.
pub(super) fn table(sql: &str) -> Option<&str> {
    let after = |keywords: &'static [&str]| {
        let words = sql.split_whitespace().zip(sql.split_whitespace().skip(1));
        words.filter(|(word, _)| keywords.contains(word)).filter_map(|(_, name)| table_name(name))
    };
    if sql.starts_with("BEGIN") {
        return after(&["INTO"]).last();
    }
    after(&["INTO"]).next().or_else(|| after(&["FROM", "UPDATE"]).next())
}

fn table_name(word: &str) -> Option<&str> {
    let name = word.trim_matches('"');
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_').then_some(name)
}

/// Returns the statement's first keyword, if it is a known operation. For a statement that begins with WITH,
/// and for a transaction, returns its first operation that writes.
pub(super) fn operation(sql: &str) -> &'static str {
    let known = |word: &str| {
        let mut verbs = ["SELECT", "INSERT", "UPDATE", "DELETE"].into_iter();
        verbs.find(|known| known.eq_ignore_ascii_case(word))
    };
    let mut words = sql.split_whitespace();
    let verb = match words.next() {
        Some(first @ ("WITH" | "BEGIN")) => {
            let mut verbs = words.filter_map(|word| known(word.trim_start_matches('(')));
            verbs.find(|verb| *verb != "SELECT").or((first == "WITH").then_some("SELECT"))
        }
        first => first.and_then(known),
    };
    verb.unwrap_or("OTHER")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_classified_by_its_first_word() {
        for (sql, name) in [
            ("SELECT 1", "SELECT"),
            ("\n insert into pets values (1)", "INSERT"),
            ("UPDATE\tpets", "UPDATE"),
            ("BEGIN IMMEDIATE; SELECT 1; INSERT INTO pets VALUES (1); COMMIT", "INSERT"),
            ("WITH old AS (SELECT 1) SELECT 1", "SELECT"),
            ("WITH new AS (SELECT 1), added AS (INSERT INTO pets SELECT 1) SELECT 1", "INSERT"),
            ("BEGIN", "OTHER"),
            ("PRAGMA quick_check", "OTHER"),
            ("SELECTED", "OTHER"),
            ("", "OTHER"),
        ] {
            assert_eq!(operation(sql), name, "{sql}");
        }
    }
}
