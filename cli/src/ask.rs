//! One question, one reply: GET requests to the API server, and to an agent of ours.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use futures::future::join_all;
use http_body_util::BodyExt;
use machine::Time;
use runtime::{Body, Client, Config};
use serde_json::Value;
use why::{Answer, Examined, Facts, Query, Reply, Target};

use crate::error::Failure;

/// Who has not answered by then does not.
const TIMEOUT: Duration = Duration::from_secs(15);
/// An agent is asked for more detail only: nobody waits long for it.
const AGENT_TIMEOUT: Duration = Duration::from_secs(2);
/// What an agent says of all its probes is smaller than this.
const AGENT_BYTES_MAX: usize = 32 << 20;
/// Agents that are remembered.
const AGENTS_MAX: usize = 5_000;
/// More rounds of questions than a chain has links would be a mistake of ours.
const ROUNDS_MAX: usize = 32;

/// Asks an API server.
pub(crate) struct Asker {
    client: Client,
    config: Config,
    clock: runtime::Clock,
    /// How far the clock of the API server is ahead of ours: ages are told by the clock that wrote the times.
    ahead: Mutex<Option<i64>>,
    /// A client for each agent, so that one who is asked again and again is not greeted each time.
    agents: Mutex<BTreeMap<String, Client>>,
}

impl Asker {
    pub(crate) fn new(mut config: Config) -> Result<Asker, String> {
        config.connect_timeout = TIMEOUT;
        Ok(Asker {
            client: client(config.clone())?,
            config,
            clock: crate::config::clock(),
            ahead: Mutex::new(None),
            agents: Mutex::default(),
        })
    }

    /// Returns the instant by the clock of the API server.
    pub(crate) fn now(&self) -> Time {
        let ahead = self.ahead.lock().expect("nobody panics with it").unwrap_or(0);
        Time::from_micros(self.clock.now().as_micros() + ahead)
    }

    /// Asks; `Err`: the API server cannot be reached.
    pub(crate) async fn ask(&self, query: &Query) -> Result<Reply, String> {
        let Some(path) = query.path() else { return Ok(self.ask_agent(query).await) };
        tracing::debug!(path, "asked");
        let answer = tokio::time::timeout(TIMEOUT, self.get(&self.client, &path));
        let (status, body) = match answer.await {
            Ok(answer) => answer?,
            Err(_) => return Err(format!("no answer within {TIMEOUT:?}")),
        };
        Ok(match (status, serde_json::from_slice::<Value>(&body)) {
            (200, Ok(mut value)) => match query {
                Query::List { .. } => list(&mut value),
                _ => Reply::Object(value),
            },
            (404, _) => Reply::Missing,
            (200, Err(error)) => Reply::Refused { code: 200, message: format!("the answer is not JSON: {error}") },
            (code, value) => {
                let text = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
                let message = value
                    .ok()
                    .map(|value| api::json::text(&value, &["message"]).to_owned())
                    .filter(|described| !described.is_empty());
                Reply::Refused { code, message: message.unwrap_or(text) }
            }
        })
    }

    async fn get(&self, client: &Client, path: &str) -> Result<(u16, Vec<u8>), String> {
        let request = http::Request::get(path).header(http::header::ACCEPT, "application/json").body(Body::empty());
        let request = request.map_err(|error| error.to_string())?;
        let answer = client.send(request).await.map_err(|error| runtime::chain(&error))?;
        let status = answer.status().as_u16();
        self.look_at_clock(answer.headers());
        let body = answer.into_body().collect().await.map_err(|error| runtime::chain(&error))?.to_bytes();
        Ok((status, body.to_vec()))
    }

    /// Learns the clock of the API server from its first answer, unless both agree as far as whole seconds can tell.
    fn look_at_clock(&self, headers: &http::HeaderMap) {
        let mut ahead = self.ahead.lock().expect("nobody panics with it");
        let reported = headers.get(http::header::DATE).and_then(|date| date.to_str().ok()).and_then(http_date);
        if let (None, Some(reported)) = (*ahead, reported) {
            let difference = reported.as_micros() - self.clock.now().as_micros();
            *ahead = Some(if difference.abs() > 2_000_000 { difference } else { 0 });
        }
    }

    async fn ask_agent(&self, query: &Query) -> Reply {
        let Query::Attempts { address, .. } = query else { return Reply::Missing };
        match self.agent(address, "/debug/probes").await {
            Ok(value) => Reply::Object(value),
            Err(message) => Reply::Refused { code: 0, message },
        }
    }

    /// Asks an agent of ours, as the holder of the client certificate; one at `http://` serves its own machine, and asks for none.
    pub(crate) async fn agent(&self, address: &str, path: &str) -> Result<Value, String> {
        let agent = self.agent_client(address)?;
        tracing::debug!(address, path, "asked the agent");
        match tokio::time::timeout(AGENT_TIMEOUT, self.get(&agent, path)).await {
            Ok(Ok((200, body))) if body.len() <= AGENT_BYTES_MAX => {
                serde_json::from_slice(&body).map_err(|error| error.to_string())
            }
            Ok(Ok((code, _))) => Err(format!("the agent answers {code}")),
            Ok(Err(why)) => Err(why),
            Err(_) => Err(format!("no answer within {AGENT_TIMEOUT:?}")),
        }
    }

    /// Returns a client of an agent; tokens are not shown to it.
    fn agent_client(&self, address: &str) -> Result<Client, String> {
        let mut known = self.agents.lock().expect("nobody panics with it");
        if let Some(client) = known.get(address) {
            return Ok(client.clone());
        }
        let mut config = self.config.without_tokens();
        config.tls_server_name = Some("localhost".to_owned());
        config.connect_timeout = AGENT_TIMEOUT;
        let url = if address.starts_with("http://") { address.to_owned() } else { format!("https://{address}") };
        config.cluster_url = url.parse().map_err(|_| format!("{address:?} is no address"))?;
        let client = client(config)?;
        // Agents that are gone are let go of together: there are few, and those that are left are greeted again.
        if known.len() >= AGENTS_MAX {
            known.clear();
        }
        known.insert(address.to_owned(), client.clone());
        Ok(client)
    }
}

/// Asks what the core wants to know until it has an answer; `Err`: the API cannot be reached.
pub(crate) async fn examine(asker: &Asker, target: &Target) -> Result<Result<(Answer, usize), String>, Failure> {
    let mut facts = Facts::default();
    for _ in 0..ROUNDS_MAX {
        match why::examine(asker.now(), target, &facts) {
            Examined::Answer(answer) => return Ok(Ok((*answer, facts.len()))),
            Examined::Ask(queries) => {
                let replies = join_all(queries.iter().map(|query| asker.ask(query))).await;
                for (query, reply) in queries.into_iter().zip(replies) {
                    match reply {
                        Ok(reply) => facts.insert(query, reply),
                        Err(why) => return Ok(Err(why)),
                    }
                }
            }
        }
    }
    Err(Failure::bug(format!("{}: no answer after {ROUNDS_MAX} rounds", target.short())))
}

/// Returns a client of an API.
pub(crate) fn client(config: Config) -> Result<Client, String> {
    Client::try_from(config).map_err(|error| runtime::chain(&error))
}

/// Reads a list: its items, and how many more there are.
fn list(value: &mut Value) -> Reply {
    let more = api::json::int(value, &["metadata", "remainingItemCount"]).and_then(|more| u64::try_from(more).ok());
    let continues = !api::json::text(value, &["metadata", "continue"]).is_empty();
    let items = match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    Reply::List { items, more: more.unwrap_or(u64::from(continues)) }
}

/// Reads the date of an answer: `Mon, 04 May 2026 12:00:00 GMT`.
fn http_date(text: &str) -> Option<Time> {
    let mut parts = text.split(' ').skip(1);
    let (day, month, year, clock) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| *name == month)? + 1;
    Some(api::Timestamp::parse(&format!("{year}-{month:02}-{day}T{clock}Z")).ok()?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dates_of_answers_are_read() {
        assert_eq!(http_date("Thu, 01 Jan 1970 00:01:40 GMT"), Some(Time::from_secs(100)));
        assert_eq!(http_date("yesterday"), None);
    }

    #[test]
    fn a_list_that_is_cut_says_so() {
        let read = |metadata: Value| match list(&mut json!({"metadata": metadata, "items": [{}]})) {
            Reply::List { items, more } => (items.len(), more),
            _ => (0, 0),
        };
        assert_eq!(read(json!({"continue": "x", "remainingItemCount": 7})), (1, 7));
        assert_eq!(read(json!({"continue": "x"})), (1, 1));
        assert_eq!(read(json!({})), (1, 0));
    }
}
