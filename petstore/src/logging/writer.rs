//! Writing without waiting.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use tracing_subscriber::fmt::MakeWriter;

/// The most lines that wait to be written; what comes on top is dropped. A line of a request takes about 400 bytes.
const MAX_WAITING: usize = 8_192;

/// Lines that wait are written together, until they are so many bytes.
const BATCH: usize = 64 * 1_024;

/// How long the thread rests after it has written: so it is woken a few hundred times a second at most, and not for each
/// line, which would cost a request more than writing its line down does.
const REST: Duration = Duration::from_millis(4);

/// How long a flush may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Hands lines to a thread that writes them. Clones write to the same place.
#[derive(Clone, Debug)]
pub(super) struct LogWriter {
    queue: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    /// Answered when all that came before it is written.
    Flush(SyncSender<()>),
}

impl LogWriter {
    /// Writes to `sink`, whose failures are nobody's concern: a log that cannot be written must not end the service.
    pub(super) fn to(sink: impl io::Write + Send + 'static) -> Self {
        let (queue, entries) = sync_channel(MAX_WAITING);
        // Without a thread the queue is closed, and every line counts as dropped.
        let _ = thread::Builder::new().name("log".to_owned()).spawn(move || write_all(&entries, sink));
        Self { queue, dropped: Arc::default() }
    }

    /// How many lines were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Waits until the lines so far are written, for [`PATIENCE`] at most.
    pub(super) fn flush(&self) {
        let deadline = Instant::now() + PATIENCE;
        let (done, flushed) = sync_channel(1);
        let mut request = Entry::Flush(done);
        while let Err(refused) = self.queue.try_send(request) {
            match refused {
                TrySendError::Full(again) if Instant::now() < deadline => request = again,
                TrySendError::Full(_) | TrySendError::Disconnected(_) => return,
            }
            thread::sleep(PATIENCE / 100);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let _ = flushed.recv_timeout(left); // what is not written by then, nobody reads
    }
}

fn write_all(entries: &Receiver<Entry>, mut sink: impl io::Write) {
    let mut batch = Vec::with_capacity(BATCH);
    while let Ok(first) = entries.recv() {
        let mut waiting = Some(first);
        let mut flushes = Vec::new();
        while let Some(entry) = waiting {
            match entry {
                Entry::Line(line) => batch.extend_from_slice(&line),
                Entry::Flush(done) => flushes.push(done),
            }
            waiting = if batch.len() < BATCH { entries.try_recv().ok() } else { None };
        }
        let _ = sink.write_all(&batch).and_then(|()| sink.flush());
        let is_full = batch.len() >= BATCH; // then more may wait already
        batch.clear();
        for done in flushes {
            let _ = done.try_send(()); // whoever waited may have lost patience
        }
        if !is_full {
            thread::sleep(REST);
        }
    }
}

/// One write is one line, for that is how the subscriber writes. It never waits and never fails.
impl io::Write for &LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Entry::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        sync::{Mutex, mpsc},
    };

    use super::*;

    /// Takes bytes only while it can take its lock.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_order() {
        let sink = Sink::default();
        let writer = LogWriter::to(sink.clone());
        for line in ["one\n", "two\n"] {
            (&writer).write_all(line.as_bytes()).unwrap();
        }
        writer.flush();
        assert_eq!(*sink.0.lock().unwrap(), b"one\ntwo\n");
        assert_eq!(writer.dropped(), 0);
    }

    #[test]
    fn while_nothing_is_taken_lines_are_dropped_and_counted_and_nobody_waits() {
        let sink = Sink::default();
        let writer = LogWriter::to(sink.clone());
        let blocked = sink.0.lock().unwrap();
        let start = Instant::now();
        for _ in 0..3 * MAX_WAITING {
            (&writer).write_all(&[b'x'; 100]).unwrap();
        }
        let dropped = writer.dropped();
        // One batch may be on its way besides those that wait.
        assert!((MAX_WAITING as u64..=2 * MAX_WAITING as u64).contains(&dropped), "{dropped}");
        writer.flush();
        assert!(start.elapsed() < 5 * PATIENCE, "{:?}", start.elapsed());
        drop(blocked);
        writer.flush();
        let written = sink.0.lock().unwrap().len() / 100;
        assert_eq!(written as u64 + dropped, 3 * MAX_WAITING as u64);
    }

    #[test]
    fn a_writer_without_a_thread_drops_all_and_waits_for_nothing() {
        let (queue, _) = mpsc::sync_channel(1);
        let writer = LogWriter { queue, dropped: Arc::default() };
        (&writer).write_all(b"line\n").unwrap();
        writer.flush();
        assert_eq!(writer.dropped(), 1);
    }
}
