//! What can be read off the text of a SQL statement.

/// The table that the statement is about: the first one that it names.
pub(super) fn table(sql: &str) -> Option<&str> {
    let mut words = sql.split_whitespace();
    words.find(|word| ["FROM", "INTO", "UPDATE"].contains(word))?;
    let name = words.next()?.trim_matches('"');
    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_').then_some(name)
}

/// The statement's first word, if it is one of a few; of one that begins with WITH, what that does first.
pub(super) fn operation(sql: &str) -> &'static str {
    let known = |word: &str| {
        let mut verbs = ["SELECT", "INSERT", "UPDATE", "DELETE"].into_iter();
        verbs.find(|known| known.eq_ignore_ascii_case(word))
    };
    let mut words = sql.split_whitespace();
    let verb = match words.next() {
        Some("WITH") => words.find_map(|word| known(word.trim_start_matches('('))),
        first => first.and_then(known),
    };
    verb.unwrap_or("OTHER")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_known_by_its_first_word_if_that_is_one_of_four() {
        for (sql, name) in [
            ("SELECT 1", "SELECT"),
            ("\n insert into pets values (1)", "INSERT"),
            ("UPDATE\tpets", "UPDATE"),
            ("PRAGMA quick_check", "OTHER"),
            ("SELECTED", "OTHER"),
            ("", "OTHER"),
        ] {
            assert_eq!(operation(sql), name, "{sql}");
        }
    }
}
