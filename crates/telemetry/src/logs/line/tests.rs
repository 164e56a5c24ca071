//! Each line is compared with the subscriber's own for the same event.

use std::{io, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;
use tracing::subscriber::with_default;
use tracing_subscriber::{Registry, fmt, layer::SubscriberExt};

use super::*;

/// Takes what is written.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

/// Returns the lines of the events in text: ours, and the subscriber's.
fn texts(events: impl Fn()) -> [String; 2] {
    let (ours, theirs) = (Sink::default(), Sink::default());
    let (of_ours, of_theirs) = (ours.clone(), theirs.clone());
    let lines = fmt::layer().with_ansi(false);
    let lines = lines.map_event_format(|other| LineFormat { form: LogFormat::Pretty, other });
    with_default(Registry::default().with(lines.with_writer(move || of_ours.clone())), &events);
    let lines = fmt::layer().with_ansi(false).with_writer(move || of_theirs.clone());
    with_default(Registry::default().with(lines), &events);
    [ours.text(), theirs.text()]
}

/// Returns the lines of the events as JSON: ours, and the subscriber's.
fn objects(events: impl Fn()) -> [String; 2] {
    let json = || fmt::layer().json().flatten_event(true).with_current_span(false).with_span_list(false);
    let (ours, theirs) = (Sink::default(), Sink::default());
    let (of_ours, of_theirs) = (ours.clone(), theirs.clone());
    let lines = json().map_event_format(|other| LineFormat { form: LogFormat::Json, other });
    with_default(Registry::default().with(lines.with_writer(move || of_ours.clone())), &events);
    with_default(Registry::default().with(json().with_writer(move || of_theirs.clone())), &events);
    [ours.text(), theirs.text()]
}

/// Logs every kind of value at every level.
fn events() {
    let (none, some) = (None::<u64>, Some("PET_NOT_FOUND"));
    tracing::info!(
        target: "petstore_gateway::requests",
        request_id = "order-66",
        status = 404_u16,
        code = some,
        account_id = none,
        duration_ms = 1.25,
        offset = -7,
        client = %"::1",
        form = ?LogFormat::Json,
        left = true,
        r#type = "pet",
        "answered"
    );
    tracing::error!(path = "a \"quoted\" \\ text", name = "Zoë 🐈", nothing = "", "failed after {} tries", 3);
    tracing::warn!("only a message");
    tracing::debug!(large = 1e15, small = 1e-9, whole = 3.0, big = u64::MAX);
    tracing::trace!(message = "named");
    log_span();
}

fn log_span() {
    let span = tracing::info_span!("within", pet = 1);
    span.in_scope(|| tracing::info!(inner = 2, "in a span"));
}

/// Returns the lines without their first characters, which are the time.
fn without_time(lines: &str, length: usize) -> Vec<&str> {
    lines.lines().map(|line| &line[length..]).collect()
}

#[test]
fn a_line_of_text_is_that_of_the_subscriber() {
    let [ours, theirs] = texts(events);
    let time = "2026-11-27T21:42:53.000000Z".len();
    assert_eq!(without_time(&ours, time), without_time(&theirs, time));
    assert_eq!(ours.lines().count(), 6);
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(ours[..16], theirs[..16], "the minute");
        assert!(ours[..time].ends_with('Z') && ours.as_bytes()[19] == b'.', "{ours}");
    }
}

#[test]
fn a_line_of_json_has_the_fields_and_values_of_the_subscribers_in_their_order() {
    let parsed = |line: &str| {
        let mut object: serde_json::Map<String, Value> = serde_json::from_str(line).expect(line);
        assert!(object.remove("timestamp").unwrap().as_str().unwrap().ends_with('Z'));
        object.into_iter().collect::<Vec<_>>()
    };
    let [ours, theirs] = objects(events);
    assert_eq!(ours.lines().count(), 6);
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(parsed(ours), parsed(theirs));
    }
}

#[test]
fn no_value_ends_its_line_or_string_or_controls_a_terminal() {
    let hostile = "a\nb\r\u{1b}[2Jc\"}\u{9b}\u{7f}\\";
    let events = || tracing::info!(text = hostile, shown = %hostile, debug = ?hostile, "{hostile}");
    let [text, _] = texts(events);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!text.trim_end_matches('\n').chars().any(char::is_control), "{text:?}");
    let [json, _] = objects(events);
    assert!(!json.trim_end_matches('\n').chars().any(char::is_control), "{json:?}");
    let object: Value = serde_json::from_str(&json).expect(&json);
    assert_eq!(
        (&object["text"], &object["shown"], &object["message"]),
        (&hostile.into(), &hostile.into(), &hostile.into())
    );
}

#[test]
fn a_number_that_json_does_not_have_is_null() {
    let [json, _] = objects(|| tracing::info!(ratio = f64::NAN));
    assert!(json.contains(",\"ratio\":null,"), "{json}");
}
