//! Log line for people without colours. It is the subscriber's format, written with fewer instructions,
//! because every request writes one.

use std::fmt;

use parking_lot::Mutex;
use petstore_clock::{UnixMillis, machine_time};
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::{RecordFields, VisitOutput},
    fmt::{
        FormatFields,
        format::{DefaultVisitor, Writer},
        time::FormatTime,
    },
};

/// Formatter of the time as in RFC 3339, with microseconds. The part before them is made once a second.
#[derive(Debug, Default)]
pub(super) struct Timestamp(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    since_epoch: u64,
    /// Time without the `Z` at its end.
    text: String,
}

impl FormatTime for Timestamp {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        let now = machine_time();
        let mut second = self.0.lock();
        if second.since_epoch != now.as_secs() || second.text.is_empty() {
            *second = Second::new(now.as_secs());
        }
        line.write_str(&second.text)?;
        write!(line, ".{:06}Z", now.subsec_micros())
    }
}

impl Second {
    fn new(since_epoch: u64) -> Self {
        let mut text = UnixMillis::from_secs(since_epoch).to_string();
        text.truncate(text.trim_end_matches('Z').len());
        Self { since_epoch, text }
    }
}

/// Formatter of the fields. Messages and errors are left to the subscriber, which escapes them.
#[derive(Debug)]
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, line: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { line, is_first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct Visitor<'w> {
    line: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl Visitor<'_> {
    /// Writes the field, unless one before could not be written.
    fn write(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.result.is_ok() {
            let space = if self.is_first { "" } else { " " };
            self.is_first = false;
            self.result = [space, field.name(), "="].iter().try_for_each(|text| self.line.write_str(text));
        }
        if self.result.is_ok() {
            self.result = value(&mut self.line);
        }
    }

    /// Leaves a field to the subscriber, unless one before could not be written.
    fn delegate(&mut self, record: impl FnOnce(&mut DefaultVisitor<'_>)) {
        if self.result.is_ok() {
            let mut visitor = DefaultVisitor::new(self.line.by_ref(), self.is_first);
            record(&mut visitor);
            self.result = visitor.finish();
            self.is_first = false;
        }
    }
}

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if is_special(field) {
            self.delegate(|visitor| visitor.record_debug(field, value));
        } else {
            self.write(field, |line| write!(line, "{value:?}"));
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.delegate(|visitor| visitor.record_error(field, value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.record_debug(field, &format_args!("{value}"));
        } else if is_plain(value) && !is_special(field) {
            self.write(field, |line| ["\"", value, "\""].iter().try_for_each(|text| line.write_str(text)));
        } else {
            self.record_debug(field, &value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, |line| line.write_str(itoa::Buffer::new().format(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, |line| line.write_str(itoa::Buffer::new().format(value)));
    }
}

/// Returns `true` if `Debug` would only add quotation marks.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\')
}

/// Returns `true` for fields that are written without their name: the message, and those of the `log` crate.
fn is_special(field: &Field) -> bool {
    let name = field.name();
    name == "message" || name.starts_with("log.") || name.starts_with("r#")
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::fmt::{MakeWriter, format::DefaultFields};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// Returns the lines of a fixed series of events.
    fn lines(fields: impl for<'w> FormatFields<'w> + Send + Sync + 'static) -> String {
        let written = Lines::default();
        let subscriber =
            tracing_subscriber::fmt().with_writer(written.clone()).with_ansi(false).fmt_fields(fields);
        tracing::subscriber::with_default(subscriber.without_time().finish(), || {
            let hostile = "\u{1b}[31m \"quoted\"\n\\ é \u{2028}";
            let error = io::Error::other(io::Error::other(hostile));
            tracing::info!(
                number = 7_u64,
                negative = -7,
                is_true = true,
                share = 0.5,
                text = "plain",
                "said"
            );
            tracing::warn!(text = hostile, shown = %hostile, debug = ?hostile, "{hostile}");
            tracing::error!(absent = None::<u64>, present = Some("x"), message = "a text");
            tracing::error!(error = &error as &(dyn std::error::Error + 'static), r#type = "t", empty = "");
        });
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn lines_equal_those_of_the_subscriber() {
        let expected = lines(DefaultFields::new());
        assert!(
            expected.contains("number=7 negative=-7") && expected.contains("text=\"plain\""),
            "{expected}"
        );
        assert_eq!(lines(Fields), expected);
    }

    #[test]
    fn a_second_is_written_as_rfc_3339_has_it() {
        assert_eq!(Second::new(1_795_200_380).text, "2026-11-20T18:46:20");
        let (mut line, timestamp) = (String::new(), Timestamp::default());
        timestamp.format_time(&mut Writer::new(&mut line)).unwrap();
        let second = Second::new(timestamp.0.lock().since_epoch);
        assert!(line.starts_with(&second.text) && line.ends_with('Z') && line.len() == 27, "{line}");
    }
}
