//! One informer per kind and process: listed and watched once, parsed once, shared by all who follow.
//!
//! A follower is told everything there is, then that this was all, then every change; what vanished while the connection was
//! away is told as deleted. Objects are shared, never copied. The edge that knows types is thin: how text becomes an object.

mod feed;
mod queue;
#[cfg(test)]
mod tests;

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};

use api::{Kind, ObjectMeta};
use futures::Stream;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::client::Client;
use crate::metrics::Metrics;
use crate::object::Obj;
use feed::{Feed, Sink};
use queue::{Queue, QueuedChange};

/// An object, without its type.
type Any = Arc<dyn std::any::Any + Send + Sync>;
/// Who wants to be told of which objects.
type Filter = Box<dyn Fn(&Any) -> bool + Send + Sync>;

/// What a follower is told.
#[derive(Debug)]
pub enum WatchEvent<T> {
    /// Everything is told anew from here on.
    ListBegins,
    /// The object is new or another than before.
    Applied(Obj<T>),
    /// The object is gone.
    Deleted(Obj<T>),
    /// Everything has been told.
    Synced,
}

impl<T> WatchEvent<T> {
    /// Returns what this is to a machine that takes objects as they come; `None`: nothing.
    pub fn input<I>(
        self,
        applied: impl FnOnce(Arc<T>) -> I,
        deleted: impl FnOnce(Arc<T>) -> I,
        synced: impl FnOnce() -> Option<I>,
    ) -> Option<I> {
        match self {
            WatchEvent::ListBegins => None,
            WatchEvent::Applied(object) => Some(applied(object.view)),
            WatchEvent::Deleted(object) => Some(deleted(object.view)),
            WatchEvent::Synced => synced(),
        }
    }
}

/// What to follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Objects of this namespace; empty: of all.
    pub namespace: String,
    /// Objects that this field selector matches; empty: all.
    pub fields: String,
}

impl Scope {
    /// Returns everything in one namespace.
    pub fn namespace(namespace: &str) -> Scope {
        Scope { namespace: namespace.to_owned(), ..Scope::default() }
    }

    /// Returns the objects that a field selector matches.
    pub fn fields(fields: String) -> Scope {
        Scope { fields, ..Scope::default() }
    }
}

/// The informers of a process; clones share them.
#[derive(Clone)]
pub struct Informers(Arc<Inner>);

struct Inner {
    client: Client,
    /// Whether somebody follows everything anyway, so that a part of it is filtered here.
    whole: bool,
    /// Kinds of which the text is kept.
    with_text: BTreeSet<&'static str>,
    running: Mutex<HashMap<(TypeId, Scope), Weak<Informer>>>,
    metrics: Metrics,
    failure: watch::Sender<Option<String>>,
}

impl Informers {
    /// Returns informers that work with this client; none runs before it is followed.
    pub fn new(client: Client, metrics: Metrics) -> Informers {
        Informers(Arc::new(Inner {
            client,
            whole: false,
            with_text: BTreeSet::new(),
            running: Mutex::default(),
            metrics,
            failure: watch::Sender::new(None),
        }))
    }

    /// Returns informers for a process in which somebody follows all objects of every kind: parts of them are not watched
    /// beside that. The text of objects of kind `T` is kept.
    pub fn whole<T: Kind>(client: Client, metrics: Metrics) -> Informers {
        Informers::new(client, metrics).change(|inner| inner.whole = true).with_text::<T>()
    }

    /// Returns these informers, none of which runs yet, which keep the text of objects of kind `T`.
    pub fn with_text<T: Kind>(self) -> Informers {
        self.change(|inner| {
            inner.with_text.insert(T::KIND);
        })
    }

    fn change(mut self, change: impl FnOnce(&mut Inner)) -> Informers {
        change(Arc::get_mut(&mut self.0).expect("informers are made up before they are shared"));
        self
    }

    /// Follows all objects of a kind.
    pub fn follow<T: Kind + DeserializeOwned + Send + Sync + 'static>(&self) -> Events<T> {
        self.follow_in(Scope::default())
    }

    /// Follows the objects of a kind in a scope, as the server sees it.
    pub fn follow_in<T: Kind + DeserializeOwned + Send + Sync + 'static>(&self, scope: Scope) -> Events<T> {
        self.subscribe(scope, Box::new(|_| true))
    }

    /// Follows the objects of a kind that a field selector and `keep`, which mean the same, match.
    pub fn follow_where<T: Kind + DeserializeOwned + Send + Sync + 'static>(
        &self,
        fields: String,
        keep: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> Events<T> {
        let scope = if self.0.whole { Scope::default() } else { Scope::fields(fields) };
        self.subscribe(
            scope,
            Box::new(move |object| object.downcast_ref::<Parsed<T>>().is_some_and(|object| keep(&object.view))),
        )
    }

    fn subscribe<T: Kind + DeserializeOwned + Send + Sync + 'static>(&self, scope: Scope, keep: Filter) -> Events<T> {
        let key = (TypeId::of::<T>(), scope);
        let mut running = self.0.running.lock().expect("no code panics while it holds the informers");
        let informer = match running.get(&key).and_then(Weak::upgrade) {
            Some(informer) => informer,
            None => {
                let parse: Parse = if self.0.with_text.contains(T::KIND) { parse::<T, true> } else { parse::<T, false> };
                let path = api::write::collection::<T>(&key.1.namespace);
                let feed = Feed { client: self.0.client.clone(), kind: T::KIND, path, fields: key.1.fields.clone() };
                let informer = Arc::new(self.start(T::KIND, feed, parse));
                running.insert(key, Arc::downgrade(&informer));
                informer
            }
        };
        let queue = informer.shared.lock().expect("no code panics while it holds the objects").subscribe(keep);
        Events { queue, _informer: informer, kind: PhantomData }
    }

    fn start(&self, kind: &'static str, feed: Feed, parse: Parse) -> Informer {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let store = Store { kind, shared: Arc::clone(&shared), parse, metrics: self.0.metrics.clone(), followed: false };
        let task = tokio::spawn(feed.run(store));
        let abort = task.abort_handle();
        let failure = self.0.failure.clone();
        tokio::spawn(async move {
            if let Err(error) = task.await
                && error.is_panic()
            {
                failure.send_replace(Some(format!("the informer of {kind} ended unasked: {error}")));
            }
        });
        Informer { shared, abort }
    }

    /// Waits until an informer has died, and says which; nothing that follows it is told anything any more.
    pub async fn failed(&self) -> String {
        let mut failure = self.0.failure.subscribe();
        let why = failure.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        match why {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }
}

/// One list and watch; it ends when nobody follows.
struct Informer {
    shared: Arc<Mutex<Shared>>,
    abort: AbortHandle,
}

impl Drop for Informer {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// An object as it is kept.
struct Parsed<T> {
    view: Arc<T>,
    text: Option<Arc<str>>,
}

/// What is read of an object, without its type.
struct Item {
    key: Arc<str>,
    uid: String,
    version: String,
    object: Any,
}

type Parse = fn(&str) -> Result<Item, serde_json::Error>;

fn parse<T: Kind + DeserializeOwned + Send + Sync + 'static, const TEXT: bool>(text: &str) -> Result<Item, serde_json::Error> {
    let view: T = serde_json::from_str(text)?;
    let metadata = view.metadata();
    let (key, uid, version) = (metadata.key().into(), metadata.uid.clone(), metadata.resource_version.clone());
    let object = Arc::new(Parsed { view: Arc::new(view), text: TEXT.then(|| text.into()) });
    Ok(Item { key, uid, version, object })
}

/// An object that is there.
struct CachedObject {
    uid: String,
    object: Any,
}

#[derive(Default)]
struct Shared {
    objects: BTreeMap<Arc<str>, CachedObject>,
    /// The names of a list that is being told.
    named: Option<BTreeSet<Arc<str>>>,
    synced: bool,
    followers: Vec<Follower>,
}

struct Follower {
    queue: Arc<Mutex<Queue>>,
    keep: Filter,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().expect("no code panics while it holds a queue")
}

impl Shared {
    fn subscribe(&mut self, keep: Filter) -> Arc<Mutex<Queue>> {
        let mut queue = Queue::default();
        if self.synced || self.named.is_some() {
            queue.list_begins();
            self.objects
                .iter()
                .filter(|(_, known)| keep(&known.object))
                .for_each(|(key, known)| queue.apply(key, &known.object));
            if self.synced && self.named.is_none() {
                queue.synced();
            }
        }
        let queue = Arc::new(Mutex::new(queue));
        self.followers.push(Follower { queue: Arc::clone(&queue), keep });
        queue
    }

    fn each(&mut self, mut tell: impl FnMut(&mut Queue, &Filter)) {
        self.followers.retain(|follower| {
            let mut queue = lock(&follower.queue);
            if !queue.is_closed() {
                tell(&mut queue, &follower.keep);
            }
            !queue.is_closed()
        });
    }

    fn apply(&mut self, item: Item) {
        if let Some(named) = &mut self.named {
            named.insert(Arc::clone(&item.key));
        }
        let known = CachedObject { uid: item.uid, object: Arc::clone(&item.object) };
        let before = self.objects.insert(Arc::clone(&item.key), known);
        let replaced = before.as_ref().filter(|before| before.uid != self.objects[&item.key].uid).is_some();
        self.each(|queue, keep| {
            let kept = before.as_ref().is_some_and(|before| keep(&before.object));
            let keeps = keep(&item.object);
            if let Some(before) = before.as_ref().filter(|_| kept && (replaced || !keeps)) {
                queue.delete(&item.key, &before.object);
            }
            if keeps {
                queue.apply(&item.key, &item.object);
            }
        });
    }

    fn delete(&mut self, key: &Arc<str>, last: &Any) {
        if self.objects.remove(key).is_some() {
            self.each(|queue, keep| {
                if keep(last) {
                    queue.delete(key, last);
                }
            });
        }
    }
}

/// Keeps the objects and tells the followers.
struct Store {
    kind: &'static str,
    shared: Arc<Mutex<Shared>>,
    parse: Parse,
    metrics: Metrics,
    followed: bool,
}

impl Store {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no code panics while it holds the objects")
    }

    /// Parses an object once for all; one that cannot be read is left out, and said so.
    fn parse(&self, text: &str) -> Result<Item, Option<String>> {
        self.metrics.parsed(self.kind);
        (self.parse)(text).map_err(|error| {
            let head: Head = serde_json::from_str(text).unwrap_or_default();
            tracing::warn!(kind = self.kind, object = head.metadata.key(), %error, "an object cannot be read and is left out");
            Some(head.metadata.resource_version)
        })
    }
}

/// What can be read of any object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    metadata: ObjectMeta,
}

impl Sink for Store {
    fn list_begins(&mut self) {
        let mut shared = self.shared();
        shared.named = Some(BTreeSet::new());
        shared.each(|queue, _| queue.list_begins());
    }

    fn apply(&mut self, text: &str) -> Option<String> {
        match self.parse(text) {
            Ok(item) => {
                let version = item.version.clone();
                self.shared().apply(item);
                Some(version)
            }
            Err(version) => version,
        }
    }

    fn try_apply(&mut self, text: &str) -> Option<String> {
        let item = (self.parse)(text).ok().filter(|item| !item.version.is_empty())?;
        self.metrics.parsed(self.kind);
        let version = item.version.clone();
        self.shared().apply(item);
        Some(version)
    }

    fn delete(&mut self, text: &str) -> Option<String> {
        match self.parse(text) {
            Ok(item) => {
                self.shared().delete(&item.key, &item.object);
                Some(item.version)
            }
            Err(version) => version,
        }
    }

    fn list_ends(&mut self) {
        let mut shared = self.shared();
        let named = shared.named.take().unwrap_or_default();
        let gone: Vec<Arc<str>> = shared.objects.keys().filter(|key| !named.contains(*key)).cloned().collect();
        for key in gone {
            let last = Arc::clone(&shared.objects[&key].object);
            shared.delete(&key, &last);
        }
        shared.synced = true;
        shared.each(|queue, _| queue.synced());
    }

    fn is_over(&mut self) -> bool {
        let followed = !self.shared().followers.is_empty();
        self.followed |= followed;
        self.followed && !followed
    }
}

/// What a follower is told, for ever.
pub struct Events<T> {
    queue: Arc<Mutex<Queue>>,
    _informer: Arc<Informer>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Send + Sync + 'static> Events<T> {
    /// Returns what comes next; safe to drop and call again.
    pub async fn next(&mut self) -> WatchEvent<T> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<WatchEvent<T>> {
        let object = |object: Any| {
            let parsed = object.downcast_ref::<Parsed<T>>().expect("an informer has objects of one type");
            Obj { view: Arc::clone(&parsed.view), text: parsed.text.clone() }
        };
        lock(&self.queue).poll(context).map(|reported| match reported {
            QueuedChange::ListBegins => WatchEvent::ListBegins,
            QueuedChange::Applied(any) => WatchEvent::Applied(object(any)),
            QueuedChange::Deleted(any) => WatchEvent::Deleted(object(any)),
            QueuedChange::Synced => WatchEvent::Synced,
        })
    }
}

impl<T: Send + Sync + 'static> Stream for Events<T> {
    type Item = WatchEvent<T>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<WatchEvent<T>>> {
        self.get_mut().poll(context).map(Some)
    }
}

impl<T> Drop for Events<T> {
    fn drop(&mut self) {
        lock(&self.queue).close();
    }
}

/// Follows the objects of a kind in a scope, with an informer of its own that keeps their text: for commands and tests.
pub fn watch<T: Kind + DeserializeOwned + Send + Sync + 'static>(client: &Client, scope: Scope) -> Events<T> {
    Informers::new(client.clone(), Metrics::default()).with_text::<T>().follow_in(scope)
}
