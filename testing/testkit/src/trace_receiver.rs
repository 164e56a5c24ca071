//! OTLP receiver of traces.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
    trace::v1::Span,
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, transport::Server};

use crate::eventually;

/// Timeout of spans, longer than they take to arrive from a busy machine.
const SPAN_TIMEOUT: Duration = Duration::from_secs(20);

/// Receiver that keeps the spans that are sent to it. It ends when it is dropped.
#[derive(Debug)]
pub struct TraceReceiver {
    url: String,
    received: Received,
    _serving: JoinSet<()>,
}

/// Span, and its sender.
#[derive(Clone, Debug)]
pub struct ReceivedSpan {
    /// Value of `service.name` of the sender.
    pub service: String,
    /// Span as it was sent.
    pub span: Span,
}

#[derive(Clone, Debug, Default)]
struct Received(Arc<Mutex<Vec<ReceivedSpan>>>);

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut received = self.0.lock().expect("no panic under this lock");
        for resource_spans in request.into_inner().resource_spans {
            let resource = resource_spans.resource.unwrap_or_default();
            let service = attribute(&resource.attributes, "service.name").unwrap_or_default();
            let spans = resource_spans.scope_spans.into_iter().flat_map(|scope| scope.spans);
            received.extend(spans.map(|span| ReceivedSpan { service: service.clone(), span }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl ReceivedSpan {
    /// Returns the value of an attribute, as text.
    pub fn attribute(&self, name: &str) -> Option<String> {
        attribute(&self.span.attributes, name)
    }
}

fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let value = &attributes.iter().find(|attribute| attribute.key == name)?.value;
    match value {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => Some(text.clone()),
        Some(AnyValue { value: Some(Value::IntValue(number)) }) => Some(number.to_string()),
        Some(AnyValue { value: Some(Value::BoolValue(flag)) }) => Some(flag.to_string()),
        other => Some(format!("{other:?}")),
    }
}

impl TraceReceiver {
    /// Starts a receiver on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let received = Received::default();
        let service = TraceServiceServer::new(received.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let server = Server::builder().add_service(service);
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.expect("it serves");
        });
        Self { url, received, _serving: serving }
    }

    /// Returns its address, for `--otlp-endpoint`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the spans so far.
    pub fn spans(&self) -> Vec<ReceivedSpan> {
        self.received.0.lock().expect("no panic under this lock").clone()
    }

    /// Waits until the trace of the request with this `X-Request-Id` is this tree: a line for each span, with
    /// its service and its name, below its parent and in the order in which they began.
    pub async fn expect_tree(&self, request_id: &str, tree: &str) -> Vec<ReceivedSpan> {
        eventually(SPAN_TIMEOUT, async || {
            let spans = self.trace_of(request_id);
            let drawn = draw(&spans);
            if drawn.trim() == tree.trim() { Ok(spans) } else { Err(format!("the tree is\n{drawn}")) }
        })
        .await
    }

    /// Waits for the span of the request with this `X-Request-Id`, and returns its whole trace, which
    /// includes the work of its service for it.
    pub async fn expect_trace(&self, request_id: &str) -> Vec<ReceivedSpan> {
        eventually(SPAN_TIMEOUT, async || {
            let spans = self.trace_of(request_id);
            if spans.is_empty() { Err(format!("no {request_id} in {:?}", self.spans())) } else { Ok(spans) }
        })
        .await
    }

    /// Returns all spans of the request's trace.
    fn trace_of(&self, request_id: &str) -> Vec<ReceivedSpan> {
        let spans = self.spans();
        let is_root =
            |span: &&ReceivedSpan| span.attribute("petstore.request_id").as_deref() == Some(request_id);
        let Some(root) = spans.iter().find(is_root) else { return Vec::new() };
        let trace_id = root.span.trace_id.clone();
        spans.into_iter().filter(|span| span.span.trace_id == trace_id).collect()
    }
}

/// Draws the tree. Spans without a parent among the spans are at the left.
fn draw(spans: &[ReceivedSpan]) -> String {
    let ids: Vec<_> = spans.iter().map(|span| &span.span.span_id).collect();
    let mut children: HashMap<Option<&Vec<u8>>, Vec<&ReceivedSpan>> = HashMap::new();
    for span in spans {
        let parent = Some(&span.span.parent_span_id).filter(|parent| ids.contains(parent));
        children.entry(parent).or_default().push(span);
    }
    let mut drawn = String::new();
    draw_below(None, 0, &mut children, &mut drawn);
    drawn
}

fn draw_below<'a>(
    parent: Option<&'a Vec<u8>>,
    depth: usize,
    children: &mut HashMap<Option<&'a Vec<u8>>, Vec<&'a ReceivedSpan>>,
    drawn: &mut String,
) {
    let mut spans = children.remove(&parent).unwrap_or_default();
    spans.sort_by_key(|span| span.span.start_time_unix_nano);
    for ReceivedSpan { service, span } in spans {
        writeln!(drawn, "{}{service}: {}", "  ".repeat(depth), span.name).expect("a String takes all");
        draw_below(Some(&span.span_id), depth + 1, children, drawn);
    }
}
