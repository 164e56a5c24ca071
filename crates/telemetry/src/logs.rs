//! Log on stderr. It is global to the operating system's process, so only the program starts it, never the
//! service as a library.
//!
//! Lines go through a bounded queue to a thread that writes them. While stderr is not read, lines are dropped
//! and counted, and requests continue.

mod line;
mod writer;

use std::{
    error::Error,
    io::{self, IsTerminal},
    panic,
    sync::{Arc, OnceLock, atomic::Ordering},
};

use parking_lot::Mutex;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

use self::{line::LineFormat, writer::LogWriter};
use crate::metrics::{Collectors, IntCounter, Sampled, counter};

/// Log of this program, once [`init`] has started it.
static LOG: OnceLock<Log> = OnceLock::new();

/// Form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for people.
    Pretty,
    /// One JSON object per line.
    Json,
}

/// Log of a program.
pub struct Log {
    writer: Arc<LogWriter>,
    directives: reload::Handle<Targets, Registry>,
    /// Directives as they were written.
    filter: Mutex<String>,
}

/// Reason why a text is not a filter.
const INVALID_FILTER: &str = "must be one of error, warn, info, debug, trace and off, or several separated \
                              by commas with those of modules, as in info,petstore_core=debug";

/// Parses a filter more strictly than [`Targets`], which accepts any word as the name of a module: `debgu`
/// would silence everything but a module of that name.
///
/// # Errors
///
/// If it is not a filter.
pub fn parse_filter(filter: &str) -> Result<Targets, &'static str> {
    let directives: Vec<&str> = filter.split(',').map(str::trim).collect();
    if directives.iter().all(|directive| is_directive(directive)) {
        // The client of a Cluster writes a hundred lines a second while a node is down. Strangers choose the
        // text and the number of the lines of rustls and h2.
        let quiet = "redis=off,rustls=off,h2=off";
        format!("{quiet},{}", directives.join(",")).parse().map_err(|_| INVALID_FILTER)
    } else {
        Err(INVALID_FILTER)
    }
}

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Returns `true` if the text is a level, or the level of a module.
fn is_directive(text: &str) -> bool {
    // Not `LevelFilter`'s own parser: it accepts numbers and the empty text as levels.
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match text.split_once('=') {
        None => is_level(text),
        Some((module, level)) => module.split("::").all(is_name) && is_level(level),
    }
}

/// Starts the log.
///
/// # Errors
///
/// If the filter is not valid.
pub fn init(filter: &str, format: LogFormat) -> Result<(), &'static str> {
    let (directives, handle) = reload::Layer::new(parse_filter(filter)?);
    let writer = LogWriter::new(io::stderr());
    // A log that cannot be written must not end the service: errors of the writer are dropped.
    let lines = fmt::layer().with_writer(writer.clone()).log_internal_errors(false);
    let lines = match format {
        LogFormat::Pretty if has_colour(&io::stderr()) => lines.boxed(),
        LogFormat::Pretty => {
            lines.with_ansi(false).map_event_format(|other| LineFormat { form: format, other }).boxed()
        }
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
            lines.map_event_format(|other| LineFormat { form: format, other }).boxed()
        }
    };
    // An error means that there is a log already, in a program that embeds this library. Then that one is
    // used.
    if tracing_subscriber::registry().with(directives).with(lines).try_init().is_ok() {
        let log = Log { writer, directives: handle, filter: Mutex::new(filter.to_owned()) };
        let _ = LOG.set(log); // set nowhere else
    }
    Ok(())
}

/// Returns `true` if output is coloured: on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
pub fn has_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns the error and those of its causes that it does not name itself.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text = text + ": " + &reason;
        }
        cause = error.source();
    }
    text
}

/// Returns the log of this program, or `None` if a program that embeds the service has its own.
pub fn log() -> Option<&'static Log> {
    LOG.get()
}

impl Log {
    /// Returns the filter in force.
    pub fn filter(&self) -> String {
        self.filter.lock().clone()
    }

    /// Replaces the filter.
    ///
    /// # Errors
    ///
    /// If the filter is not valid; the old one then stays.
    pub fn set_filter(&self, filter: &str) -> Result<(), &'static str> {
        let directives = parse_filter(filter)?;
        let mut current = self.filter.lock();
        self.directives.reload(directives).map_err(|_| INVALID_FILTER)?; // fails only if there is no log
        filter.clone_into(&mut current);
        Ok(())
    }

    /// Waits until all lines so far are written, for at most a second.
    pub fn flush(&self) {
        self.writer.flush();
    }
}

/// Returns the count of dropped lines. Its name begins with the prefix.
pub fn metrics(prefix: &str) -> Collectors {
    let name = format!("{prefix}log_lines_dropped_total");
    let dropped = counter(&name, "Log lines dropped: stderr was not read fast enough, or its disk is full.");
    vec![Sampled::boxed(dropped, |dropped: &IntCounter| {
        let lines = log().map_or(0, |log| log.writer.dropped.load(Ordering::Relaxed));
        dropped.inc_by(lines.saturating_sub(dropped.get()));
    })]
}

/// Logs a panic as one line with its location. Its message is omitted, because it could hold anything.
pub fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a task panicked");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_levels_of_modules_are_filters() {
        for filter in [
            "info",
            "TRACE",
            "off",
            "warn,petstore_core=debug",
            "info, petstore_gateway::requests=off",
            "h2=trace",
        ] {
            assert!(parse_filter(filter).is_ok(), "{filter}");
        }
    }

    #[test]
    fn the_client_of_redis_and_the_parsers_of_strangers_bytes_are_silent_unless_the_filter_names_them() {
        for target in ["redis::cluster_handling", "rustls::msgs::handshake", "h2::server"] {
            let name = target.split("::").next().unwrap();
            let (only, more) = (format!("{name}=warn"), format!("info,{name}=warn"));
            for (filter, is_logged) in [("trace", false), (&*more, true), (&*only, true)] {
                let enabled = parse_filter(filter).unwrap().would_enable(target, &tracing::Level::WARN);
                assert_eq!(enabled, is_logged, "{filter}: {target}");
            }
        }
    }

    #[test]
    fn a_filter_that_would_silence_the_log_is_refused() {
        for filter in [
            "",
            " ",
            ",",
            "info,",
            "banana",
            "debgu",
            "3",
            "info,petstore_core",
            "petstore_core=debgu",
            "=info",
            "a b=info",
            "petstore_core[span]=info",
            "info;debug",
            "petstore_core==debug",
            "petstore_core=",
        ] {
            assert!(parse_filter(filter).is_err(), "{filter}");
        }
    }
}
