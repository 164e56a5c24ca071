//! Statements that messages belong to.

use std::collections::{HashMap, VecDeque};

use super::message::Message;

/// State of one connection: the statements that were prepared on it, and those that are not answered yet.
///
/// The client's messages up to a `Sync` form a group, and so does a single `Query`. The server answers each
/// group in turn and ends it with `ReadyForQuery`.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    prepared: HashMap<Vec<u8>, String>,
    portals: HashMap<Vec<u8>, String>,
    /// Statement of the group that the client has begun.
    begun: Option<String>,
    /// Statements of the groups that the client has sent.
    unanswered: VecDeque<String>,
}

/// Label of the messages before the first statement.
const STARTUP: &str = "startup";
/// Label of a `Sync` on its own: the driver asks whether the connection is alive, or waits until all is
/// answered.
const PING: &str = "ping";

impl Conversation {
    /// Records a message of the client, and returns the label of its statement.
    pub(super) fn frontend(&mut self, message: &Message) -> String {
        let mut texts = texts(message.body());
        let statement = match message.tag {
            None => {
                self.unanswered.push_back(STARTUP.to_owned());
                return STARTUP.to_owned();
            }
            Some(b'Q') => {
                let statement = label(texts.next().unwrap_or_default());
                self.unanswered.push_back(statement.clone());
                return statement;
            }
            Some(b'S') => {
                let statement = self.begun.take().unwrap_or_else(|| PING.to_owned());
                self.unanswered.push_back(statement.clone());
                return statement;
            }
            Some(b'P') => {
                let (name, sql) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
                let statement = label(sql);
                self.prepared.insert(name.to_vec(), statement.clone());
                Some(statement)
            }
            Some(b'B') => {
                let (portal, name) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
                let statement = self.prepared.get(name).cloned();
                self.portals.extend(statement.clone().map(|statement| (portal.to_vec(), statement)));
                statement
            }
            Some(b'E') => texts.next().and_then(|portal| self.portals.get(portal)).cloned(),
            Some(b'C' | b'D') => match message.body().split_first() {
                Some((b'S', name)) => self.prepared.get(up_to_nul(name)).cloned(),
                Some((_, portal)) => self.portals.get(up_to_nul(portal)).cloned(),
                None => None,
            },
            Some(_) => None,
        };
        if let Some(statement) = statement {
            self.begun = Some(statement);
        }
        self.begun.clone().unwrap_or_default()
    }

    /// Records a message of the server, and returns the label of the statement that it answers.
    pub(super) fn backend(&mut self, message: &Message) -> String {
        let answered = if message.tag == Some(b'Z') {
            self.unanswered.pop_front()
        } else {
            self.unanswered.front().or(self.begun.as_ref()).cloned()
        };
        answered.unwrap_or_default()
    }
}

/// Returns the texts of a message, each ended by a NUL.
fn texts(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == 0)
}

fn up_to_nul(text: &[u8]) -> &[u8] {
    texts(text).next().unwrap_or_default()
}

/// Returns the verb and the first table of a statement: `INSERT pets`.
fn label(sql: &[u8]) -> String {
    let sql = String::from_utf8_lossy(sql);
    let mut words =
        sql.split(|sign: char| !(sign.is_alphanumeric() || sign == '_')).filter(|word| !word.is_empty());
    let Some(verb) = words.next().map(str::to_ascii_uppercase) else { return "empty".to_owned() };
    let is_before_table = |word: &&str| {
        ["INTO", "FROM", "UPDATE", "TABLE", "JOIN"].iter().any(|before| word.eq_ignore_ascii_case(before))
    };
    let table = match verb.as_str() {
        "UPDATE" => words.next(),
        "SELECT" | "INSERT" | "DELETE" | "WITH" => words.by_ref().find(is_before_table).and(words.next()),
        _ => None,
    };
    table.map_or(verb.clone(), |table| format!("{verb} {table}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Message {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        Message { tag: Some(tag), bytes: [[tag].as_slice(), &length, body].concat() }
    }

    fn answers(conversation: &mut Conversation, tags: &[u8]) -> Vec<String> {
        tags.iter().map(|tag| conversation.backend(&message(*tag, b""))).collect()
    }

    #[test]
    fn a_statement_is_identified_by_its_verb_and_first_table() {
        for (sql, expected) in [
            ("BEGIN", "BEGIN"),
            ("commit", "COMMIT"),
            (r#"INSERT INTO "pets" ("name") VALUES ($1)"#, "INSERT pets"),
            (r#"SELECT "pets"."id" FROM "pets" WHERE TRUE"#, "SELECT pets"),
            ("WITH added AS (INSERT INTO pets (name) SELECT $3) SELECT id FROM added", "WITH pets"),
            (r#"UPDATE "accounts" SET "plan" = $1"#, "UPDATE accounts"),
            ("SELECT 1", "SELECT"),
            ("/* SQLx ping */", "SQLX"),
            ("", "empty"),
        ] {
            assert_eq!(label(sql.as_bytes()), expected, "{sql}");
        }
    }

    #[test]
    fn answers_are_matched_to_statements_in_order() {
        let mut conversation = Conversation::default();
        assert_eq!(conversation.frontend(&message(b'Q', b"BEGIN\0")), "BEGIN");
        for (tag, body) in [
            (b'P', b"s1\0INSERT INTO pets VALUES (1)\0\0\0".as_slice()),
            (b'D', b"Ss1\0"),
            (b'S', b""),
            (b'B', b"\0s1\0\0\0"),
            (b'E', b"\0\0\0\0\0"),
            (b'S', b""),
        ] {
            assert_eq!(conversation.frontend(&message(tag, body)), "INSERT pets", "{}", char::from(tag));
        }
        assert_eq!(conversation.frontend(&message(b'S', b"")), "ping");
        assert_eq!(answers(&mut conversation, b"CZ"), ["BEGIN"; 2]);
        assert_eq!(answers(&mut conversation, b"1tnZ2CZ"), ["INSERT pets"; 7]);
        assert_eq!(answers(&mut conversation, b"ZS"), ["ping", ""]);
    }
}
