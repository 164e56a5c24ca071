//! Tests of the end of connections: by age, in a drain, and when the server stops.

use super::*;

#[tokio::test]
async fn an_old_connection_closes_after_the_next_answer() {
    // Long enough for the first answer.
    let age = Duration::from_secs(2);
    let server = Running::start(app(), ServerLimits { max_connection_age: age, ..patient() }).await;
    let mut stream = server.send(GET_PEER).await;
    let peer = stream.local_addr().unwrap().to_string();
    assert!(!read_until(&mut stream, &peer).await.contains("connection: close"));
    sleep(age * 3 / 2).await; // it has reached its maximum age, but its client may be sending
    stream.write_all(GET_PEER.as_bytes()).await.unwrap();
    let last = read_all(&mut stream).await;
    assert!(last.contains("connection: close\r\n") && last.ends_with(&peer), "{last}");
}

#[tokio::test]
async fn a_request_that_outlives_its_connections_maximum_age_is_cut_off() {
    let limits =
        ServerLimits { max_connection_age: SHORT_TIMEOUT, connection_age_grace: SHORT_TIMEOUT, ..patient() };
    let (app, begun, _finish) = slow_app();
    let server = Running::start(app, limits).await;
    let mut stream = server.send(GET_SLOW).await;
    begun.notified().await;
    assert_eq!(read_all(&mut stream).await, "");
}

#[tokio::test]
async fn during_the_drain_every_answer_closes_its_connection() {
    let mut server = Running::start(app(), patient()).await;
    let mut before = server.send(GET_PEER).await;
    let peer = before.local_addr().unwrap().to_string();
    assert!(!read_until(&mut before, &peer).await.contains("connection: close"));
    server.drain();
    sleep(SHORT_TIMEOUT).await;
    before.write_all(GET_PEER.as_bytes()).await.unwrap();
    for mut stream in [before, server.send(GET_PEER).await] {
        let last = read_all(&mut stream).await;
        assert!(last.contains("connection: close\r\n") && last.starts_with("HTTP/1.1 200 OK"), "{last}");
    }
}

#[tokio::test]
async fn a_client_that_was_silent_until_shutdown_is_still_answered() {
    let server = Running::start(app(), patient()).await;
    let mut idle = server.send(GET_PEER).await;
    let peer = idle.local_addr().unwrap().to_string();
    read_until(&mut idle, &peer).await;
    let new = server.connect().await;
    let ending = tokio::spawn(server.end());
    sleep(2 * SHORT_TIMEOUT).await; // the listener is closed
    for mut stream in [idle, new] {
        stream.write_all(GET_PEER.as_bytes()).await.unwrap();
        let last = read_all(&mut stream).await;
        assert!(last.contains("connection: close\r\n") && last.starts_with("HTTP/1.1 200 OK"), "{last}");
    }
    assert!(ending.await.unwrap() < NEVER_TIMEOUT / 4);
}

/// Runs a client that sends one request after another on one connection, and opens another when an answer
/// announces the end of the connection. Returns the number of answers until no further connection could be
/// opened. Reports the first answer at once.
async fn heeding_client(addr: SocketAddr, first_answer: oneshot::Sender<()>) -> Result<usize, String> {
    let (mut answered, mut first_answer) = (0, Some(first_answer));
    loop {
        let Ok(mut stream) = TcpStream::connect(addr).await else { return Ok(answered) };
        loop {
            let lost = |what: &str| Err(format!("{what} after {answered} answers"));
            if stream.write_all(GET_PEER.as_bytes()).await.is_err() {
                return lost("could not send");
            }
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(error) => return lost(&format!("{:?} ({error})", String::from_utf8_lossy(&head))),
                }
            }
            let mut body = vec![0; stream.local_addr().map_or(0, |addr| addr.to_string().len())];
            if stream.read_exact(&mut body).await.is_err() {
                return lost("half an answer");
            }
            answered += 1;
            if let Some(first_answer) = first_answer.take() {
                let _ = first_answer.send(()); // the test waits for it
            }
            if String::from_utf8_lossy(&head).contains("connection: close") {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_loses_no_request_of_clients_that_obey_connection_close() {
    for round in 0..6 {
        let mut server = Running::start(app(), patient()).await;
        let (mut clients, mut first_answers) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            let (sender, receiver) = oneshot::channel();
            clients.push(tokio::spawn(heeding_client(server.addr, sender)));
            first_answers.push(receiver);
        }
        for first_answer in first_answers {
            let _ = first_answer.await; // clients without an answer are asserted below
        }
        server.drain();
        if round % 2 == 0 {
            sleep(Duration::from_millis(20)).await; // else at once
        }
        server.end().await;
        for client in clients {
            let answered = client.await.unwrap();
            assert!(matches!(answered, Ok(1..)), "round {round}: {answered:?}");
        }
    }
}

#[tokio::test]
async fn clients_that_wait_for_a_slot_at_shutdown_are_answered() {
    let slots = ConnectionSlots::new(2, 99);
    let server = Running::start_over(None, app(), patient(), slots).await;
    let mut open = [server.send(GET_PEER).await, server.send(GET_PEER).await];
    for stream in &mut open {
        let peer = stream.local_addr().unwrap().to_string();
        read_until(stream, &peer).await;
    }
    let mut waiting = Vec::new();
    for _ in 0..20 {
        waiting.push(server.send(GET_PEER).await);
    }
    let ending = tokio::spawn(server.end());
    for stream in &mut waiting {
        let last = read_all(stream).await;
        assert!(last.contains("connection: close\r\n") && last.starts_with("HTTP/1.1 200 OK"), "{last}");
    }
    assert!(ending.await.unwrap() < NEVER_TIMEOUT / 4);
}

#[tokio::test]
async fn shutdown_ends_at_its_deadline() {
    let server = Running::start(app(), ServerLimits { drain_deadline: SHORT_TIMEOUT, ..patient() }).await;
    let _silent = server.connect().await;
    let _half_sent = server.send("GET /peer HTTP/1.1\r\nHo").await;
    let _half_body = server.send("POST /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx").await;
    let mut never_reading = server.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n").await;
    never_reading.read_u8().await.unwrap(); // it is being answered
    let took = server.end().await;
    assert!(took < SHORT_TIMEOUT + NEVER_TIMEOUT / 10, "{took:?}");
}
