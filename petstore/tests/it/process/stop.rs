//! The end of the process: signals, and the drain before it.

use std::{
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::Duration,
};

use petstore_testkit::{eventually, raw};
use tokio::{io::AsyncWriteExt, net::TcpStream, process::Command};

use crate::{FIRST_KEY, first_client, petstore, serve};

/// Timeout of an end without requests in flight, on a busy machine. It is shorter than the 20 s that requests
/// in flight may take.
const END_TIMEOUT: Duration = Duration::from_secs(15);

#[tokio::test]
async fn sigterm_or_ctrl_c_ends_an_idle_service_at_once_with_0() {
    for signal in ["TERM", "INT"] {
        let installation = petstore();
        let server = installation.start(&serve(&[])).await;
        let exit = server.ended_by(signal).await;
        assert_eq!(exit.code, Some(0), "SIG{signal}: {exit:?}");
        assert!(exit.took < END_TIMEOUT, "SIG{signal}: {exit:?}");
    }
}

#[tokio::test]
async fn a_supervisor_is_told_when_the_service_serves_and_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify").display().to_string();
    let by_path = UnixDatagram::bind(&path).unwrap();
    let name = format!("petstore-test-{}", std::process::id());
    let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
    let by_name = UnixDatagram::bind_addr(&abstract_address).unwrap();
    for (supervisor, address) in [(by_path, path), (by_name, format!("@{name}"))] {
        supervisor.set_read_timeout(Some(END_TIMEOUT)).unwrap();
        let told = || {
            let mut message = [0; 64];
            let length = supervisor.recv(&mut message).unwrap();
            String::from_utf8_lossy(&message[..length]).into_owned()
        };
        let installation = petstore().with_variable("NOTIFY_SOCKET", &address);
        let server = installation.start(&serve(&["--drain-delay", "100ms"])).await;
        assert_eq!(told(), "READY=1", "{address}");
        assert_eq!(server.anonymous().get("/v1/pets").await.status(), 401, "{address}");
        let exit = server.ended_by("TERM").await;
        assert_eq!((told().as_str(), exit.code), ("STOPPING=1", Some(0)), "{address}");
    }
}

#[tokio::test]
async fn a_supervisor_that_does_not_listen_harms_nothing() {
    for address in ["/nowhere/notify", "@", "", "notify", &"x".repeat(300)] {
        let installation = petstore().with_variable("NOTIFY_SOCKET", address);
        let server = installation.start(&serve(&[])).await;
        assert_eq!(server.anonymous().get("/v1/pets").await.status(), 401, "{address}");
        let exit = server.ended_by("TERM").await;
        assert_eq!(exit.code, Some(0), "{address}: {exit:?}");
        assert_eq!(exit.stderr.contains("NOTIFY_SOCKET"), !address.is_empty(), "{address}: {exit:?}");
    }
}

#[tokio::test]
async fn a_signal_sent_twice_at_once_still_drains_the_service() {
    // Sent as by coreutils' timeout, with a pause, so that the service sees both.
    let twice = "kill -TERM \"$0\" && sleep 0.02 && kill -TERM \"$0\"";
    // On a machine that stalls for 200 ms between the two, the second counts as a separate request to stop:
    // then the test tries again.
    eventually(Duration::from_secs(30), async || {
        let installation = petstore();
        let server = installation.start(&serve(&["--drain-delay", "1s"])).await;
        let sent = Command::new("/bin/sh").args(["-c", twice, &server.pid().to_string()]).status().await;
        assert!(sent.expect("sh runs").success(), "the signals were not sent");
        let exit = server.ended().await;
        if exit.code == Some(0) { Ok(()) } else { Err(format!("{exit:?}")) }
    })
    .await;
}

#[tokio::test]
async fn a_second_signal_ends_the_service_without_waiting() {
    let installation = petstore();
    let server = installation.start(&serve(&["--drain-delay", "1m"])).await;
    let admin = server.address("admin");
    eventually(END_TIMEOUT, async || {
        server.signal("INT").await;
        match TcpStream::connect(admin).await {
            Ok(_) => Err("it still listens".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
    let exit = server.ended().await;
    assert_eq!(exit.code, Some(1), "{exit:?}");
    assert!(
        exit.stderr.ends_with("error: stopped at once by a second signal; requests in flight were lost\n"),
        "{exit:?}"
    );
}

#[tokio::test]
async fn sigterm_ends_the_service_also_under_idle_and_half_sent_connections() {
    let installation = petstore();
    let server = installation.start(&serve(&["--drain-deadline", "3s"])).await;
    let key = installation.read(FIRST_KEY);
    let half_a_body = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\n{{",
        key.trim()
    );
    let mut open = Vec::new();
    for port in ["REST", "gRPC", "admin"] {
        for begun in ["", "GET /v1/pe", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &half_a_body] {
            let mut stream = raw::connect(server.address(port)).await;
            stream.write_all(begun.as_bytes()).await.unwrap();
            open.push(stream);
        }
    }
    // A request that is answered proves that the service has seen those before it.
    first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
    let exit = server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(exit.took < Duration::from_secs(3) + END_TIMEOUT, "{:?}", exit.took);
    drop(open);
}

#[tokio::test]
async fn requests_are_served_and_readiness_is_down_during_the_drain() {
    let installation = petstore();
    // The delay is longer than the test: nothing waits for its end.
    let server = installation.start(&serve(&["--drain-delay", "5m"])).await;
    let (client, admin) = (first_client(&installation, &server), server.admin());
    server.signal("TERM").await;
    let ready = eventually(END_TIMEOUT, async || {
        let ready = admin.get("/readyz").await;
        if ready.status() == 503 { Ok(ready) } else { Err(format!("{ready:?}")) }
    })
    .await;
    assert_eq!(ready.json()["status"], "down", "{ready:?}");
    client.get("/v1/pets").await.assert_status(200);
}
