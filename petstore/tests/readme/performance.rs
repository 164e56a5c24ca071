//! Figures of `docs/performance.md`, from the JSON of their measurements.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{read, tables::assert_table};

/// A file of `docs/performance` with the medians of a measurement.
struct Measurement(Value);

impl Measurement {
    fn named(name: &str) -> Self {
        Self(serde_json::from_str(&read(&format!("docs/performance/{name}.json"))).unwrap())
    }

    /// Returns the only result with these values.
    fn result(&self, values: &[(&str, Value)]) -> Figures<'_> {
        let is_it = |result: &&Value| values.iter().all(|(name, value)| result[*name] == *value);
        let results: Vec<_> = self.0["results"].as_array().unwrap().iter().filter(is_it).collect();
        let [result] = results[..] else { panic!("{} results have {values:?}", results.len()) };
        Figures(&result["median"])
    }

    /// Returns the MiB or KiB of a process of a deployment.
    fn memory(&self, deployment: &str, is_https: bool, of: &str, process: &str) -> f64 {
        let memories = self.0["memories"].as_array().unwrap().iter();
        let mut found =
            memories.filter(|memory| memory["deployment"] == deployment && memory["https"] == is_https);
        found.next().unwrap()[of][process].as_f64().unwrap()
    }
}

/// Figures of one result.
struct Figures<'a>(&'a Value);

impl Figures<'_> {
    fn of(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap()
    }

    /// Returns the CPU seconds of all processes per 100,000 requests.
    fn cpu(&self) -> f64 {
        self.0["cpu"].as_object().unwrap().values().map(|seconds| seconds.as_f64().unwrap()).sum()
    }

    /// Returns requests a second, CPU seconds, and p99 in milliseconds.
    fn summary(&self) -> String {
        format!("{} / {:.1} / {:.1}", thousands(self.of("rps")), self.cpu(), self.of("p99"))
    }
}

/// Returns a positive number without decimals, with a comma between thousands.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let (head, tail) = digits.split_at(digits.len().saturating_sub(3));
    if head.is_empty() { tail.to_owned() } else { format!("{head},{tail}") }
}

const DEPLOYMENTS: [(&str, &str); 2] = [("one", "one process"), ("split", "gateway and core")];

fn connections() -> String {
    let (reads, creates) = (Measurement::named("closed-loop"), Measurement::named("closed-loop-create"));
    let operations =
        [("get", "one pet", &reads), ("lists", "33 pages", &reads), ("create", "new pet", &creates)];
    let mut table = "| |".to_owned();
    for (_, words, _) in operations {
        for (_, deployed) in DEPLOYMENTS {
            write!(table, " {words}, {deployed} |").unwrap();
        }
    }
    table += "\n|---|---|---|---|---|---|---|\n";
    for load in ["1 connection", "32 connections", "128 connections", "1,024 connections"] {
        write!(table, "| {load} |").unwrap();
        for (operation, _, measurement) in operations {
            for (deployment, _) in DEPLOYMENTS {
                let values = [("operation", operation), ("load", load), ("deployment", deployment)];
                let found = measurement.result(&values.map(|(name, value)| (name, value.into())));
                write!(table, " {} |", found.summary()).unwrap();
            }
        }
        table.push('\n');
    }
    table
}

fn rates() -> String {
    let measurement = Measurement::named("open-loop");
    let mut table = "| requests/s | one process | gateway and core |\n|---|---|---|\n".to_owned();
    for rate in ["500", "2,000", "5,000"] {
        write!(table, "| {rate} |").unwrap();
        for (deployment, _) in DEPLOYMENTS {
            let load = format!("{rate}/s");
            let found = measurement.result(&[("load", load.into()), ("deployment", deployment.into())]);
            let [p50, p99, p999] = ["p50", "p99", "p999"].map(|name| found.of(name));
            write!(table, " {p50:.2}, {p99:.2}, {p999:.2} |").unwrap();
        }
        table.push('\n');
    }
    table
}

fn catalogue() -> String {
    let measurement = Measurement::named("pets");
    let mut table = "| | one pet | first page | page nine tenths down |\n|---|---|---|---|\n".to_owned();
    for (deployment, words) in DEPLOYMENTS {
        write!(table, "| {words} |").unwrap();
        for operation in ["get", "list", "deep"] {
            let of = |pets: u64| {
                let values = [("operation", operation.into()), ("deployment", deployment.into())];
                measurement.result(&[&values[..], &[("pets", pets.into())]].concat()).cpu()
            };
            write!(table, " {:.2} |", of(5_000_000) / of(1_000)).unwrap();
        }
        table.push('\n');
    }
    table
}

fn others() -> String {
    let [gateways, cores, neighbours, accounts, https, cache, idle, loads] =
        ["gateways", "cores", "neighbours", "accounts", "https", "pet-cache", "idle", "closed-loop"]
            .map(Measurement::named);
    let cpu = |measurement: &Measurement, values: &[(&str, Value)]| measurement.result(values).cpu();
    let second = ["get", "lists", "create"].map(|operation| {
        let of = |deployment: &str| {
            cpu(&gateways, &[("operation", operation.into()), ("deployment", deployment.into())])
        };
        of("split-2") / of("split")
    });
    let of_cores = ["split", "cores-2", "cores-4"].map(|deployment| {
        let values = [("operation", "get".into()), ("deployment", deployment.into())];
        thousands(cores.result(&values).of("rps"))
    });
    let beside = DEPLOYMENTS.map(|(deployment, words)| {
        let times = ["get", "lists", "create"].map(|operation| {
            let of = |load: &str| {
                let values = [("operation", operation), ("load", load), ("deployment", deployment)];
                neighbours.result(&values.map(|(name, value)| (name, value.into()))).of("p99")
            };
            format!("{:.1}", of("200/s beside 128") / of("200/s"))
        });
        format!("{words} {}", times.join(", "))
    });
    let [million, one] =
        [1_000_000, 1].map(|accounts_used: u64| cpu(&accounts, &[("accounts", accounts_used.into())]));
    let [tls_one, tls_split] = DEPLOYMENTS.map(|(deployment, _)| {
        let of =
            |is_https: bool| cpu(&https, &[("deployment", deployment.into()), ("https", is_https.into())]);
        100.0 * (of(true) / of(false) - 1.0)
    });
    let [cached_one, cached_split] = DEPLOYMENTS.map(|(deployment, _)| {
        let of =
            |variant: &str| cpu(&cache, &[("deployment", deployment.into()), ("variant", variant.into())]);
        of("target/release/petstore") / of("PETSTORE_PET_CACHE=0 target/release/petstore")
    });
    let plot = |name: &str| format!("[plot](performance/{name}.svg), [table](performance/{name}.md)");
    let rows = [
        (
            format!("CPU with a second gateway, as a multiple ({})", plot("gateways")),
            format!(
                "one pet {:.2}, pages {:.2}, new pet {:.2}: no difference beyond noise",
                second[0], second[1], second[2]
            ),
        ),
        (
            format!("Gets a second with 1, 2 and 4 cores ({})", plot("cores")),
            format!("{}: the machine's two processors are busy", of_cores.join(", ")),
        ),
        (
            format!(
                "p99 at 200 requests/s beside an account with 128 busy connections, as a multiple of p99 \
                 alone ({})",
                plot("neighbours")
            ),
            format!("one pet, pages, new pet: {}", beside.join("; ")),
        ),
        (
            format!("CPU seconds of 100,000 single pets, of a million accounts ({})", plot("accounts")),
            format!(
                "{million:.1} instead of {one:.1}: a gateway caches 50,000 keys, and the others need a lookup"
            ),
        ),
        (
            format!("CPU of HTTPS on open connections ({})", plot("https")),
            format!("{tls_one:.0} % more in one process, {tls_split:.0} % with gateway and core"),
        ),
        (
            format!("CPU with all of 5,000 pets cached, as a multiple ({})", plot("pet-cache")),
            format!("{cached_one:.2} in one process, {cached_split:.2} with gateway and core"),
        ),
        (
            "An idle connection, without the kernel's sockets ([10,000](performance/idle.md), \
             [1,000](performance/https.md))"
                .to_owned(),
            format!(
                "one of 10,000: {:.0} KiB; one of 1,000: {:.0} KiB, with HTTPS {:.0} KiB",
                idle.memory("one", false, "idle", "serve"),
                https.memory("one", false, "idle", "serve"),
                https.memory("one", true, "idle", "serve")
            ),
        ),
        (
            "Memory at rest; at 1,024 connections ([table](performance/closed-loop.md))".to_owned(),
            ["rest", "most"]
                .map(|of| {
                    let [gateway, core, serve] = [("split", "gateway"), ("split", "core"), ("one", "serve")]
                        .map(|(deployment, process)| loads.memory(deployment, false, of, process));
                    format!("gateway {gateway:.0} MiB, core {core:.0} MiB, one process {serve:.0} MiB")
                })
                .join("; "),
        ),
    ];
    let mut table = "| Question | Measured |\n|---|---|\n".to_owned();
    for (question, answer) in rows {
        writeln!(table, "| {question} | {answer} |").unwrap();
    }
    table
}

#[test]
fn the_tables_have_the_measured_figures() {
    // One after the other, because each may write the page.
    for (name, table) in
        [("connections", connections()), ("rates", rates()), ("catalogue", catalogue()), ("others", others())]
    {
        assert_table("docs/performance.md", name, &table);
    }
}
