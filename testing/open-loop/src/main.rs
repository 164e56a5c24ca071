//! Sends HTTP requests at a fixed rate and measures each from the time at which it was due. So the latency
//! includes the time that a request waits because the service was slow with earlier ones. (A load generator
//! that sends the next request when the last is answered never sees that wait: "coordinated omission".)
//!
//! ```text
//! petstore-open-loop ADDRESS[,ADDRESS...] RATE SECONDS CONNECTIONS < REQUESTS
//! ```
//!
//! Standard input holds the requests, whole as they are sent, each ended by a zero byte. They are sent in
//! turn, over connections that take the addresses in turn. The result is one line of JSON with the latencies
//! in microseconds.
//!
//! Each connection has a thread, and there are no dependencies: the kernel wakes a thread more exactly than a
//! timer wheel of milliseconds, and the program is built in seconds.
#![expect(clippy::print_stdout, reason = "its answer goes there")]

use std::{
    error::Error,
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Timeout of an answer, longer than any deadline of the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Size of the buffer in bytes: enough for the head of an answer and a page of pets.
const BUFFER: usize = 64 * 1_024;

/// State that all connections share.
struct Load {
    requests: Vec<Vec<u8>>,
    rate: u32,
    count: u32,
    start: Instant,
    next: AtomicU32,
}

/// Results of one connection, or of all.
#[derive(Default)]
struct Results {
    /// Latencies of answers with status 2xx, in microseconds.
    latencies: Vec<u64>,
    /// Number of answers with another status, and of requests without an answer.
    failed: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [addresses, rate, seconds, connections] = arguments.as_slice() else {
        return Err(
            "usage: petstore-open-loop ADDRESS[,ADDRESS...] RATE SECONDS CONNECTIONS < REQUESTS".into()
        );
    };
    let addresses: Vec<SocketAddr> = addresses.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let (rate, seconds, connections): (u32, u32, usize) =
        (rate.parse()?, seconds.parse()?, connections.parse()?);
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text)?;
    let requests = text.split(|byte| *byte == 0).filter(|request| !request.is_empty()).map(<[u8]>::to_vec);
    let requests: Vec<_> = requests.collect();
    if requests.is_empty() || rate == 0 {
        return Err("there is nothing to send".into());
    }
    let streams = addresses.iter().cycle().take(connections).map(|address| open(*address));
    let streams: Vec<TcpStream> = streams.collect::<Result<_, _>>()?;
    let start = Instant::now();
    let load = Load { requests, rate, count: rate.saturating_mul(seconds), start, next: AtomicU32::new(0) };
    let all = thread::scope(|scope| {
        let workers: Vec<_> = streams.into_iter().map(|stream| scope.spawn(|| load.work(stream))).collect();
        let results = workers.into_iter().filter_map(|worker| worker.join().ok());
        results.fold(Results::default(), Results::plus)
    });
    println!("{}", all.json(load.start.elapsed()));
    Ok(())
}

fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, ANSWER_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}

impl Load {
    /// Runs one connection. A free connection takes the next request and waits until it is due.
    fn work(&self, mut stream: TcpStream) -> Results {
        let (mut results, mut buffer) = (Results::default(), vec![0; BUFFER]);
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return results;
            }
            let due = self.start + Duration::from_secs(1) * number / self.rate;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let place = number as usize % self.requests.len();
            let Some(request) = self.requests.get(place) else { return results };
            match exchange(&mut stream, request, &mut buffer) {
                Ok(true) => results.latencies.push(micros(due.elapsed())),
                Ok(false) => results.failed += 1,
                Err(_) => {
                    results.failed += 1;
                    let Ok(peer) = stream.peer_addr() else { return results };
                    let Ok(again) = open(peer) else { return results };
                    stream = again;
                }
            }
        }
    }
}

/// Sends the request and reads the whole answer. Returns `true` if its status is 2xx.
fn exchange(stream: &mut TcpStream, request: &[u8], buffer: &mut [u8]) -> io::Result<bool> {
    stream.write_all(request)?;
    let mut filled = 0;
    loop {
        let room = buffer.get_mut(filled..).unwrap_or_default();
        let read = stream.read(room)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += read;
        let received = buffer.get(..filled).unwrap_or_default();
        if whole_len(received).is_some_and(|len| filled >= len) {
            return Ok(received.starts_with(b"HTTP/1.1 2"));
        }
    }
}

/// Returns the length of the answer, once its head has arrived. Every answer of the service has a length.
fn whole_len(answer: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let fields = answer.get(..head)?;
    let value = fields.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))?;
    let digits = fields.get(value + NAME.len()..)?.trim_ascii_start();
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let body = digits.fold(0_usize, |length, digit| length * 10 + usize::from(digit - b'0'));
    Some(head + 4 + body)
}

impl Results {
    fn plus(mut self, mut other: Self) -> Self {
        self.latencies.append(&mut other.latencies);
        self.failed += other.failed;
        self
    }

    fn json(mut self, took: Duration) -> String {
        self.latencies.sort_unstable();
        let at = |permille: usize| {
            let place = (self.latencies.len() * permille).div_ceil(1_000).max(1) - 1;
            self.latencies.get(place).copied().unwrap_or_default()
        };
        let percentiles = [("p50", 500), ("p90", 900), ("p99", 990), ("p999", 999), ("max", 1_000)];
        format!(
            r#"{{"requests":{},"failed":{},"us":{},{}}}"#,
            self.latencies.len(),
            self.failed,
            micros(took),
            percentiles.map(|(name, permille)| format!(r#""{name}_us":{}"#, at(permille))).join(",")
        )
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_once_its_body_has_arrived() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(whole_len(answer), Some(answer.len()));
        assert_eq!(whole_len(&answer[..30]), None);
    }

    #[test]
    fn percentiles_exclude_failures_which_are_counted_separately() {
        let one = Results { latencies: (1..=999).rev().collect(), failed: 1 };
        let all = one.plus(Results { latencies: vec![1_000], failed: 2 });
        let expected = [
            r#"{"requests":1000,"failed":3,"us":2000000,"#,
            r#""p50_us":500,"p90_us":900,"p99_us":990,"p999_us":999,"max_us":1000}"#,
        ];
        assert_eq!(all.json(Duration::from_secs(2)), expected.concat());
    }
}
