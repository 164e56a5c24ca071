//! Metrics of the duration of statements and of the use of connections.

use std::sync::Arc;

use petstore_telemetry::metrics;
use petstore_telemetry::metrics::{
    Collector, HistogramVec, IntCounterVec, IntGaugeVec, Sampled, counters, durations, gauges,
};
use petstore_telemetry::traces::{KeyValue, Span, SpanDescription, SpanKind};
use sea_orm::DbBackend;

use crate::{Database, connection::Connections};

metrics! {
    /// Statement metrics.
    #[derive(Clone, Debug)]
    pub(super) struct StatementMetrics {
        durations: HistogramVec = durations(
            "db_client_operation_duration_seconds",
            "Duration of SQL statements, without the wait for a connection.",
            &["db_system_name", "db_operation_name"],
        ),
        failures: IntCounterVec = counters(
            "petstore_db_failures_total",
            "SQL statements that failed.",
            &["db_system_name", "db_operation_name"],
        ),
    }
}

impl StatementMetrics {
    /// Counts the statements that are sent through this handle from now on.
    pub(super) fn observe(&self, connections: &mut Connections) {
        let Self { durations, failures } = self.clone();
        let is_sqlite = connections.backend() == DbBackend::Sqlite;
        let system = if is_sqlite { "sqlite" } else { "postgresql" };
        connections.observe(Arc::new(move |statement| {
            let sql = &statement.statement.sql;
            let labels = [system, operation(sql)];
            durations.with_label_values(&labels).observe(statement.elapsed.as_secs_f64());
            if statement.failed {
                failures.with_label_values(&labels).inc();
            }
            Span::past(SpanKind::Client, statement.elapsed, statement.failed, || describe(labels, sql));
        }));
    }
}

impl Database {
    /// Returns the metrics of the use of connections.
    pub(super) fn pool_metrics(&self) -> Box<dyn Collector> {
        let counts = gauges(
            // OpenTelemetry's name ends with `_count`, which Prometheus keeps for histograms.
            "petstore_db_connections",
            "Connections to the database.",
            &["db_client_connection_pool_name", "db_client_connection_state"],
        );
        let mut pools = vec![("writer", self.writer.clone()), ("reader", self.reader.clone())];
        pools.extend_from_slice(&self.lanes);
        Sampled::boxed(counts, move |counts: &IntGaugeVec| {
            for (name, pool) in &pools {
                let (idle, used) = pool.usage();
                let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
                counts.with_label_values(&[*name, "idle"]).set(number(idle));
                counts.with_label_values(&[*name, "used"]).set(number(used));
            }
        })
    }
}

/// Describes a statement for its span. The text has placeholders instead of values.
fn describe([system, operation]: [&'static str; 2], sql: &str) -> SpanDescription {
    let mut attributes = vec![
        KeyValue::new("db.system.name", system),
        KeyValue::new("db.operation.name", operation),
        KeyValue::new("db.query.text", sql.to_owned()),
    ];
    let Some(table) = table(sql) else { return (operation.into(), attributes) };
    attributes.push(KeyValue::new("db.collection.name", table.to_owned()));
    (format!("{operation} {table}").into(), attributes)
}

/// Returns the table that the statement is about: the first one that it adds to, otherwise the first one that
/// it names. In a transaction it is the last one that it adds to.
fn table(sql: &str) -> Option<&str> {
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
fn operation(sql: &str) -> &'static str {
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
    use petstore_telemetry::metrics::Exposition;

    use super::*;
    use crate::test_support::new_database;

    #[tokio::test]
    async fn metrics_name_the_engine_and_the_pools_that_it_has() {
        let (items, _home) = new_database().await;
        let metrics = Exposition::default();
        metrics.add(items.database.metrics());
        items.add("a").await.unwrap();
        let is_sqlite = items.database.backend() == DbBackend::Sqlite;
        let text = metrics.text();
        for (part, is_shown) in [
            ("pool_name=\"writer\"", true),
            ("pool_name=\"adds\"", !is_sqlite),
            ("system_name=\"sqlite\"", is_sqlite),
            ("system_name=\"postgresql\"", !is_sqlite),
            ("petstore_db_failures_total", false),
        ] {
            assert_eq!(text.contains(part), is_shown, "{part}: {text}");
        }
    }

    #[test]
    fn a_statements_span_names_its_first_table() {
        for (sql, name) in [
            (r#"SELECT "pets"."id" FROM "pets" WHERE "pets"."id" = ?"#, "SELECT pets"),
            (r#"INSERT INTO "api_keys" ("id") VALUES ($1) RETURNING "id""#, "INSERT api_keys"),
            (r#"UPDATE "revision" SET "value" = $1"#, "UPDATE revision"),
            (r#"DELETE FROM "bans""#, "DELETE bans"),
            (
                "WITH added AS (INSERT INTO pets (name) SELECT $1 RETURNING id) SELECT id FROM added",
                "INSERT pets",
            ),
            ("SELECT 1", "SELECT"),
            ("SELECT * FROM (SELECT 1)", "SELECT"),
        ] {
            assert_eq!(describe(["sqlite", operation(sql)], sql).0, name);
        }
    }

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
