//! Metrics of this process from the kernel (Linux: `/proc`), under the names that all Prometheus clients use.

use std::{fs, io, sync::OnceLock};

use petstore_clock::machine_time;
use prometheus::{Counter, Gauge, core::Collector};

use super::{Collectors, Sampled, made};

/// Ticks of the kernel's clock per second: `USER_HZ`, which is 100 on every architecture that Rust's standard
/// library supports.
const TICKS: f64 = 100.0;

/// Returns CPU time, memory, open files and start time of this process. A value that cannot be read is 0.
pub fn process() -> Collectors {
    vec![
        Sampled::boxed(
            made(Counter::new("process_cpu_seconds_total", "Processor time used, in seconds.")),
            |used: &Counter| used.inc_by((cpu_time().unwrap_or_default() - used.get()).max(0.0)),
        ),
        sampled("process_resident_memory_bytes", "Memory in use, in bytes.", resident_memory),
        sampled("process_open_fds", "Open file descriptors.", open_files),
        sampled("process_max_fds", "Maximum number of open file descriptors.", most_files),
        start_time(),
    ]
}

/// Returns the start time by the machine's clock, taken at the first call. The kernel's value counts from the
/// machine's start, whose time is in `/proc/stat`, which systemd's `ProcSubset=pid` hides.
fn start_time() -> Box<dyn Collector> {
    static STARTED: OnceLock<f64> = OnceLock::new();
    let gauge = made(Gauge::new("process_start_time_seconds", "Start of the process, in Unix seconds."));
    gauge.set(*STARTED.get_or_init(|| machine_time().as_secs_f64()));
    Box::new(gauge)
}

fn sampled(name: &str, help: &str, read: fn() -> io::Result<f64>) -> Box<dyn Collector> {
    Sampled::boxed(made(Gauge::new(name, help)), move |gauge: &Gauge| gauge.set(read().unwrap_or_default()))
}

/// Returns the resident memory, from a line such as `VmRSS:    1234 kB`.
fn resident_memory() -> io::Result<f64> {
    field(&fs::read_to_string("/proc/self/status")?, "VmRSS:").map(|kibibytes| kibibytes * 1_024.0)
}

#[expect(clippy::cast_precision_loss, reason = "the kernel allows far fewer than 2⁵³ files")]
fn open_files() -> io::Result<f64> {
    // The folder itself is open while it is read.
    Ok(fs::read_dir("/proc/self/fd")?.count().saturating_sub(1) as f64)
}

/// Returns the first number of `Max open files            1024                 524288               files`.
fn most_files() -> io::Result<f64> {
    field(&fs::read_to_string("/proc/self/limits")?, "Max open files")
}

/// Returns the CPU time in user mode and in the kernel.
fn cpu_time() -> io::Result<f64> {
    let [user, kernel] = stat_seconds([14, 15])?;
    Ok(user + kernel)
}

/// Returns, in seconds, the fields of `stat` that are counted in ticks, by their numbers in
/// `proc_pid_stat(5)`. The second field, the program's name in parentheses, may hold anything.
fn stat_seconds<const N: usize>(numbers: [usize; N]) -> io::Result<[f64; N]> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let fields: Vec<_> = after_name.split_whitespace().collect(); // the first is number 3
    let mut seconds = [0.0; N];
    for (second, at) in seconds.iter_mut().zip(numbers) {
        *second = number(fields.get(at - 3).copied())? / TICKS;
    }
    Ok(seconds)
}

/// Returns the number after a name at the start of a line.
fn field(text: &str, name: &str) -> io::Result<f64> {
    number(text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()))
}

fn number(text: Option<&str>) -> io::Result<f64> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_files_are_those_of_a_running_program() {
        let memory = resident_memory().unwrap();
        assert!((1e6..1e10).contains(&memory), "{memory}");
        let before = open_files().unwrap();
        assert!(before >= 3.0 && before < most_files().unwrap(), "{before}");
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = cpu_time().unwrap();
        let started = std::time::Instant::now();
        while cpu_time().unwrap() <= before {
            assert!(started.elapsed().as_secs() < 60, "none was counted");
        }
    }

    #[test]
    fn the_start_time_is_recent_and_constant() {
        let shown = || start_time().collect()[0].get_metric()[0].get_gauge().get_value();
        let first = shown();
        let age = machine_time().as_secs_f64() - first;
        assert!((0.0..60.0).contains(&age), "{age}");
        assert!((shown() - first).abs() < f64::EPSILON, "{first}");
    }

    /// Tests that only files of processes are read. Under systemd's `ProcSubset=pid` `/proc` has no others.
    #[test]
    fn only_this_processs_kernel_files_are_read() {
        let code = include_str!("process.rs").split("#[cfg(test)]").next().unwrap_or_default();
        let read = code.matches("\"/proc/").count();
        assert_eq!((read, code.matches("\"/proc/self/").count()), (4, 4));
    }
}
