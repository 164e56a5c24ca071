//! Metrics of the file system that has the store's file.

use std::path::{Path, PathBuf};

use petstore_core::DatabaseUrl;
use petstore_telemetry::metrics::{Collectors, IntGaugeVec, Sampled, gauges};
use rustix::fs::{StatVfs, statvfs};

/// Returns the metrics of the file system of a store in a file. A database server has its own.
pub(crate) fn metrics(url: &DatabaseUrl) -> Collectors {
    let folder = url.sqlite_file().map(folder_of);
    vec![
        sampled(
            "petstore_store_disk_available_bytes",
            "Free bytes of the file system with the store's file; not shown for PostgreSQL.",
            folder.clone(),
            |disk| disk.f_bavail.saturating_mul(disk.f_frsize),
        ),
        sampled(
            "petstore_store_disk_size_bytes",
            "Size of the file system with the store's file, in bytes; not shown for PostgreSQL.",
            folder,
            |disk| disk.f_blocks.saturating_mul(disk.f_frsize),
        ),
    ]
}

/// Returns the folder that a file is in.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

fn sampled(
    name: &str,
    help: &str,
    folder: Option<PathBuf>,
    value: fn(&StatVfs) -> u64,
) -> Box<dyn petstore_telemetry::metrics::Collector> {
    Sampled::boxed(gauges(name, help, &[]), move |gauge: &IntGaugeVec| {
        if let Some(disk) = folder.as_ref().and_then(|folder| statvfs(folder).ok()) {
            gauge.with_label_values::<&str>(&[]).set(i64::try_from(value(&disk)).unwrap_or(i64::MAX));
        }
    })
}
