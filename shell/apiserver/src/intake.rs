//! Reading the body of a request: charged as it arrives, for a bounded time, and never more than may be.

use std::pin::pin;
use std::time::Duration;

use api::status::Status;
use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;

use crate::load::Permit;

/// The largest body that is read.
pub(crate) const BODY_MAX: usize = 3 << 20;
/// A body that has not arrived in this time is given up: it holds bytes that others could use.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How much of a body that is refused is still taken, and for how long: a client that only writes would never see why.
const REFUSED_MAX: usize = 32 << 20;
const REFUSED_TIMEOUT: Duration = Duration::from_secs(5);

/// What room for a body begins with.
const ROOM_MIN: usize = 16 << 10;

/// Reads a body; the permit is charged for the room that it takes.
pub(crate) async fn read<B>(body: B, headers: &HeaderMap, permit: &mut Permit) -> Result<Bytes, Status>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = pin!(body.map_err(Into::<Box<dyn std::error::Error + Send + Sync>>::into));
    let deadline = Instant::now() + BODY_TIMEOUT;
    let claimed = headers.get(http::header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let mut read = Vec::new();
    loop {
        let Ok(frame) = tokio::time::timeout_at(deadline, body.frame()).await else {
            return Err(Status::timeout(format!("the body did not arrive within {} seconds", BODY_TIMEOUT.as_secs())));
        };
        let frame = match frame {
            None => return Ok(read.into()),
            Some(Err(error)) => return Err(Status::bad_request(format!("the body cannot be read: {error}"))),
            Some(Ok(frame)) => frame,
        };
        let Ok(data) = frame.into_data() else { continue };
        // A body that came whole, as those of this process do, is taken as it is.
        if read.is_empty()
            && body.is_end_stream()
            && data.len() <= BODY_MAX
            && claimed.is_none_or(|claimed| claimed <= BODY_MAX)
        {
            permit.charge(data.len())?;
            return Ok(data);
        }
        let refusal = if read.len() + data.len() > BODY_MAX || claimed.is_some_and(|claimed| claimed > BODY_MAX) {
            Some(Status::too_large(format!("Request entity too large: limit is {BODY_MAX}")))
        } else {
            make_room(&mut read, data.len(), claimed.unwrap_or(BODY_MAX), permit).err()
        };
        match refusal {
            None => read.extend_from_slice(&data),
            Some(status) => {
                drop(read);
                take_the_rest(body.as_mut()).await;
                return Err(status);
            }
        }
    }
}

/// Makes room for `more` bytes. Room doubles, as it does for any vector, but not past what the client has announced, and
/// not before it has been charged: a body in its last third must not hold twice what it was let in with.
fn make_room(read: &mut Vec<u8>, more: usize, expected: usize, permit: &mut Permit) -> Result<(), Status> {
    let needed = read.len() + more;
    if needed > read.capacity() {
        let room = needed.max((2 * read.capacity()).max(ROOM_MIN).min(expected));
        permit.charge(room - read.capacity())?;
        read.reserve_exact(room - read.len());
    }
    Ok(())
}

/// Takes what a client still sends, keeping nothing of it.
async fn take_the_rest<B: Body<Data = Bytes>>(mut body: std::pin::Pin<&mut B>) {
    let mut taken = 0;
    let rest = async {
        while taken < REFUSED_MAX
            && let Some(Ok(frame)) = body.frame().await
        {
            taken += frame.data_ref().map_or(0, Bytes::len);
        }
    };
    // Whether it ends or not, the answer is the same.
    let _ = tokio::time::timeout(REFUSED_TIMEOUT, rest).await;
}

/// Returns whether a request with this method has a body that means something.
pub(crate) fn has_body(method: &http::Method) -> bool {
    matches!(*method, http::Method::POST | http::Method::PUT | http::Method::PATCH | http::Method::DELETE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Load;
    use futures::StreamExt;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use std::convert::Infallible;

    async fn send(chunks: usize, pause: Duration) -> Result<usize, u16> {
        let stream = futures::stream::iter(0..chunks).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; 64 << 10])))
        });
        let mut permit = Load::default().enter("a", false).unwrap();
        let read = read(StreamBody::new(stream), &HeaderMap::new(), &mut permit).await;
        read.map(|bytes| bytes.len()).map_err(|status| status.code)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_arrives_in_time_or_is_given_up() {
        assert_eq!(send(40, Duration::from_millis(10)).await, Ok(40 * (64 << 10)));
        let started = Instant::now();
        assert_eq!(send(40, Duration::from_secs(1)).await, Err(408));
        assert_eq!(started.elapsed(), BODY_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_too_large_is_taken_for_a_while_and_refused() {
        assert_eq!(send(60, Duration::from_millis(1)).await, Err(413));
        let started = Instant::now();
        assert_eq!(send(1_000_000, Duration::from_millis(1)).await, Err(413));
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
}
