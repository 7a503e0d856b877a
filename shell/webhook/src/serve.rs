//! Serving reviews over TLS: HTTP/1.1 and HTTP/2 on one port.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{Metrics, PATH, Shown};

/// A client that does not finish its TLS handshake in this time is let go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// A client that does not send its request in this time is let go; API servers wait no longer than three seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Open requests finish within this time when the server stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// API servers keep a few connections each; more than this is a mistake or an attack.
const CONNECTIONS_MAX: usize = 256;
/// Reviews that one connection may have open at once.
const STREAMS_MAX: u32 = 250;
/// The largest review: an object and the one before it, of 1.5 MiB each in etcd, as JSON with everything around them.
const BODY_MAX: usize = 8 << 20;

/// Returns the TLS settings of the webhook.
fn tls(shown: Arc<Shown>) -> Arc<rustls::ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions")
        .with_no_client_auth()
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Serves until told to stop, then lets open requests finish.
pub async fn serve(listener: TcpListener, shown: Arc<Shown>, metrics: Metrics, stop: CancellationToken) {
    let acceptor = TlsAcceptor::from(tls(shown));
    let (tasks, places) = (TaskTracker::new(), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    loop {
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = Arc::clone(&places).acquire_owned() => place.expect("the semaphore is never closed"),
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let serving = connection(acceptor.clone(), stream, metrics.clone(), stop.clone());
                tasks.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Err(error) => {
                // Out of file descriptors, most likely: waiting a moment is all that helps.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
    tasks.close();
    if tokio::time::timeout(DRAIN_TIMEOUT, tasks.wait()).await.is_err() {
        tracing::warn!(open = tasks.len(), "connections were still open after the time to drain");
    }
}

async fn connection(acceptor: TlsAcceptor, stream: TcpStream, metrics: Metrics, stop: CancellationToken) {
    // Small answers must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let metrics = metrics.clone();
        async move { Ok::<_, Infallible>(answer(request, &metrics).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(READ_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Duration::from_secs(30)).max_concurrent_streams(STREAMS_MAX);
    let served = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stop.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Answers a request; what is no review at all gets an HTTP error, which the API server takes as a webhook that fails.
async fn answer<B: Body<Error: std::error::Error + Send + Sync + 'static>>(
    request: Request<B>,
    metrics: &Metrics,
) -> Response<Full<Bytes>> {
    if request.uri().path() != PATH {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    }
    if request.method() != Method::POST {
        return text(StatusCode::METHOD_NOT_ALLOWED, "reviews are posted\n");
    }
    let body = Limited::new(request.into_body(), BODY_MAX).collect();
    let body = match tokio::time::timeout(READ_TIMEOUT, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return text(StatusCode::PAYLOAD_TOO_LARGE, "the review is larger than 8 MiB\n");
        }
        Ok(Err(_)) => return text(StatusCode::BAD_REQUEST, "the request broke off\n"),
        Err(_) => return text(StatusCode::REQUEST_TIMEOUT, "the request took too long\n"),
    };
    let began = Instant::now();
    let answer = admission::review(&body);
    let body = answer.review.to_string();
    metrics.answered(answer.judged, answer.outcome, began.elapsed());
    let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    response.body(Full::new(body.into())).expect("these headers are valid")
}

fn text(code: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let response = Response::builder().status(code).header(header::CONTENT_TYPE, "text/plain; charset=utf-8");
    response.body(Full::new(text.into())).expect("these headers are valid")
}
