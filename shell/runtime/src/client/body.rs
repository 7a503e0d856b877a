//! Bodies of requests and answers: bytes that are there, what comes over the network, or the stream of a service in process.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};

use super::ClientError;
use super::connection::Returning;

/// A body.
pub struct Body(Kind);

enum Kind {
    Whole(Full<Bytes>),
    /// With the connection that it comes over, where that carries one answer at a time.
    Network(Incoming, Option<Returning>),
    Stream(UnsyncBoxBody<Bytes, ClientError>),
}

impl Body {
    /// Returns a body without anything.
    pub fn empty() -> Body {
        Body(Kind::Whole(Full::default()))
    }

    /// Returns what a service in process answers with.
    pub(super) fn of_service<B>(body: B) -> Body
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        Body(Kind::Stream(body.map_err(|error| ClientError::Service(error.into())).boxed_unsync()))
    }

    /// Returns what comes over the network; a connection that carries one answer at a time is given back at its end.
    pub(super) fn of_network(body: Incoming, mut connection: Option<Returning>) -> Body {
        if body.is_end_stream() {
            connection.take().into_iter().for_each(Returning::give_back);
        }
        Body(Kind::Network(body, connection))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Body(Kind::Whole(Full::from(bytes)))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = ClientError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientError>>> {
        match &mut self.0 {
            Kind::Whole(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
            Kind::Stream(body) => Pin::new(body).poll_frame(context),
            Kind::Network(body, connection) => {
                let frame = std::task::ready!(Pin::new(&mut *body).poll_frame(context));
                match &frame {
                    // A connection on which an answer broke is of no use to anybody.
                    Some(Err(_)) => drop(connection.take()),
                    Some(Ok(_)) if !body.is_end_stream() => {}
                    _ => connection.take().into_iter().for_each(Returning::give_back),
                }
                Poll::Ready(frame.map(|frame| frame.map_err(ClientError::Broken)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(body) => body.is_end_stream(),
            Kind::Network(body, _) => body.is_end_stream(),
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(body) => body.size_hint(),
            Kind::Network(body, _) => body.size_hint(),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}
