//! The consumer rule: which endpoints of a Service may get traffic. One rule for the proxy and every other consumer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::endpointslice::{Endpoint, EndpointHints, EndpointSlice};
use api::ip;

/// Whether endpoints on other nodes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Every endpoint.
    Cluster,
    /// Only those on the consumer's node.
    Local,
}

/// How an absent condition `serving` reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NilServing {
    /// As true: the current API.
    #[default]
    True,
    /// As `ready`: the wording of KEP-1672.
    Ready,
}

/// What a consumer can choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether topology hints are honoured.
    pub use_hints: bool,
    /// How an absent condition `serving` reads.
    pub nil_serving: NilServing,
}

/// Why the addresses of a [`Usable`] may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are ready.
    Ready,
    /// None is ready; these are on their way out but still serve.
    ServingTerminating,
    /// There are none.
    #[default]
    None,
}

impl Mode {
    /// Returns the word that vectors and output use.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Ready => "ready",
            Mode::ServingTerminating => "serving-terminating",
            Mode::None => "none",
        }
    }
}

/// The endpoints that may get traffic.
#[derive(Debug)]
pub struct UsableEndpoints<'a> {
    /// Why.
    pub mode: Mode,
    /// Each with the first slice that has its address, in order of first appearance (slices by name, then position).
    pub endpoints: Vec<(Address<'a>, &'a EndpointSlice)>,
}

/// The addresses that may get traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usable {
    /// Why.
    pub mode: Mode,
    /// The addresses in canonical form, in order of first appearance (slices by name, then position).
    pub addresses: Vec<String>,
}

/// The address of an endpoint: two texts of one IP address are the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address<'a> {
    /// An IP address.
    Ip(IpAddr),
    /// A name, or whatever else a slice says.
    Text(&'a str),
}

impl Address<'_> {
    fn of(text: &str) -> Address<'_> {
        ip::parse(text).map_or(Address::Text(text), Address::Ip)
    }

    /// Returns the address in canonical form.
    pub fn text(&self) -> String {
        match self {
            Address::Ip(ip) => ip.to_string(),
            Address::Text(text) => (*text).to_owned(),
        }
    }
}

struct Entry<'a> {
    address: Address<'a>,
    endpoint: &'a Endpoint,
    /// The first slice that has the address.
    slice: &'a EndpointSlice,
    revision: Option<u64>,
    ready: bool,
    serving: bool,
    terminating: bool,
}

impl<'a> Entry<'a> {
    fn new(endpoint: &'a Endpoint, slice: &'a EndpointSlice, revision: Option<u64>, options: Options) -> Option<Entry<'a>> {
        let address = endpoint.addresses.first()?;
        let conditions = &endpoint.conditions;
        let nil_serving = match options.nil_serving {
            NilServing::True => true,
            NilServing::Ready => conditions.is_ready(),
        };
        Some(Entry {
            address: Address::of(address),
            endpoint,
            slice,
            revision,
            ready: conditions.is_ready(),
            serving: conditions.serving.unwrap_or(nil_serving),
            terminating: conditions.is_terminating(),
        })
    }

    /// Returns whether this copy of an address is to be believed rather than an earlier one.
    fn beats(&self, winner: &Entry<'_>) -> bool {
        if self.terminating != winner.terminating {
            return winner.terminating;
        }
        match (self.revision, winner.revision) {
            (Some(mine), Some(theirs)) if mine != theirs => mine > theirs,
            _ if self.ready != winner.ready => self.ready,
            _ => self.serving && !winner.serving,
        }
    }
}

/// Returns which endpoints of a Service and port may get traffic from a consumer on this node, in this zone.
///
/// `slices` are those of the Service that have the port, in any order.
pub fn usable_endpoints<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    policy: Policy,
    node: &str,
    zone: &str,
    options: Options,
) -> Usable {
    let UsableEndpoints { mode, endpoints } = choose(slices, policy, node, zone, options);
    Usable { mode, addresses: endpoints.iter().map(|(address, _)| address.text()).collect() }
}

/// Returns the same endpoints with the slices that tell their ports.
pub fn choose<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    policy: Policy,
    node: &str,
    zone: &str,
    options: Options,
) -> UsableEndpoints<'a> {
    let mut entries = joined(slices, options);
    if policy == Policy::Local {
        entries.retain(|entry| !node.is_empty() && entry.endpoint.node_name.as_deref() == Some(node));
    }
    let select = |mode, chosen: &dyn Fn(&Entry<'_>) -> bool| {
        let chosen = entries.iter().filter(|entry| chosen(entry));
        let endpoints: Vec<_> = chosen.map(|entry| (entry.address, entry.slice)).collect();
        (!endpoints.is_empty()).then_some(UsableEndpoints { mode, endpoints })
    };
    let preferred = if options.use_hints && policy == Policy::Cluster { preferred(&entries, node, zone) } else { Prefer::All };
    select(Mode::Ready, &|entry| entry.ready && preferred.takes(entry.endpoint, node, zone))
        .or_else(|| select(Mode::ServingTerminating, &|entry| entry.serving && entry.terminating))
        .unwrap_or(UsableEndpoints { mode: Mode::None, endpoints: Vec::new() })
}

/// Joins slices: one entry for each address, in order of first appearance.
fn joined<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>, options: Options) -> Vec<Entry<'a>> {
    let mut slices: Vec<&EndpointSlice> = slices.into_iter().collect();
    slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let mut entries: Vec<Entry<'a>> = Vec::new();
    let mut places: BTreeMap<Address<'a>, usize> = BTreeMap::new();
    for slice in slices {
        let revision = slice.metadata.resource_version.parse().ok();
        for entry in slice.endpoints.iter().filter_map(|endpoint| Entry::new(endpoint, slice, revision, options)) {
            match places.get(&entry.address) {
                Some(&place) if entry.beats(&entries[place]) => {
                    entries[place] = Entry { slice: entries[place].slice, ..entry };
                }
                Some(_) => {}
                None => {
                    places.insert(entry.address, entries.len());
                    entries.push(entry);
                }
            }
        }
    }
    entries
}

/// Which hints decide.
enum Prefer {
    All,
    Node,
    Zone,
}

impl Prefer {
    fn takes(&self, endpoint: &Endpoint, node: &str, zone: &str) -> bool {
        match self {
            Prefer::All => true,
            Prefer::Node => hints(endpoint).for_nodes.iter().any(|hint| hint.name == node),
            Prefer::Zone => hints(endpoint).for_zones.iter().any(|hint| hint.name == zone),
        }
    }
}

fn hints(endpoint: &Endpoint) -> &EndpointHints {
    const NONE: &EndpointHints = &EndpointHints { for_zones: Vec::new(), for_nodes: Vec::new() };
    endpoint.hints.as_ref().unwrap_or(NONE)
}

/// Hints count only if every ready endpoint has them and at least one is for this consumer.
fn preferred(entries: &[Entry<'_>], node: &str, zone: &str) -> Prefer {
    let ready: Vec<&Endpoint> = entries.iter().filter(|entry| entry.ready).map(|entry| entry.endpoint).collect();
    let decides = |prefer: &Prefer, hinted: &dyn Fn(&Endpoint) -> bool| {
        ready.iter().all(|endpoint| hinted(endpoint)) && ready.iter().any(|endpoint| prefer.takes(endpoint, node, zone))
    };
    if decides(&Prefer::Node, &|endpoint| !hints(endpoint).for_nodes.is_empty()) {
        Prefer::Node
    } else if decides(&Prefer::Zone, &|endpoint| !hints(endpoint).for_zones.is_empty()) {
        Prefer::Zone
    } else {
        Prefer::All
    }
}

/// Returns the number of a named port of a slice. A slice without the port must be skipped: its endpoints do not have it.
pub fn port_number(slice: &EndpointSlice, name: &str, protocol: &str) -> Option<i64> {
    let is_it = |port: &&api::endpointslice::EndpointPort| {
        port.name == name && crate::pod::protocol_or_tcp(&port.protocol) == crate::pod::protocol_or_tcp(protocol)
    };
    slice.ports.iter().find(is_it).and_then(|port| port.port)
}
