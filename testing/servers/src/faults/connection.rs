//! Connection through the proxy: two directions, and their faults.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    Fault,
    control::{Control, Setting},
};

/// Maximum number of pieces in flight in one direction: 64 MiB at most, so that a delay of a second carries
/// 64 MiB/s.
const QUEUE: usize = 4_096;
const PIECE: usize = 16 * 1_024;

/// Bytes as they arrived; none if the sender was reset.
struct Piece {
    arrived: Instant,
    bytes: Option<Vec<u8>>,
}

/// Reason to reset the connection on both sides.
struct Reset;

/// Carries bytes between the client and the target until both have closed, or one is reset.
pub(super) async fn carry(
    mut client: TcpStream,
    target: Option<SocketAddr>,
    control: Arc<Control>,
    mut resets: watch::Receiver<u64>,
) {
    let server = match target {
        Some(target) => TcpStream::connect(target).await.ok(),
        None => None,
    };
    let Some(mut server) = server else {
        let _ = client.set_zero_linger(); // the drop sends a reset
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let requests = Direction::new(&control, false).pump(from_client, to_server);
        let responses = Direction::new(&control, true).pump(from_server, to_client);
        tokio::select! {
            end = async { tokio::try_join!(requests, responses) } => end.map(drop),
            _ = resets.changed() => Err(Reset),
        }
    };
    if let Err(Reset) = end {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// One direction of a connection.
struct Direction {
    control: Arc<Control>,
    settings: watch::Receiver<Setting>,
    is_response: bool,
    pieces: u32,
    /// Setting that `passed` belongs to. `passed` is the number of bytes since then.
    counted: u64,
    passed: u64,
}

impl Direction {
    fn new(control: &Arc<Control>, is_response: bool) -> Self {
        let settings = control.setting.subscribe();
        Self { control: Arc::clone(control), settings, is_response, pieces: 0, counted: 0, passed: 0 }
    }

    async fn pump(self, from: ReadHalf<'_>, to: WriteHalf<'_>) -> Result<(), Reset> {
        let (queue, pieces) = mpsc::channel(QUEUE);
        let reads = async {
            read(from, queue).await;
            std::future::pending::<Infallible>().await // data that was read must still be delivered
        };
        tokio::select! {
            delivered = self.deliver(pieces, to) => delivered,
            never = reads => match never {},
        }
    }

    /// Writes the pieces when they are due. The end of the queue is the end of the stream.
    async fn deliver(mut self, mut queue: mpsc::Receiver<Piece>, mut to: WriteHalf<'_>) -> Result<(), Reset> {
        loop {
            let piece = queue.recv().await;
            let arrived = piece.as_ref().map_or_else(Instant::now, |piece| piece.arrived);
            self.due(arrived).await;
            match piece {
                Some(Piece { bytes: Some(bytes), .. }) => self.write(&mut to, &bytes).await?,
                Some(Piece { bytes: None, .. }) => return Err(Reset),
                None => break,
            }
        }
        let _ = to.shutdown().await; // the receiver may have closed already
        Ok(())
    }

    /// Waits until a piece that arrived at this time may be delivered. The fault may change meanwhile.
    async fn due(&mut self, arrived: Instant) {
        self.pieces = self.pieces.wrapping_add(1);
        loop {
            let fault = self.settings.borrow_and_update().fault;
            let due = async {
                match fault {
                    Fault::Blackhole => std::future::pending().await,
                    Fault::Delay { by, jitter } if self.is_response => {
                        sleep_until(arrived + jittered(by, jitter, self.pieces)).await;
                    }
                    _ => {}
                }
            };
            tokio::select! {
                biased;
                () = due => return,
                _ = self.settings.changed() => {}
            }
        }
    }

    async fn write(&mut self, to: &mut WriteHalf<'_>, mut bytes: &[u8]) -> Result<(), Reset> {
        while !bytes.is_empty() {
            let setting = *self.settings.borrow();
            if self.counted != setting.number {
                (self.counted, self.passed) = (setting.number, 0);
            }
            let mut allowed = bytes.len();
            if let Fault::CutOnce { response_bytes } = setting.fault
                && self.is_response
            {
                let left = response_bytes.saturating_sub(self.passed);
                if left == 0 && self.control.cuts(setting) {
                    return Err(Reset);
                }
                if left > 0 {
                    allowed = allowed.min(usize::try_from(left).unwrap_or(usize::MAX));
                }
            }
            let (now, rest) = bytes.split_at(allowed);
            to.write_all(now).await.map_err(|_| Reset)?;
            self.passed += allowed as u64;
            bytes = rest;
        }
        Ok(())
    }
}

/// Reads until the sender closes or is reset. The queue's bound slows down a sender that is too fast.
async fn read(mut from: ReadHalf<'_>, queue: mpsc::Sender<Piece>) {
    loop {
        let mut bytes = Vec::with_capacity(PIECE);
        let count = from.read_buf(&mut bytes).await;
        let piece = match count {
            Ok(0) => return,
            Ok(_) => Piece { arrived: Instant::now(), bytes: Some(bytes) },
            Err(_) => Piece { arrived: Instant::now(), bytes: None },
        };
        let is_last = piece.bytes.is_none();
        if queue.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

/// Returns the mean delay with a part of the jitter. The multiples of the golden ratio fill the span evenly.
fn jittered(by: Duration, jitter: Duration, piece: u32) -> Duration {
    let place = (f64::from(piece) * 0.618_033_988_749_895).fract();
    (by + jitter.mul_f64(2.0 * place)).saturating_sub(jitter)
}
