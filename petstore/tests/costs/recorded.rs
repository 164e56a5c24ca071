//! The committed numbers, and the comparison with them.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use serde::{Deserialize, Serialize};

/// Variable that, with any value, lets the counted numbers replace the committed ones.
const ACCEPT: &str = "PETSTORE_ACCEPT_COSTS";

/// Counted numbers by case and name.
#[derive(Debug, Default)]
pub(crate) struct Costs(BTreeMap<String, BTreeMap<String, f64>>);

/// Content of `costs.json`.
#[derive(Deserialize, Serialize)]
struct File {
    /// Tolerance of each number; the first name that the counter's name begins with applies.
    tolerances: BTreeMap<String, Tolerance>,
    costs: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
}

/// Relative and absolute tolerance. Both are added.
#[derive(Clone, Copy, Deserialize, Serialize)]
struct Tolerance {
    percent: f64,
    absolute: f64,
}

impl Tolerance {
    fn most(self, recorded: f64) -> f64 {
        recorded * (1.0 + self.percent / 100.0) + self.absolute
    }

    fn least(self, recorded: f64) -> f64 {
        recorded * (1.0 - self.percent / 100.0) - self.absolute
    }
}

impl Costs {
    pub(crate) fn insert(&mut self, case: String, numbers: BTreeMap<String, f64>) {
        self.0.insert(case, numbers);
    }

    /// Fails if a cost exceeds the committed number and its tolerance, or is not committed. Reports lower
    /// costs.
    pub(crate) fn compare(self, section: &str) {
        let mut file = read();
        if std::env::var_os(ACCEPT).is_some() {
            file.costs.insert(section.to_owned(), self.0);
            write(&file);
            return;
        }
        let recorded = file.costs.get(section);
        let (mut dearer, mut cheaper) = (String::new(), String::new());
        for (case, numbers) in &self.0 {
            for (what, counted) in numbers {
                let recorded = recorded.and_then(|cases| cases.get(case)?.get(what));
                let tolerance = file.tolerance(case, what);
                let place = format!("{section}: {case}: {what}: {counted}");
                let fault = match recorded {
                    None => writeln!(dearer, "{place}, and no number is committed"),
                    Some(number) if *counted > tolerance.most(*number) => {
                        writeln!(
                            dearer,
                            "{place} instead of {number}, at most {:.2}",
                            tolerance.most(*number)
                        )
                    }
                    Some(number) if *counted < tolerance.least(*number) => {
                        writeln!(cheaper, "{place} instead of {number}")
                    }
                    Some(_) => Ok(()),
                };
                fault.expect("a String");
            }
        }
        let how = format!("accept with {ACCEPT}=1 cargo test -p petstore --test costs");
        if !cheaper.is_empty() {
            println!("cheaper than committed; {how}, so that it stays so:\n{cheaper}");
        }
        assert!(dearer.is_empty(), "dearer than committed; if it is worth that, {how}:\n{dearer}");
    }
}

impl File {
    fn tolerance(&self, case: &str, what: &str) -> Tolerance {
        let names = [format!("{what}, {}", case.rsplit(", ").next().unwrap_or_default()), what.to_owned()];
        let found = names.iter().find_map(|name| self.tolerances.get(name));
        *found.unwrap_or_else(|| panic!("costs.json has no tolerance for {what}"))
    }
}

/// Returns the highest cost that is no fault: infinity if every cost is accepted or none is committed.
pub(crate) fn most(section: &str, case: &str, what: &str) -> f64 {
    let file = read();
    let recorded = file.costs.get(section).and_then(|cases| cases.get(case)?.get(what));
    match recorded {
        Some(recorded) if std::env::var_os(ACCEPT).is_none() => file.tolerance(case, what).most(*recorded),
        _ => f64::INFINITY,
    }
}

/// Returns `count` per request, to two places.
pub(crate) fn ratio(count: usize, requests: usize) -> f64 {
    let [count, requests] =
        [count, requests].map(|number| f64::from(u32::try_from(number).expect("below 2³²")));
    (count / requests * 100.0).round() / 100.0
}

/// Returns the minimum of each counter.
pub(crate) fn least(parts: Vec<BTreeMap<String, f64>>) -> BTreeMap<String, f64> {
    let mut least = BTreeMap::new();
    for (what, counted) in parts.into_iter().flatten() {
        least.entry(what).and_modify(|number: &mut f64| *number = number.min(counted)).or_insert(counted);
    }
    least
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/costs/costs.json")
}

fn read() -> File {
    let text = std::fs::read_to_string(path()).expect("costs.json");
    serde_json::from_str(&text).expect("costs.json is as the code has it")
}

fn write(file: &File) {
    let text = serde_json::to_string_pretty(file).expect("JSON");
    std::fs::write(path(), text + "\n").expect("costs.json can be written");
}
