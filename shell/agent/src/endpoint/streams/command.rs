//! `kubectl exec`: a command beside a container, whose client writes to it and reads from it.

use std::sync::Arc;

use processes::container::{Running, ShimProgram};
use processes::interactive::{End, Session, Wanted};
use streams::channels::{self, Input};
use streams::websocket;
use tokio_util::sync::CancellationToken;

use super::{READ_SIZE, Receiver, Sender, Socket, split};
use crate::endpoint::answers::decode;

/// Reads of the rest, at most: a pipe holds a mebibyte; more than that is somebody in the background who writes on.
const REST_READS_MAX: usize = 64;

/// What is asked for; the names are the kubelet's.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    command: Vec<String>,
    wanted: Wanted,
}

impl Options {
    /// Reads a query.
    pub(super) fn read(query: &str) -> Options {
        let mut options = Options::default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match (name, decode(value)) {
                ("command", word) => options.command.push(word),
                ("input", value) => options.wanted.stdin = value == "1",
                ("tty", value) => options.wanted.terminal = value == "1",
                _ => {}
            }
        }
        options
    }
}

/// Runs the command and says how it ended.
pub(super) async fn serve(socket: Socket, running: Arc<Running>, shim: ShimProgram, options: Options) {
    let (mut receiver, sender) = split(socket);
    let status = match running.converse(&options.command, options.wanted, &shim).await {
        Ok(session) => match converse(session, &mut receiver, &sender).await {
            Some(Ok(code)) => channels::ended(code),
            Some(Err(error)) => channels::failed(&error.to_string()),
            // The client is gone.
            None => return,
        },
        Err(error) => {
            let command = options.command.first().map(String::as_str).unwrap_or_default();
            channels::failed(&format!("exec {command:?}: {}", runtime::chain(&error)))
        }
    };
    let status = status.to_string();
    let _ = sender.send(&websocket::message(&[&[channels::STATUS], status.as_bytes()])).await;
    sender.close().await;
    receiver.closed().await;
}

/// Copies both ways until the command has ended; `None`: the client has gone before, and the command with it.
async fn converse(mut session: Session, receiver: &mut Receiver, sender: &Sender) -> Option<std::io::Result<i32>> {
    let ended = CancellationToken::new();
    let (stdin, stdout, stderr) = (session.stdin.take(), Arc::clone(&session.stdout), session.stderr.take());
    let mut input = std::pin::pin!(feed(receiver, stdin, Arc::clone(&stdout), sender));
    let errors = async {
        if let Some(stderr) = stderr {
            copy(&stderr, channels::STDERR, sender, &ended).await;
        }
    };
    let mut output = std::pin::pin!(async { tokio::join!(copy(&stdout, channels::STDOUT, sender, &ended), errors) });
    let mut all_read = false;
    let code = loop {
        tokio::select! {
            biased;
            code = session.wait() => break code,
            () = &mut input => {
                let _ = session.kill().await;
                return None;
            }
            _ = &mut output, if !all_read => all_read = true,
        }
    };
    ended.cancel();
    while !all_read {
        tokio::select! {
            _ = &mut output => all_read = true,
            () = &mut input => return None,
        }
    }
    Some(code)
}

/// Gives the command what the client sends; ends when the client is gone.
async fn feed(receiver: &mut Receiver, mut stdin: Option<Arc<End>>, terminal: Arc<End>, sender: &Sender) {
    while let Some(message) = receiver.message(sender).await {
        match channels::input(message) {
            Input::Stdin(bytes) => {
                // A command that has closed its standard input does not want more.
                if let Some(end) = &stdin
                    && end.write_all(&bytes).await.is_err()
                {
                    stdin = None;
                }
            }
            Input::StdinEnds => stdin = None,
            Input::Resize { width, height } => terminal.resize(width, height),
            Input::Nothing => {}
        }
    }
}

/// Sends what the command writes, until it writes no more.
async fn copy(end: &End, channel: u8, sender: &Sender, ended: &CancellationToken) {
    let mut buffer = vec![0; READ_SIZE];
    loop {
        let length = tokio::select! {
            biased;
            () = ended.cancelled() => break,
            read = end.read(&mut buffer) => read.unwrap_or(0),
        };
        if length == 0 || send(channel, &buffer[..length], sender).await.is_err() {
            return;
        }
    }
    for _ in 0..REST_READS_MAX {
        let length = end.read_now(&mut buffer);
        if length == 0 || send(channel, &buffer[..length], sender).await.is_err() {
            return;
        }
    }
}

async fn send(channel: u8, bytes: &[u8], sender: &Sender) -> std::io::Result<()> {
    sender.send(&websocket::message(&[&[channel], bytes])).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_a_kubelet() {
        let options = Options::read("command=sh&command=-c&command=echo%20a%26b&input=1&output=1&error=1&tty=1");
        assert_eq!(options.command, ["sh", "-c", "echo a&b"]);
        assert_eq!(options.wanted, Wanted { stdin: true, terminal: true });
        assert_eq!(Options::read(""), Options::default());
    }
}
