//! Watches as tests read them: one JSON value per line, and how the stream ended.

use futures::StreamExt;
use http_body_util::{BodyDataStream, Full};
use hyper::body::Incoming;
use serde_json::Value;
use testkit::client::Client;

/// An open watch.
pub(crate) struct Watch {
    body: BodyDataStream<Incoming>,
    text: Vec<u8>,
    /// The bytes that came.
    pub(crate) received: usize,
}

/// What came next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Event(Value),
    /// The server ended the stream as a stream should end.
    End,
    /// The connection broke.
    Broken(String),
}

impl Watch {
    /// Opens a watch; the answer must be 200.
    pub(crate) async fn open(client: &Client, path: &str) -> Watch {
        Watch::try_open(client, path).await.unwrap_or_else(|code| panic!("{path}: {code}"))
    }

    /// Opens a watch, or returns the code of the refusal.
    pub(crate) async fn try_open(client: &Client, path: &str) -> Result<Watch, u16> {
        let answer = client.send(http::Request::get(path).body(Full::default()).unwrap()).await.unwrap();
        match answer.status().as_u16() {
            200 => Ok(Watch { body: BodyDataStream::new(answer.into_body()), text: Vec::new(), received: 0 }),
            code => Err(code),
        }
    }

    pub(crate) async fn next(&mut self) -> Next {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Next::Event(serde_json::from_slice(&line).expect("a line is JSON"));
            }
            match self.body.next().await {
                Some(Ok(chunk)) => {
                    self.received += chunk.len();
                    self.text.extend_from_slice(&chunk);
                }
                Some(Err(error)) => return Next::Broken(format!("{error:?}")),
                None if self.text.is_empty() => return Next::End,
                None => return Next::Broken("the last line is cut off".to_owned()),
            }
        }
    }

    /// Returns type and name of the next event.
    pub(crate) async fn event(&mut self) -> (String, String) {
        match self.next().await {
            Next::Event(event) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
            }
            other => panic!("expected an event, got {other:?}"),
        }
    }
}
