//! Connection through the proxy: its messages in both directions, and their faults.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncRead, AsyncWriteExt, BufReader},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    time::sleep,
};

use super::{
    conversation::Conversation,
    message::{Message, Side, read_first_message, read_message},
    plan::{Action, MessageSite, Plan},
};

/// Maximum number of messages in flight in one direction.
const QUEUE: usize = 4_096;
/// Requests that a client may send before its first message: for TLS, for encryption by GSSAPI, and to
/// cancel.
const SSL_REQUEST: &[u8] = &80_877_103_u32.to_be_bytes();
const GSSENC_REQUEST: &[u8] = &80_877_104_u32.to_be_bytes();

/// Reason to reset the connection on both sides.
struct Reset;

/// Message with its site; `None` if its sender was reset.
type Labelled = Option<(Message, MessageSite)>;

/// Carries messages between the client and the target until both have closed, or one is reset.
pub(super) async fn carry(
    mut client: TcpStream,
    target: SocketAddr,
    plan: Arc<Plan>,
    mut resets: watch::Receiver<u64>,
) {
    let Ok(mut server) = TcpStream::connect(target).await else {
        let _ = client.set_zero_linger(); // the drop sends a reset
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let end = tokio::select! {
        end = relay(&mut client, &mut server, &plan) => end,
        _ = resets.changed() => Err(Reset),
    };
    if let Err(Reset) = end {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

async fn relay(client: &mut TcpStream, server: &mut TcpStream, plan: &Plan) -> Result<(), Reset> {
    let first = refuse_encryption(client).await.map_err(|_| Reset)?;
    let conversation = Mutex::new(Conversation::default());
    let label = |side, message: &Message| {
        let mut conversation = conversation.lock().unwrap_or_else(PoisonError::into_inner);
        let statement = match side {
            Side::Frontend => conversation.frontend(message),
            Side::Backend => conversation.backend(message),
        };
        MessageSite { statement, side, message: message.name(side) }
    };
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let requests = pump(Some(first), from_client, to_server, plan, |message| label(Side::Frontend, message));
    let answers = pump(None, from_server, to_client, plan, |message| label(Side::Backend, message));
    tokio::try_join!(requests, answers).map(drop)
}

/// Refuses requests for encryption, as a server without it does. Returns the message that follows.
async fn refuse_encryption(client: &mut TcpStream) -> std::io::Result<Message> {
    loop {
        let first = read_first_message(client).await?;
        if ![SSL_REQUEST, GSSENC_REQUEST].contains(&first.body()) {
            return Ok(first);
        }
        client.write_all(b"N").await?;
    }
}

/// Runs one direction. Messages that were read are still delivered after their sender has closed.
async fn pump(
    first: Option<Message>,
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
    plan: &Plan,
    label: impl Fn(&Message) -> MessageSite,
) -> Result<(), Reset> {
    let (queue, messages) = mpsc::channel(QUEUE);
    let reads = async {
        read(first, BufReader::new(from), queue, label).await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        delivered = deliver(messages, to, plan) => delivered,
        never = reads => match never {},
    }
}

/// Reads and labels messages until the sender closes or is reset.
async fn read(
    first: Option<Message>,
    mut from: impl AsyncRead + Unpin,
    queue: mpsc::Sender<Labelled>,
    label: impl Fn(&Message) -> MessageSite,
) {
    let mut next = first;
    loop {
        if let Some(message) = next {
            let site = label(&message);
            if queue.send(Some((message, site))).await.is_err() {
                return;
            }
        }
        next = match read_message(&mut from).await {
            Ok(Some(message)) => Some(message),
            Ok(None) => return,
            Err(_) => return drop(queue.send(None).await), // if the other side is still there
        };
    }
}

async fn deliver(
    mut queue: mpsc::Receiver<Labelled>,
    mut to: WriteHalf<'_>,
    plan: &Plan,
) -> Result<(), Reset> {
    while let Some(labelled) = queue.recv().await {
        let (Message { bytes, .. }, site) = labelled.ok_or(Reset)?;
        let Some((action, _held)) = plan.trigger(&site) else {
            to.write_all(&bytes).await.map_err(|_| Reset)?;
            continue;
        };
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        let (now, later) = match action {
            Action::Hold(time) => ([].as_slice(), Some((time, bytes.as_slice()))),
            Action::Halve(time) => (half, Some((time, rest))),
            Action::CutBefore => ([].as_slice(), None),
            Action::CutWithin => (half, None),
            Action::CutAfter => (bytes.as_slice(), None),
        };
        to.write_all(now).await.map_err(|_| Reset)?;
        let (time, rest) = later.ok_or(Reset)?;
        sleep(time).await;
        to.write_all(rest).await.map_err(|_| Reset)?;
    }
    let _ = to.shutdown().await; // it may have closed already
    Ok(())
}
