//! `kubectl port-forward`: connections to ports of a pod, as many as the client wants over one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use streams::forward::{Effect, Forwards};
use streams::websocket;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::{READ_SIZE, Sender, Socket, split};

/// Pieces that wait for a connection that takes none.
const QUEUE: usize = 16;

/// What a connection is told; no bytes: nothing more comes.
type Piece = Option<Vec<u8>>;

/// The connections of one client.
struct Connections {
    address: IpAddr,
    forwards: Arc<Mutex<Forwards>>,
    sender: Arc<Sender>,
    queues: HashMap<u32, (mpsc::Sender<Piece>, AbortHandle)>,
    tasks: JoinSet<()>,
}

/// Connects to ports of an address until the client goes.
pub(super) async fn serve(socket: Socket, address: IpAddr) {
    let (mut receiver, sender) = split(socket);
    let sender = Arc::new(sender);
    let mut connections = Connections {
        address,
        forwards: Arc::default(),
        sender: Arc::clone(&sender),
        queues: HashMap::new(),
        tasks: JoinSet::new(),
    };
    while let Some(message) = receiver.message(&sender).await {
        let effects = lock(&connections.forwards).read(&message);
        let Ok(effects) = effects.inspect_err(|error| tracing::debug!(%error, "a stream is given up")) else { break };
        for effect in effects {
            if connections.perform(effect).await.is_none() {
                return;
            }
        }
    }
    // Those that are left end with the set.
    sender.close().await;
    receiver.closed().await;
}

fn lock(forwards: &Mutex<Forwards>) -> std::sync::MutexGuard<'_, Forwards> {
    forwards.lock().expect("nothing panics while it is held")
}

impl Connections {
    /// Does what the client wants; `None`: it is gone.
    async fn perform(&mut self, effect: Effect) -> Option<()> {
        match effect {
            Effect::Send(bytes) => send(&self.sender, &bytes).await?,
            Effect::Connect { stream, port } => self.connect(stream, port),
            Effect::Write { stream, bytes } => self.queue(stream, Some(bytes)).await,
            Effect::EndOfInput(stream) => self.queue(stream, None).await,
            Effect::Drop(stream) => {
                if let Some((_, task)) = self.queues.remove(&stream) {
                    task.abort();
                }
            }
            // It closes the connection when it has seen the end of all it has begun.
            Effect::GoAway => {}
        }
        Some(())
    }

    fn connect(&mut self, stream: u32, port: u16) {
        // Those that have ended.
        while self.tasks.try_join_next().is_some() {}
        self.queues.retain(|_, (_, task)| !task.is_finished());
        let (pieces, queue) = mpsc::channel(QUEUE);
        let connection = Connection { stream, forwards: Arc::clone(&self.forwards), sender: Arc::clone(&self.sender) };
        let task = self.tasks.spawn(connection.run(self.address, port, queue));
        self.queues.insert(stream, (pieces, task));
    }

    /// Waits while the port takes nothing; a connection that has ended takes nothing at once.
    async fn queue(&self, stream: u32, piece: Piece) {
        if let Some((pieces, _)) = self.queues.get(&stream) {
            let _ = pieces.send(piece).await;
        }
    }
}

/// One connection to a port.
struct Connection {
    stream: u32,
    forwards: Arc<Mutex<Forwards>>,
    sender: Arc<Sender>,
}

impl Connection {
    async fn run(self, address: IpAddr, port: u16, queue: mpsc::Receiver<Piece>) {
        let why = match TcpStream::connect((address, port)).await {
            Ok(connection) => {
                let (reader, writer) = connection.into_split();
                // The end of what the port sends is the end: kubectl closes its side then.
                tokio::select! {
                    () = self.receive(reader) => {}
                    () = write(writer, queue) => {}
                }
                None
            }
            Err(error) => Some(format!("cannot connect to port {port} of the pod, at {address}: {error}")),
        };
        let frames = lock(&self.forwards).ended(self.stream, why.as_deref());
        let _ = send(&self.sender, &frames).await;
    }

    async fn receive(&self, mut reader: OwnedReadHalf) {
        let mut buffer = vec![0; READ_SIZE];
        while let Ok(length @ 1..) = reader.read(&mut buffer).await {
            let frames = lock(&self.forwards).data(self.stream, &buffer[..length]);
            if send(&self.sender, &frames).await.is_none() {
                return;
            }
        }
    }
}

/// Writes what the client sends; ends only with an error, since the port may answer for long after the last byte.
async fn write(mut writer: OwnedWriteHalf, mut queue: mpsc::Receiver<Piece>) {
    while let Some(piece) = queue.recv().await {
        let written = match piece {
            Some(bytes) => writer.write_all(&bytes).await,
            None => writer.shutdown().await,
        };
        if written.is_err() {
            return;
        }
    }
    std::future::pending().await
}

/// Sends frames as a message; `None`: the client is gone.
async fn send(sender: &Sender, frames: &[u8]) -> Option<()> {
    if frames.is_empty() {
        return Some(());
    }
    sender.send(&websocket::message(&[frames])).await.ok()
}
