//! Lines of the log: the subscriber's text and its JSON, written in one pass.
//!
//! The line of a request takes the subscriber's own formatters 15 to 20 thousand instructions, as much as its
//! key, its limit and its call to the core together, and this one 5 (`docs/performance/experiments.md`).

use std::{
    cell::RefCell,
    fmt::{self, Write},
};

use petstore_clock::{UnixMillis, machine_time};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use super::LogFormat;

/// Form of the lines of events without a span, which are all of this program's own. `other` formats those of
/// libraries that have one, or that use the crate `log`.
pub(super) struct LineFormat<F> {
    pub(super) form: LogFormat,
    pub(super) other: F,
}

thread_local! {
    /// The line in the making. A call of the subscriber's writer for each of its thirty pieces would cost
    /// more than this copy of the whole.
    static LINE: RefCell<String> = const { RefCell::new(String::new()) };
    /// The last second, and its text without the `Z`.
    static SECOND: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

impl<S, N, F> FormatEvent<S, N> for LineFormat<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        if metadata.target() == "log" || context.lookup_current().is_some() {
            return self.other.format_event(context, writer, event);
        }
        // A value that logs while it is written, as none does, would find the line taken.
        let mut line = LINE.take();
        line.clear();
        let form = self.form;
        match form {
            LogFormat::Pretty => {
                push_time(&mut line);
                let level = metadata.level().as_str();
                line.push_str(if level.len() < "ERROR".len() { "  " } else { " " });
                push_all(&mut line, [level, " ", metadata.target(), ":"]);
                event.record(&mut Fields { form, line: &mut line });
                line.push('\n');
            }
            LogFormat::Json => {
                line.push_str("{\"timestamp\":\"");
                push_time(&mut line);
                push_all(&mut line, ["\",\"level\":\"", metadata.level().as_str(), "\""]);
                event.record(&mut Fields { form, line: &mut line });
                push_all(&mut line, [",\"target\":\"", metadata.target(), "\"}\n"]);
            }
        }
        let written = writer.write_str(&line);
        LINE.set(line);
        written
    }
}

fn push_all<const N: usize>(line: &mut String, texts: [&str; N]) {
    for text in texts {
        line.push_str(text);
    }
}

/// Appends the time in RFC 3339, to the microsecond.
fn push_time(line: &mut String) {
    let now = machine_time();
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != now.as_secs() {
            *second = now.as_secs();
            *text = UnixMillis::from_secs(*second).to_string();
            text.truncate(text.len().saturating_sub(1));
        }
        line.push_str(text);
    });
    line.push('.');
    let mut digits = itoa::Buffer::new();
    let micros = digits.format(1_000_000 + now.subsec_micros());
    push_all(line, [micros.get(1..).unwrap_or_default(), "Z"]);
}

/// Appends the fields of an event.
struct Fields<'a> {
    form: LogFormat,
    line: &'a mut String,
}

impl Fields<'_> {
    fn push_name(&mut self, field: &Field) {
        let name = field.name();
        let name = name.strip_prefix("r#").unwrap_or(name);
        match self.form {
            LogFormat::Pretty if name == "message" => self.line.push(' '),
            LogFormat::Pretty => push_all(self.line, [" ", name, "="]),
            LogFormat::Json => push_all(self.line, [",\"", name, "\":"]),
        }
    }

    /// Appends a value that is the same in text and JSON.
    fn push_plain(&mut self, field: &Field, value: &str) {
        self.push_name(field);
        self.line.push_str(value);
    }

    /// Appends what is written to the given text, so that it can neither end its line nor control a terminal,
    /// nor in JSON end its string.
    fn push_escaped(&mut self, value: fmt::Arguments<'_>) {
        // Writing to a `String` fails only if the value's own `Debug` does; the rest of the line is kept.
        let _ = self.write_fmt(value);
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.push_name(field);
        match self.form {
            LogFormat::Pretty if field.name() == "message" => self.push_escaped(format_args!("{value}")),
            _ if is_plain(value) => push_all(self.line, ["\"", value, "\""]),
            LogFormat::Pretty => self.push_escaped(format_args!("{value:?}")),
            LogFormat::Json => {
                self.line.push('"');
                self.push_escaped(format_args!("{value}"));
                self.line.push('"');
            }
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push_plain(field, itoa::Buffer::new().format(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push_plain(field, itoa::Buffer::new().format(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push_plain(field, if value { "true" } else { "false" });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match self.form {
            LogFormat::Json if !value.is_finite() => self.push_plain(field, "null"),
            _ => self.push_plain(field, zmij::Buffer::new().format(value)),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push_name(field);
        let quote = if self.form == LogFormat::Json { "\"" } else { "" };
        self.line.push_str(quote);
        self.push_escaped(format_args!("{value:?}"));
        self.line.push_str(quote);
    }
}

/// Returns `true` if the text is the same in quotes, in text and in JSON. Reads all bytes, several at once.
fn is_plain(text: &str) -> bool {
    let is_plain = |byte| matches!(byte, b' '..=b'!' | b'#'..=b'[' | b']'..=b'~');
    text.bytes().fold(true, |all, byte| all & is_plain(byte))
}

/// Appends text with its control characters escaped, and in JSON quotes and backslashes, too.
impl Write for Fields<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if is_plain(text) {
            self.line.push_str(text);
            return Ok(());
        }
        text.chars().try_for_each(|character| match (self.form, character) {
            (LogFormat::Json, '"' | '\\') => write!(self.line, "\\{character}"),
            (LogFormat::Json, _) if character.is_control() => {
                write!(self.line, "\\u{:04x}", u32::from(character))
            }
            (LogFormat::Pretty, _) if character.is_control() => {
                write!(self.line, "{}", character.escape_default())
            }
            _ => self.line.write_char(character),
        })
    }
}

#[cfg(test)]
mod tests;
