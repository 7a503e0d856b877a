//! Cluster IPs and node ports: each has one Service, decided where writes are put in order.
//!
//! The state keeps who holds what. A write that still wants an address or ports gets free ones in the commit itself, and one
//! that names something that another Service holds is refused there: two writes at once cannot get the same. [`validate`] says
//! the same before the commit, in the words of Kubernetes.
//!
//! What a Service has already is never judged again: a range that was changed since does not make it invalid.

use std::net::Ipv4Addr;

use api::field::{Error, Path};
use api::json;
use imbl::OrdMap;
use serde_json::Value;

use crate::state::{Key, Refused};
use kinds::builtin::service::{NODE_PORTS, assign_service, cluster_ip, ports_without_node_port, wants_cluster_ip};

/// What the keys of Services begin with.
pub(crate) const KEYS: &str = "//services/";

/// The range of cluster IPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    network: u32,
    prefix: u8,
}

impl Range {
    /// Returns the range of a network and the length of its prefix.
    pub fn new(network: Ipv4Addr, prefix: u8) -> Range {
        let prefix = prefix.min(32);
        Range { network: u32::from(network) & u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0), prefix }
    }

    /// Returns the addresses that a Service can have: the first one names the network, the last one is for broadcasts.
    fn addresses(self) -> std::ops::Range<u32> {
        let last = self.network | u32::MAX.checked_shr(u32::from(self.prefix)).unwrap_or(0);
        self.network.saturating_add(1)..last
    }

    /// Returns the first address that a Service can have: the API server's own, by custom.
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.addresses().start)
    }

    fn contains(self, address: Ipv4Addr) -> bool {
        self.addresses().contains(&u32::from(address))
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", Ipv4Addr::from(self.network), self.prefix)
    }
}

/// Something that one Service has, and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Claim {
    Address(Ipv4Addr),
    Port(i64),
}

/// Returns what a Service holds, and where it says so.
fn claims(service: &Value) -> Vec<(Claim, Path)> {
    let spec = Path::new("spec");
    let mut held = Vec::new();
    if let Some(address) = cluster_ip(service).and_then(|address| address.parse().ok()) {
        held.push((Claim::Address(address), spec.child("clusterIPs")));
    }
    for (index, port) in json::items(service, &["spec", "ports"]).iter().enumerate() {
        let path = || spec.child("ports").index(index).child("nodePort");
        held.extend(json::int(port, &["nodePort"]).filter(|port| *port != 0).map(|port| (Claim::Port(port), path())));
    }
    let health = json::int(service, &["spec", "healthCheckNodePort"]).filter(|port| *port != 0);
    held.extend(health.map(|port| (Claim::Port(port), spec.child("healthCheckNodePort"))));
    held
}

/// Who holds which cluster IP and node port. A clone is a pointer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(OrdMap<Claim, Key>);

impl Claims {
    /// Returns who holds what, of all objects.
    pub(crate) fn of<'a>(objects: impl Iterator<Item = (&'a Key, Value)>) -> Claims {
        let mut all = Claims::default();
        for (key, service) in objects {
            all.take(key, &service);
        }
        all
    }

    fn is_taken(&self, claim: Claim, key: &str) -> bool {
        self.0.get(&claim).is_some_and(|holder| &**holder != key)
    }

    fn take(&mut self, key: &Key, service: &Value) {
        for (claim, _) in claims(service) {
            self.0.insert(claim, Key::clone(key));
        }
    }

    /// Forgets what a Service had.
    pub(crate) fn release(&mut self, key: &str, service: &Value) {
        for (claim, _) in claims(service) {
            if !self.is_taken(claim, key) {
                self.0.remove(&claim);
            }
        }
    }

    /// Gives a Service what it still wants, and notes what it has; nothing is noted if it cannot have it.
    pub(crate) fn assign(
        &mut self,
        key: &Key,
        service: &mut Value,
        before: Option<&Value>,
        range: Option<Range>,
    ) -> Result<(), Refused> {
        if let Some(range) = range {
            let address = wants_cluster_ip(service).then(|| self.free_address(range).ok_or(Refused::NoAddress)).transpose()?;
            let missing = ports_without_node_port(service).len();
            let ports = self.free_ports(service, missing);
            if ports.len() < missing {
                return Err(Refused::NoPort);
            }
            assign_service(service, address.map(|address| address.to_string()).as_deref(), &ports);
        }
        let held = before.map(claims).unwrap_or_default();
        let had = |claim: &Claim| held.iter().any(|(other, _)| other == claim);
        if claims(service).iter().any(|(claim, _)| !had(claim) && self.is_taken(*claim, key)) {
            return Err(Refused::Taken);
        }
        if let Some(before) = before {
            self.release(key, before);
        }
        self.take(key, service);
        Ok(())
    }

    fn free_address(&self, range: Range) -> Option<Ipv4Addr> {
        range.addresses().map(Ipv4Addr::from).find(|address| !self.0.contains_key(&Claim::Address(*address)))
    }

    /// Returns free node ports, up to `count`; those that the Service names itself are not free.
    fn free_ports(&self, service: &Value, count: usize) -> Vec<i64> {
        let named: Vec<Claim> = claims(service).into_iter().map(|(claim, _)| claim).collect();
        let free = |port: &i64| !self.0.contains_key(&Claim::Port(*port)) && !named.contains(&Claim::Port(*port));
        NODE_PORTS.filter(free).take(count).collect()
    }
}

/// Judges what a Service names and did not have before: free, and in its range.
pub(crate) fn validate(key: &str, service: &Value, before: Option<&Value>, taken: &Claims, range: Range) -> Vec<Error> {
    let held = before.map(claims).unwrap_or_default();
    let new = claims(service).into_iter().filter(|(claim, _)| !held.iter().any(|(other, _)| other == claim));
    let mut errors = Vec::new();
    for (claim, path) in new {
        let clash = taken.is_taken(claim, key);
        let wrong = match claim {
            Claim::Address(address) if !range.contains(address) => Some(format!(
                "failed to allocate IP {address}: the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
            )),
            Claim::Address(address) if clash => {
                Some(format!("failed to allocate IP {address}: provided IP is already allocated"))
            }
            // Validation of the kind has judged the others.
            Claim::Port(port) if !NODE_PORTS.contains(&port) && path.to_string().ends_with("healthCheckNodePort") => {
                Some(format!(
                    "provided port is not in the valid range. The range of valid ports is {}-{}",
                    NODE_PORTS.start(),
                    NODE_PORTS.end()
                ))
            }
            Claim::Port(_) if clash => Some("provided port is already allocated".to_owned()),
            _ => None,
        };
        let value = match claim {
            Claim::Address(address) => Value::from(vec![address.to_string()]),
            Claim::Port(port) => port.into(),
        };
        errors.extend(wrong.map(|wrong| Error::invalid(&path, value, wrong)));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Expect, RegistryState, Write};
    use machine::Time;
    use serde_json::json;

    fn range() -> Range {
        Range::new(Ipv4Addr::new(127, 96, 3, 0), 29)
    }

    fn place(name: &str) -> Key {
        crate::state::key("", "services", "d", name)
    }

    fn service(name: &str, spec: Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "d"}, "spec": spec})
    }

    /// Stages one write after another in one batch, and returns the specs or the refusals.
    fn stage(state: &mut RegistryState, writes: Vec<Write>) -> Vec<Result<Value, Refused>> {
        let (next, changes, answers, _) = state.snapshot().stage(Time::ZERO, writes).into_parts();
        state.publish(next, &changes);
        answers.into_iter().map(|answer| answer.map(|stored| stored.object()["spec"].clone())).collect()
    }

    fn create(name: &str, spec: Value) -> Write {
        Write { services: Some(range()), ..Write::put(place(name), Expect::Absent, service(name, spec)) }
    }

    #[test]
    fn the_ends_of_a_range_are_nobodys() {
        assert_eq!(range().to_string(), "127.96.3.0/29");
        let inside: Vec<u8> = (0..=9).filter(|last| range().contains(Ipv4Addr::new(127, 96, 3, *last))).collect();
        assert_eq!(inside, [1, 2, 3, 4, 5, 6]);
        for (prefix, count) in [(32, 0), (31, 0), (30, 2), (0, u32::MAX as usize - 1)] {
            assert_eq!(Range::new(Ipv4Addr::new(10, 0, 0, 0), prefix).addresses().len(), count, "/{prefix}");
        }
    }

    #[test]
    fn two_writes_of_one_batch_never_get_the_same() {
        let mut state = RegistryState::default();
        let answers = stage(
            &mut state,
            vec![
                create("a", json!({"ports": [{"port": 1}]})),
                create("b", json!({"type": "NodePort", "ports": [{"port": 1}, {"port": 2, "nodePort": 30_000}]})),
                create("c", json!({"clusterIP": "127.96.3.2"})),
                create("d", json!({"clusterIP": "127.96.3.3"})),
                create("e", json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30_001}]})),
            ],
        );
        assert_eq!(answers[0].as_ref().unwrap()["clusterIP"], "127.96.3.1");
        let b = answers[1].as_ref().unwrap();
        assert_eq!((&b["clusterIP"], &b["ports"][0]["nodePort"]), (&json!("127.96.3.2"), &json!(30_001)));
        assert_eq!(answers[2], Err(Refused::Taken));
        assert_eq!(answers[3].as_ref().unwrap()["clusterIP"], "127.96.3.3");
        assert_eq!(answers[4], Err(Refused::Taken));
        assert_eq!(state.revision(), 3, "a refused write takes no revision");
    }

    #[test]
    fn what_goes_is_free_again_and_a_full_range_is_told() {
        let mut state = RegistryState::default();
        let all = (0..7).map(|number| create(&format!("s{number}"), json!({}))).collect();
        let answers = stage(&mut state, all);
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 6);
        assert_eq!(answers[6], Err(Refused::NoAddress));
        let last = state.snapshot().get(&place("s3")).unwrap().object();
        stage(&mut state, vec![Write::remove(place("s3"), Expect::At(4), last)]);
        assert_eq!(stage(&mut state, vec![create("t", json!({}))])[0].as_ref().unwrap()["clusterIP"], "127.96.3.4");
    }

    #[test]
    fn another_type_gives_back_and_gets_what_it_needs() {
        let mut state = RegistryState::default();
        stage(&mut state, vec![create("a", json!({"type": "NodePort", "ports": [{"port": 1}]}))]);
        let change =
            |expect, spec| Write { services: Some(range()), ..Write::put(place("a"), Expect::At(expect), service("a", spec)) };
        let kept = json!({"type": "ClusterIP", "clusterIP": "127.96.3.1", "ports": [{"port": 1}]});
        assert!(stage(&mut state, vec![change(1, kept)])[0].is_ok());
        let other = create("b", json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30_000}]}));
        assert!(stage(&mut state, vec![other])[0].is_ok(), "the port was given back");
        let alias = json!({"type": "ExternalName", "externalName": "example.com"});
        assert!(stage(&mut state, vec![change(2, alias)])[0].is_ok());
        assert_eq!(stage(&mut state, vec![create("c", json!({}))])[0].as_ref().unwrap()["clusterIP"], "127.96.3.1");
        let again = stage(&mut state, vec![change(4, json!({"type": "NodePort", "ports": [{"port": 1}]}))]);
        let again = again[0].as_ref().unwrap();
        assert_eq!((&again["clusterIP"], &again["ports"][0]["nodePort"]), (&json!("127.96.3.3"), &json!(30_001)));
    }

    #[test]
    fn a_restart_knows_who_has_what_and_twins_of_the_past_do_not_block_each_other() {
        let twin = |name: &str, revision| {
            let stored = crate::state::Stored::new(revision, service(name, json!({"clusterIP": "127.96.3.1"})));
            (place(name), std::sync::Arc::new(stored))
        };
        let limits = crate::state::WindowLimits::default();
        let mut state = RegistryState::restore(2, [twin("a", 1), twin("b", 2)], 2, Vec::new(), limits);
        let label = |name: &str, expect| {
            let mut object = service(name, json!({"clusterIP": "127.96.3.1"}));
            object["metadata"]["labels"] = json!({"x": "y"});
            Write::put(place(name), Expect::At(expect), object)
        };
        let answers = stage(&mut state, vec![label("a", 1), label("b", 2), create("c", json!({"clusterIP": "127.96.3.1"}))]);
        assert_eq!((answers[0].is_ok(), answers[1].is_ok(), answers[2].clone()), (true, true, Err(Refused::Taken)));
    }

    #[test]
    fn only_new_values_are_judged() {
        let mut taken = Claims::default();
        taken.take(&place("a"), &service("a", json!({"clusterIP": "127.96.3.1", "ports": [{"nodePort": 30_000}]})));
        let judge = |spec: Value, before: Option<Value>| -> Vec<(String, String)> {
            let before = before.map(|spec| service("b", spec));
            let errors = validate(&place("b"), &service("b", spec), before.as_ref(), &taken, range());
            errors.into_iter().map(|error| (error.path.clone(), error.message())).collect()
        };
        for outside in ["127.0.0.1", "0.0.0.0", "8.8.8.8", "127.96.3.0", "127.96.3.7"] {
            let found = judge(json!({"clusterIP": outside}), None);
            assert_eq!(found[0].0, "spec.clusterIPs");
            assert!(found[0].1.contains("The range of valid IPs is 127.96.3.0/29"), "{found:?}");
            assert_eq!(judge(json!({"clusterIP": outside}), Some(json!({"clusterIP": outside}))), [], "it was there before");
        }
        assert!(judge(json!({"clusterIP": "127.96.3.1"}), None)[0].1.contains("provided IP is already allocated"));
        let ports =
            json!({"clusterIP": "127.96.3.2", "type": "NodePort", "ports": [{"nodePort": 30_001}, {"nodePort": 30_000}]});
        let found = judge(ports, None);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "spec.ports[1].nodePort");
        assert!(found[0].1.contains("provided port is already allocated"), "{found:?}");
        assert_eq!(judge(json!({"clusterIP": "None"}), None), []);
        assert_eq!(judge(json!({"healthCheckNodePort": 80}), None)[0].0, "spec.healthCheckNodePort");
    }
}
