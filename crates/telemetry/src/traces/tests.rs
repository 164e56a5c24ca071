use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderMap, HeaderValue};
use opentelemetry::trace::{SpanId, Status, TracerProvider};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter},
};
use tokio::time::timeout;

use super::*;

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Spans that ended.
#[derive(Clone, Debug, Default)]
struct Ended(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Ended {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

impl Ended {
    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|span| span.name.to_string()).collect()
    }

    fn of(&self, name: &str) -> SpanData {
        self.0.lock().unwrap().iter().find(|span| span.name == name).unwrap().clone()
    }
}

fn traces(ratio: f64) -> (Traces, Ended) {
    let ended = Ended::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(ended.clone())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
        .build();
    (Traces(Some(provider.tracer("test"))), ended)
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_static(value));
    }
    headers
}

fn request(traces: &Traces, fields: &[(&'static str, &'static str)]) -> Span {
    traces.request(&headers(fields), Root::Sampled, || "request".into())
}

fn child() -> Span {
    Span::child(SpanKind::Client, || ("child".into(), Vec::new()))
}

/// Returns the header fields of a request to another service as part of the current span.
fn injected(span: &Span) -> HeaderMap {
    let mut headers = HeaderMap::new();
    span.write(&mut headers);
    headers
}

#[tokio::test]
async fn events_within_a_span_belong_to_it() {
    let (traces, ended) = traces(1.0);
    let span = request(&traces, &[]);
    let headers = span
        .within(async {
            tokio::task::yield_now().await;
            let child = child();
            let past = || ("past".into(), vec![KeyValue::new("a", 1)]);
            Span::past(SpanKind::Client, Duration::from_millis(5), true, past);
            injected(&child)
        })
        .await;
    drop(span);
    assert_eq!(ended.names(), ["past", "child", "request"]);
    let (root, child, past) = (ended.of("request"), ended.of("child"), ended.of("past"));
    assert_eq!((root.parent_span_id, root.span_kind), (SpanId::INVALID, SpanKind::Server));
    for part in [&child, &past] {
        assert_eq!(part.parent_span_id, root.span_context.span_id());
        assert_eq!(part.span_context.trace_id(), root.span_context.trace_id());
    }
    assert_eq!(past.end_time.duration_since(past.start_time).unwrap(), Duration::from_millis(5));
    assert!(matches!(past.status, Status::Error { .. }) && child.status == Status::Unset);
    let named = format!("-{}-{}-01", root.span_context.trace_id(), child.span_context.span_id());
    assert!(headers["traceparent"].to_str().unwrap().ends_with(&named), "{headers:?}");
}

#[tokio::test]
async fn a_request_continues_the_trace_of_its_sender() {
    let (traces, ended) = traces(0.0);
    request(&traces, &[("traceparent", SAMPLED)]).within(async { drop(child()) }).await;
    assert_eq!(ended.names(), ["child", "request"]);
    let root = ended.of("request");
    assert_eq!(root.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(root.parent_span_id.to_string(), "b7ad6b7169203331");
}

#[tokio::test]
async fn an_unrecorded_trace_is_propagated_as_unrecorded() {
    let (all, ended) = traces(1.0);
    let (none, _) = traces(0.0);
    for span in [request(&all, &[("traceparent", NOT_SAMPLED)]), request(&none, &[])] {
        let headers = span.within(async { injected(&child()) }).await;
        assert!(headers["traceparent"].to_str().unwrap().ends_with("-00"), "{headers:?}");
        assert_eq!(span.trace_id(), None);
    }
    assert!(ended.names().is_empty(), "{ended:?}");
}

#[tokio::test]
async fn without_tracing_nothing_is_recorded_or_propagated() {
    let span =
        Traces::off().request(&headers(&[("traceparent", SAMPLED)]), Root::Sampled, || panic!("asked"));
    let headers = span.within(async { injected(&Span::child(SpanKind::Client, || panic!("asked"))) }).await;
    assert!(headers.is_empty(), "{headers:?}");
}

#[test]
fn background_work_begins_no_trace() {
    let (traces, _) = traces(1.0);
    let begin = |fields| traces.request(&headers(fields), Root::Never, || "request".into());
    assert_eq!(begin(&[]).trace_id(), None);
    assert!(begin(&[("traceparent", SAMPLED)]).trace_id().is_some());
}

#[test]
fn a_trace_state_is_passed_on_and_baggage_is_not() {
    let (traces, ended) = traces(1.0);
    let passed_on = |fields: &[(&'static str, &'static str)]| {
        let span = request(&traces, &[&[("traceparent", SAMPLED)], fields].concat());
        injected(&span).get("tracestate").map(|state| state.to_str().unwrap().to_owned())
    };
    let lines = [("tracestate", "rojo=00f067aa0ba902b7"), ("tracestate", "congo=t61rcWkgMzE")];
    assert_eq!(passed_on(&lines).unwrap(), "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
    assert_eq!(passed_on(&[("baggage", "a=secret")]), None);
    let key = "vendor=XPET_live_0123456789"; // spans are exported
    for malformed in
        ["no value", "a=b\u{7f}", key, Box::leak(format!("a={}", "b".repeat(600)).into_boxed_str())]
    {
        let mut fields = headers(&[("traceparent", SAMPLED)]);
        if let Ok(state) = HeaderValue::from_str(malformed) {
            fields.insert("tracestate", state);
        }
        let span = traces.request(&fields, Root::Sampled, || "request".into());
        assert_eq!(injected(&span).get("tracestate"), None, "{malformed}");
        assert!(injected(&span)["traceparent"].to_str().unwrap().contains(&SAMPLED[3..35]));
    }
    assert!(!format!("{:?}", ended.of("request")).contains("secret"));
}

#[test]
fn an_invalid_or_repeated_traceparent_begins_a_new_trace() {
    let (traces, _) = traces(1.0);
    let zeros = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
    for fields in [
        &[("traceparent", "")][..],
        &[("traceparent", "secret")],
        &[("traceparent", zeros)],
        &[("traceparent", SAMPLED), ("traceparent", SAMPLED)],
    ] {
        let trace = request(&traces, fields).trace_id().expect("a trace of its own");
        assert_ne!(trace.to_string(), "0af7651916cd43dd8448eb211c80319c", "{fields:?}");
    }
}

#[tokio::test]
async fn cancelled_work_ends_its_span() {
    let (traces, ended) = traces(1.0);
    let work = async {
        let span = request(&traces, &[]);
        span.within(async {
            let child = child();
            child.within(pending::<()>()).await;
        })
        .await;
    };
    assert!(timeout(Duration::from_millis(1), work).await.is_err());
    assert_eq!(ended.names(), ["child", "request"]);
}
