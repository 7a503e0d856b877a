//! What a stage of a rollout means for each kind of instance: whether it is done there.

use std::time::Duration;

use super::{ApiServer, ControllerManager, Observed, Request, WorkerNode};
use crate::profile::{BUILT_IN_GRACE, Owner, Profile, Target, Values};

/// What a stage means for each kind of instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) profile: Profile,
    pub(crate) values: Values,
    /// A grace that is as good as the one of the stage.
    also_good: Option<Duration>,
    /// Whether nothing is wanted: what is not ours stays as it is.
    nothing: bool,
}

impl Stage {
    pub(crate) fn new(profile: Profile, request: &Request) -> Stage {
        let built_in = request.target == Target::Empty && profile == Profile::Default;
        let values = profile.values_with(request.default_grace);
        Stage { profile, values, also_good: built_in.then_some(BUILT_IN_GRACE), nothing: request.target == Target::Empty }
    }

    pub(crate) fn kcm_done(&self, kcm: &ControllerManager) -> bool {
        kcm.grace == self.values.node_monitor_grace_period || Some(kcm.grace) == self.also_good || self.leaves(kcm.untouched)
    }

    pub(crate) fn kas_done(&self, kas: &ApiServer) -> bool {
        (kas.not_ready_seconds, kas.unreachable_seconds) == self.tolerations() || self.leaves(kas.untouched)
    }

    pub(crate) fn node_done(&self, node: &WorkerNode) -> bool {
        let as_wanted = node.heartbeat == self.values.lease_renew_interval() && !node.other_settings;
        node.control_plane || as_wanted || self.leaves(node.untouched)
    }

    /// Returns how many instances of an owner are left alone although they use other values.
    pub(crate) fn left_alone(&self, owner: Owner, observed: &Observed) -> usize {
        let strict = Stage { nothing: false, ..*self };
        match owner {
            Owner::KubeApiServer => observed.kas.iter().filter(|kas| self.kas_done(kas) && !strict.kas_done(kas)).count(),
            Owner::KubeControllerManager => {
                observed.kcm.iter().filter(|kcm| self.kcm_done(kcm) && !strict.kcm_done(kcm)).count()
            }
            Owner::MachineConfig => {
                let nodes = observed.nodes.iter().filter(|node| !node.deferred());
                nodes.filter(|node| self.node_done(node) && !strict.node_done(node)).count()
            }
        }
    }

    /// Returns whether an instance is left alone whatever it uses.
    pub(super) fn leaves(&self, untouched: bool) -> bool {
        self.nothing && untouched
    }

    pub(super) fn tolerations(&self) -> (i64, i64) {
        (self.values.default_not_ready_toleration_seconds, self.values.default_unreachable_toleration_seconds)
    }
}
