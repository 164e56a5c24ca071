//! Figures of the comparison with other implementations, from `docs/performance/comparison.json`.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{performance::thousands, read, tables::assert_table};

const BASE: &str = "direct";
const SPLIT: &str = "split";
const ONE: &str = "one";

/// Programs, as the JSON names them and in words.
const PROGRAMS: [(&str, &str); 6] = [
    (BASE, "one process with axum and PostgreSQL, tuned by hand"),
    (SPLIT, "**this service, gateway and core**"),
    (ONE, "**this service, one process on SQLite**"),
    ("hop", "a gateway with axum and a core with tonic, tuned by hand"),
    ("go", "Go, grpc-gateway, one process"),
    ("envoy", "Envoy: transcoder and rate limit service, tonic core"),
];

const OPERATIONS: [(&str, &str); 3] = [("get", "get"), ("list", "33 pages"), ("create", "new pet")];

/// One measurement: rounds in which each program was measured in turn.
struct Comparison(Value);

impl Comparison {
    fn load() -> Self {
        Self(serde_json::from_str(&read("docs/performance/comparison.json")).unwrap())
    }

    /// Returns a figure in each round, or nothing if the program was not measured.
    fn rounds(&self, program: &str, operation: &str, connections: u64, figure: &str) -> Vec<f64> {
        let is_it = |result: &&Value| {
            result["program"] == program
                && result["operation"] == operation
                && result["connections"] == connections
        };
        let rounds = self.0["results"].as_array().unwrap().iter().filter(is_it);
        rounds
            .flat_map(|result| result["rounds"].as_array().unwrap())
            .map(|round| round[figure].as_f64().unwrap())
            .collect()
    }

    fn median(&self, program: &str, operation: &str, connections: u64, figure: &str) -> f64 {
        median(self.rounds(program, operation, connections, figure))
    }

    /// Returns a figure as a multiple of that of [`BASE`] in the same round, in ascending order.
    fn ratios(&self, program: &str, operation: &str, connections: u64, figure: &str) -> Vec<f64> {
        let of = |program: &str| self.rounds(program, operation, connections, figure);
        let mut ratios: Vec<_> = of(program).iter().zip(of(BASE)).map(|(own, base)| own / base).collect();
        ratios.sort_by(f64::total_cmp);
        ratios
    }

    /// Returns the programs that were measured with so many connections.
    fn programs(&self, connections: u64) -> impl Iterator<Item = (&'static str, &'static str)> {
        PROGRAMS.into_iter().filter(move |(name, _)| !self.rounds(name, "get", connections, "rps").is_empty())
    }

    /// Returns how many times as many requests the gateway and core serve as another program, from the least
    /// to the most of the operations.
    fn times_as_many(&self, program: &str) -> String {
        let mut times: Vec<_> = [32, 128]
            .into_iter()
            .flat_map(|connections| OPERATIONS.map(|(operation, _)| (operation, connections)))
            .map(|(operation, connections)| {
                let of = |program: &str| self.median(program, operation, connections, "rps");
                of(SPLIT) / of(program)
            })
            .collect();
        times.sort_by(f64::total_cmp);
        format!("{:.1} to {:.1}", times[0], times[times.len() - 1])
    }

    fn loads(&self, connections: u64) -> String {
        let mut table = head(&format!("{connections} connections"));
        for (program, words) in self.programs(connections) {
            write!(table, "| {words} |").unwrap();
            for (operation, _) in OPERATIONS {
                let of = |figure: &str| self.median(program, operation, connections, figure);
                write!(table, " {} / {:.1} / {:.1} |", thousands(of("rps")), of("cpu"), of("p99")).unwrap();
            }
            table.push('\n');
        }
        table
    }

    fn ranges(&self) -> String {
        let mut table = head("CPU time");
        for (program, words) in [(SPLIT, "gateway and core"), (ONE, "one process")] {
            for connections in [32, 128] {
                write!(table, "| {words}, {connections} connections |").unwrap();
                for (operation, _) in OPERATIONS {
                    let ratios = self.ratios(program, operation, connections, "cpu");
                    let [least, most] = [ratios[0], ratios[ratios.len() - 1]];
                    write!(table, " {:.2} ({least:.2}–{most:.2}) |", median(ratios)).unwrap();
                }
                table.push('\n');
            }
        }
        table
    }

    fn lone(&self) -> String {
        let mut table = head("p50, CPU time");
        for (program, words) in self.programs(1).filter(|(program, _)| *program != BASE) {
            write!(table, "| {words} |").unwrap();
            for (operation, _) in OPERATIONS {
                let [p50, cpu] =
                    ["p50", "cpu"].map(|figure| median(self.ratios(program, operation, 1, figure)));
                write!(table, " {p50:.2}, {cpu:.2} |").unwrap();
            }
            table.push('\n');
        }
        table
    }
}

fn head(first: &str) -> String {
    let columns = OPERATIONS.map(|(_, words)| words).join(" | ");
    format!("| {first} | {columns} |\n|---|---|---|---|\n")
}

/// Returns the median. Between two values it is their mean.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    if values.len() % 2 == 1 { values[upper] } else { f64::midpoint(values[upper - 1], values[upper]) }
}

#[test]
fn the_comparison_has_the_measured_figures() {
    let comparison = Comparison::load();
    // One after the other, because two may write one page.
    for (page, name, table) in [
        ("docs/performance.md", "comparison", comparison.loads(32)),
        ("docs/performance/comparison.md", "comparison-128", comparison.loads(128)),
        ("docs/performance/comparison.md", "comparison-ranges", comparison.ranges()),
        ("docs/performance/experiments.md", "lone", comparison.lone()),
    ] {
        assert_table(page, name, &table);
    }
}

#[test]
fn what_the_performance_page_claims_of_others_was_measured() {
    let comparison = Comparison::load();
    let page = read("docs/performance.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let claim = format!(
        "gateway and core serve {} times as many requests a second as Envoy's transcoder with a rate limit \
         service, and {} times as many as grpc-gateway",
        comparison.times_as_many("envoy"),
        comparison.times_as_many("go")
    );
    assert!(page.contains(&claim), "it should claim: {claim}");
    let [get, list, create] =
        OPERATIONS.map(|(operation, _)| median(comparison.ratios(SPLIT, operation, 32, "cpu")));
    let claim = format!(
        "the CPU time of a request is {get:.2} times that of the hand-tuned monolith for one pet, {list:.2} \
         for different pages and {create:.2} for a new pet"
    );
    assert!(page.contains(&claim), "it should claim: {claim}");
    let peers =
        ["envoy", "go"].into_iter().flat_map(|peer| OPERATIONS.map(|(operation, _)| (peer, operation)));
    for (peer, operation) in peers {
        for connections in [32, 128] {
            let p99 = |program: &str| comparison.median(program, operation, connections, "p99");
            assert!(
                p99(SPLIT) < p99(peer),
                "its p99 is not below that of {peer}: {operation}, {connections}"
            );
        }
    }
}
