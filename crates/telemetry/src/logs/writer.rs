//! Log writer that never makes its caller wait.

use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

/// Maximum number of bytes that wait to be written; further lines are dropped. A request's line has about
/// 300.
const MAX_WAITING: usize = 4 * 1_024 * 1_024;

/// Capacity that the buffer keeps after a write, in bytes.
const BUFFER: usize = 64 * 1_024;

/// Pause of the thread after a write. It is woken a few hundred times a second at most, instead of once per
/// line, which would take a request longer than the line itself.
const WRITE_INTERVAL: Duration = Duration::from_millis(4);

/// Maximum duration of a flush.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Queue of lines for a thread that writes them: a shared buffer, which the thread takes as a whole. Separate
/// memory for each line, freed by another thread than the one that allocated it, would cost more than the
/// line.
#[derive(Debug, Default)]
pub(super) struct LogWriter {
    /// Locked for as long as a line takes to copy, and never during a write.
    waiting: Mutex<Waiting>,
    /// Signalled when there are bytes to write.
    wake: Condvar,
    /// Signalled when all bytes are written.
    idle: Condvar,
    /// Lines dropped since the start.
    pub(super) dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    thread: ThreadState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ThreadState {
    /// No thread runs, and every line is dropped.
    #[default]
    Absent,
    /// The thread writes or sleeps, and looks for more lines without being woken.
    Busy,
    /// The thread waits to be woken.
    Idle,
}

impl LogWriter {
    /// Writes to `sink` until the process ends. Lines that it fails to take are dropped: a log that cannot be
    /// written must not end the service.
    pub(super) fn new(sink: impl io::Write + Send + 'static) -> Arc<Self> {
        let writer = Arc::new(Self::default());
        writer.waiting.lock().thread = ThreadState::Busy;
        let of_thread = Arc::clone(&writer);
        if thread::Builder::new().name("log".to_owned()).spawn(move || of_thread.write_to(sink)).is_err() {
            writer.waiting.lock().thread = ThreadState::Absent;
        }
        writer
    }

    /// Waits until the lines so far are written, for [`FLUSH_TIMEOUT`] at most.
    pub(super) fn flush(&self) {
        let mut waiting = self.waiting.lock();
        let is_busy =
            |waiting: &mut Waiting| waiting.thread == ThreadState::Busy || !waiting.lines.is_empty();
        // Lines that are not written in time are lost.
        let _ = self.idle.wait_while_for(&mut waiting, is_busy, FLUSH_TIMEOUT);
    }

    fn push(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        let is_full = waiting.lines.len().saturating_add(line.len()) > MAX_WAITING;
        if is_full || waiting.thread == ThreadState::Absent {
            drop(waiting);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.lines.extend_from_slice(line);
        if waiting.thread == ThreadState::Idle {
            waiting.thread = ThreadState::Busy;
            drop(waiting);
            self.wake.notify_one();
        }
    }

    /// Writes lines without end, as the thread's work.
    fn write_to(&self, mut sink: impl io::Write) {
        let mut batch = Vec::with_capacity(BUFFER);
        loop {
            let mut waiting = self.waiting.lock();
            while waiting.lines.is_empty() {
                waiting.thread = ThreadState::Idle;
                self.idle.notify_all();
                self.wake.wait(&mut waiting);
            }
            waiting.thread = ThreadState::Busy;
            mem::swap(&mut waiting.lines, &mut batch);
            drop(waiting);
            if sink.write_all(&batch).and_then(|()| sink.flush()).is_err() {
                let lines = batch.split_inclusive(|byte| *byte == b'\n').count();
                self.dropped.fetch_add(lines as u64, Ordering::Relaxed);
            }
            batch.clear();
            batch.shrink_to(BUFFER); // after a burst
            thread::sleep(WRITE_INTERVAL);
        }
    }
}

/// Takes one line per write, as the subscriber writes them. It never waits and never fails.
impl io::Write for &LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, time::Instant};

    use super::*;

    /// Sink that takes bytes only while it can take its lock.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_order_and_a_flush_waits_for_them() {
        let sink = Sink::default();
        let writer = LogWriter::new(sink.clone());
        let mut expected = Vec::new();
        for number in 0..1_000 {
            let line = format!("line {number}\n");
            (&*writer).write_all(line.as_bytes()).unwrap();
            expected.extend(line.into_bytes());
            if number % 100 == 0 {
                writer.flush();
                assert_eq!(*sink.0.lock(), expected);
            }
        }
        writer.flush();
        assert_eq!(*sink.0.lock(), expected);
        assert_eq!(writer.dropped.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_queue_drops_and_counts_lines_without_waiting() {
        const LINES: usize = MAX_WAITING / 1_024;
        let sink = Sink::default();
        let writer = LogWriter::new(sink.clone());
        let blocked = sink.0.lock();
        let start = Instant::now();
        for _ in 0..3 * LINES {
            (&*writer).write_all(&[b'x'; 1_024]).unwrap();
        }
        let dropped = writer.dropped.load(Ordering::Relaxed);
        // The thread may have taken as much as waits.
        assert!((LINES as u64..=2 * LINES as u64).contains(&dropped), "{dropped}");
        writer.flush();
        assert!(start.elapsed() < 10 * FLUSH_TIMEOUT, "{:?}", start.elapsed());
        drop(blocked);
        writer.flush();
        let written = sink.0.lock().len() / 1_024;
        assert_eq!(written as u64 + dropped, 3 * LINES as u64);
    }

    #[test]
    fn lines_that_a_full_disk_does_not_take_are_counted() {
        let writer = LogWriter::new(std::fs::File::options().write(true).open("/dev/full").unwrap());
        (&*writer).write_all(b"first\n").unwrap();
        (&*writer).write_all(b"second\n").unwrap();
        writer.flush();
        assert_eq!(writer.dropped.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_writer_without_a_thread_drops_every_line_without_waiting() {
        let writer = LogWriter::default();
        (&writer).write_all(b"line\n").unwrap();
        writer.flush();
        assert_eq!(writer.dropped.load(Ordering::Relaxed), 1);
    }
}
