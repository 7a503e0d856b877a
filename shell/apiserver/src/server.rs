//! The server: takes requests, finds out who asks for what, and lets the handlers answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::task::{Context, Poll};
use std::time::Instant;

use api::FeatureGates;
use api::status::Status;
use bytes::Bytes;
use http::header::{ACCEPT, HeaderName};
use http::{Method, Request, StatusCode};
use hyper::upgrade::OnUpgrade;
use machine::Rng;
use registry::authz::{self, Identity};
use registry::query::Parameters;
use registry::tokens::{self, ISSUER, Known};
use runtime::Clock;

use crate::auth::{self, PeerIdentity, Tokens};
use crate::catalog::Catalog;
use crate::connections::Visitor;
use crate::handlers;
use crate::hub::Hub;
use crate::intake;
use crate::load::Load;
use crate::metrics::{Metrics, RequestLabels};
use crate::negotiate::{self, Encoding, Form};
use crate::pool::Pool;
use crate::reply::{self, Kept, Reply};
use crate::request::{self, Discovery, Route, Target};
use crate::settings::Settings;
use crate::signer::Signer;
use crate::store::{Store, StoreError};
use crate::streams::Streams;

/// The most open watches of one identity.
const WATCHES_OF_ONE_MAX: usize = 1_000;
/// The most logs that are sent to one identity at once: each has a connection to an agent.
const LOGS_OF_ONE_MAX: usize = 100;
/// The most streams into pods that one identity has at once.
const TUNNELS_OF_ONE_MAX: usize = 100;
/// How many times its bytes the body of a request is charged: it is decoded, changed and judged as well.
const BODY_FACTOR: usize = 4;

/// An API server; clones are the same server.
#[derive(Clone)]
pub struct Server(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) hub: Hub,
    pub(crate) clock: Clock,
    pub(crate) gates: FeatureGates,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) documents: handlers::documents::Documents,
    pub(crate) watches: Streams,
    /// What watchers are told of the latest changes.
    pub(crate) lines: handlers::watch::lines::Lines,
    pub(crate) log_streams: Streams,
    pub(crate) tunnels: Streams,
    pub(crate) logs: Option<crate::logs::AgentDialer>,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) signer: Signer,
    catalog: RwLock<Arc<Catalog>>,
    rng: Mutex<Rng>,
    load: Load,
    pool: Pool,
    /// Whether the server's own controllers have seen everything once.
    pub(crate) synced: AtomicBool,
    pub(crate) stopping: AtomicBool,
}

/// A request that was read and understood as far as its path goes.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) parameters: Parameters,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) identity: Identity,
    pub(crate) encoding: Encoding,
    pub(crate) form: Form,
    /// The connection, if the client wants to speak something else over it.
    pub(crate) upgrade: Option<OnUpgrade>,
}

impl Call {
    pub(crate) fn header(&self, name: HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// What a server is made of.
pub struct Parts {
    /// The clock.
    pub clock: Clock,
    /// The gates.
    pub gates: FeatureGates,
    /// Where objects go.
    pub store: Box<dyn Store>,
    /// Whether commits happen in a thread of their own; not for stores without a disk.
    pub threaded: bool,
    /// A seed for names and uids; take it from the operating system.
    pub seed: u64,
    /// The settings that can change while the server runs.
    pub settings: Settings,
    /// Where bearer tokens are listed.
    pub token_file: Option<std::path::PathBuf>,
    /// What signs the tokens of service accounts.
    pub signer: Signer,
    /// How to reach the agents for logs.
    pub logs: Option<crate::logs::AgentDialer>,
}

impl Server {
    /// Opens the store and returns the server; call [`Server::start`] to run its own controllers.
    pub fn new(parts: Parts) -> Result<Server, StoreError> {
        let metrics = Arc::new(Metrics::new());
        let open = if parts.threaded { Hub::threaded } else { Hub::inline };
        let hub = open(parts.store, parts.clock.clone(), Arc::clone(&metrics))?;
        let snapshot = hub.snapshot();
        Ok(Server(Arc::new(Inner {
            catalog: RwLock::new(Arc::new(Catalog::new(&snapshot, 0))),
            hub,
            clock: parts.clock,
            gates: parts.gates,
            settings: parts.settings,
            metrics,
            documents: handlers::documents::Documents::default(),
            watches: Streams::new("watches", WATCHES_OF_ONE_MAX),
            lines: handlers::watch::lines::Lines::default(),
            log_streams: Streams::new("logs", LOGS_OF_ONE_MAX),
            tunnels: Streams::new("streams into pods", TUNNELS_OF_ONE_MAX),
            logs: parts.logs,
            tokens: parts.token_file.map(Tokens::new),
            signer: parts.signer,
            rng: Mutex::new(Rng::new(parts.seed)),
            load: Load::default(),
            pool: Pool::default(),
            synced: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        })))
    }

    /// Returns a service that answers in process, as one identity: no port, no TLS.
    pub fn service(&self, identity: Identity) -> InProcess {
        InProcess { server: self.clone(), identity }
    }

    /// Returns an independent source of randomness.
    pub(crate) fn rng(&self) -> Rng {
        self.0.rng.lock().expect("no code panics while it holds the generator").fork()
    }

    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.0.catalog.read().expect("no code panics while it holds the catalog"))
    }

    /// Reads the CustomResourceDefinitions again.
    pub(crate) fn refresh_catalog(&self) {
        let mut catalog = self.0.catalog.write().expect("no code panics while it holds the catalog");
        let generation = catalog.generation + 1;
        *catalog = Arc::new(Catalog::new(&self.0.hub.snapshot(), generation));
    }

    /// Waits until the disk fails, and returns why.
    pub async fn failure(&self) -> String {
        self.0.hub.failure().await
    }

    /// Begins to stop: not ready any more, every watch ends.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
        self.0.hub.end_watches();
    }

    /// Answers one request.
    pub async fn handle<B>(&self, request: Request<B>) -> Reply
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let audit_id = parts.headers.get("audit-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
        let parameters = Parameters::parse(parts.uri.query().unwrap_or_default());
        let route = request::route(parts.uri.path());
        let mut labels = self.labels(&route, &parts.method, &parameters);
        let answer = match self.admit(&parts, &route) {
            Err(status) => Err(status),
            // Anybody may ask these: they are answered without a look at the body, and however much is in flight.
            Ok(_) if route == Route::Version => Ok(handlers::documents::version()),
            Ok(_) if matches!(route, Route::Health(..)) => Ok(handlers::health::health(self, &route, &parameters)),
            Ok(identity) => self.answer(parts, parameters, body, identity, route).await,
        };
        let mut answer = answer.unwrap_or_else(|status| reply::error(&status));
        let audit_id = audit_id.unwrap_or_else(|| registry::meta::uuid(&mut self.rng()));
        if let Ok(value) = http::HeaderValue::from_str(&audit_id) {
            answer.headers_mut().insert(HeaderName::from_static("audit-id"), value);
        }
        labels.code = answer.status().as_u16().to_string();
        let bytes = http_body::Body::size_hint(answer.body()).exact().unwrap_or(0);
        self.0.metrics.request(labels, started.elapsed(), bytes);
        answer
    }

    /// Finds out who asks, and whether anybody may.
    fn admit(&self, parts: &http::request::Parts, route: &Route) -> Result<Identity, Status> {
        let open = matches!(route, Route::Version | Route::Health(..));
        let by_token = |token: &str| Some(self.known_by(token, &[ISSUER])?.identity);
        let identity = auth::authenticate(parts.extensions.get::<PeerIdentity>(), &parts.headers, by_token)?;
        let identity = match identity {
            Some(identity) => identity,
            None if open => Identity { user: "system:anonymous".into(), ..Identity::default() },
            None => return Err(Status::unauthorized()),
        };
        if !open && let Some(visitor) = parts.extensions.get::<Visitor>() {
            visitor.make_known();
        }
        auth::impersonate(identity, &parts.headers)
    }

    /// Returns who a bearer token stands for, to one of the audiences; those of the file are for this server.
    pub(crate) fn known_by(&self, token: &str, audiences: &[&str]) -> Option<Known> {
        if let Some(identity) = self.0.tokens.as_ref().and_then(|tokens| tokens.identity(token)) {
            return Some(Known { identity, audiences: tokens::common_audiences(audiences, [ISSUER])? });
        }
        tokens::identity(&self.0.signer.verify(token)?, &self.0.hub.snapshot(), self.0.clock.now(), audiences)
    }

    /// Returns what a request is counted as. Only what is served has a name here: paths are the client's to invent, and the
    /// series of a metric are kept for ever.
    fn labels(&self, route: &Route, method: &Method, parameters: &Parameters) -> RequestLabels {
        let other = || RequestLabels { verb: method_label(method).to_owned(), ..RequestLabels::default() };
        let Route::Resource(target) = route else { return other() };
        let catalog = self.catalog();
        let Some(kind) = catalog.find(&target.group, &target.version, &target.resource) else { return other() };
        let subresource = kind.resource.subresource(&target.subresource).map_or("", |known| known.name.as_str());
        RequestLabels {
            verb: request::verb(method, target, parameters).unwrap_or("other").to_owned(),
            group: target.group.clone(),
            version: target.version.clone(),
            resource: target.resource.clone(),
            subresource: subresource.to_owned(),
            scope: scope(target).to_owned(),
            code: String::new(),
        }
    }

    async fn answer<B>(
        &self,
        parts: http::request::Parts,
        parameters: Parameters,
        body: B,
        identity: Identity,
        route: Route,
    ) -> Result<Reply, Status>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut permit = self.0.load.enter(&identity.user, parts.extensions.get::<OwnProcess>().is_some())?;
        let discovery = matches!(route, Route::Discovery(Discovery::Core | Discovery::Groups));
        let accept = parts.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let free_form = matches!(route, Route::Metrics | Route::Backup | Route::OpenApi(_) | Route::OpenApiV2)
            || matches!(&route, Route::Resource(target) if is_stream(&target.subresource));
        let (encoding, form) = if free_form { (Encoding::Json, Form::Whole) } else { negotiate::negotiate(accept, discovery)? };
        let upgrade = parts.extensions.get::<OnUpgrade>().cloned();
        let mut call = Call {
            method: parts.method,
            parameters,
            headers: parts.headers,
            body: Bytes::new(),
            identity,
            encoding,
            form,
            upgrade,
        };
        let (server, method) = (self.clone(), call.method.clone());
        let mut reply = match route {
            Route::Resource(target) => {
                let asked = handlers::admit(self, &target, &call)?;
                if intake::has_body(&call.method) {
                    call.body = intake::read(body, &call.headers, &mut permit).await?;
                    permit.charge(call.body.len() * (BODY_FACTOR - 1))?;
                }
                let (size, written) = (asked.size(self, &target, &call), call.body.len());
                let work = async move { handlers::resource(&server, &asked, &target, &call).await };
                self.0.pool.run(size, written, work).await?
            }
            route => {
                let verb = call.method.as_str().to_ascii_lowercase();
                authz::authorize_path(&call.identity, &verb, parts.uri.path())?;
                self.0.pool.run(usize::MAX, 0, async move { server.document(&route, &call) }).await?
            }
        };
        let kept = reply.extensions_mut().remove::<Kept>();
        if kept == Some(Kept::LongRunning) {
            return Ok(reply);
        }
        permit.settle();
        if kept != Some(Kept::Shared) {
            let bytes = http_body::Body::size_hint(reply.body()).lower();
            let charged = permit.charge(usize::try_from(bytes).unwrap_or(usize::MAX));
            // What was written was written, and the client must hear of it.
            if matches!(method, Method::GET | Method::HEAD) {
                charged?;
            }
        }
        Ok(reply.map(|body| permit.hold(body)))
    }

    /// Answers with a document about the server.
    fn document(&self, route: &Route, call: &Call) -> Result<Reply, Status> {
        match route {
            Route::Metrics => Ok(handlers::health::metrics(self)),
            Route::Backup => Ok(handlers::documents::backup(self)),
            Route::Configz => Ok(handlers::documents::configz(self)),
            Route::Discovery(what) => handlers::documents::discovery(self, what, call),
            Route::OpenApi(rest) => handlers::documents::openapi(self, rest, call),
            Route::OpenApiV2 => Ok(handlers::documents::openapi_v2(self, call)),
            _ => Ok(reply::text(StatusCode::NOT_FOUND, "404 page not found\n")),
        }
    }
}

/// Returns whether a subresource answers with bytes of its own and not with an object.
fn is_stream(subresource: &str) -> bool {
    matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

fn scope(target: &Target) -> &'static str {
    match (target.name.is_empty(), target.namespace.is_empty()) {
        (false, _) => "resource",
        (true, false) => "namespace",
        (true, true) => "cluster",
    }
}

/// Marks a request of a part of this process.
#[derive(Clone, Copy)]
struct OwnProcess;

/// A server that answers in process, as one identity.
#[derive(Clone)]
pub struct InProcess {
    server: Server,
    identity: Identity,
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Reply;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let server = self.server.clone();
        request.extensions_mut().insert(OwnProcess);
        // A request for another identity (an Authorization header) is judged like any other.
        if !request.headers().contains_key(http::header::AUTHORIZATION) {
            request.extensions_mut().insert(PeerIdentity(self.identity.clone()));
        }
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}
