//! What an agent does about the step that its Node shows: begins it, waits a while for a component that is about to start, or refuses.

use std::time::Duration;

use serde_json::Value;

use super::ApplyStep;

/// So long an agent waits for a component that does not say what it uses: a kubelet that was restarted is back long before.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// Why an agent cannot do a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unable {
    /// The component is away, and about to start more often than not.
    Yet(String),
    /// Something has to be done about it.
    ByItself(String),
}

/// What an agent does about the step that its Node shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing is asked for, or it is done already.
    Nothing,
    /// Look again in a moment.
    Wait,
    /// Do it.
    Begin(ApplyStep),
    /// Touch nothing, and say why.
    Refuse {
        /// Which step.
        id: String,
        /// Why.
        message: String,
    },
}

/// Returns what an agent does about the step that its Node shows; `answered` is the last one that it has finished, `waited` how long
/// this one has waited, `able` says why it cannot be done.
pub fn decide(
    shown: Option<&str>,
    answered: &str,
    waited: Duration,
    able: impl Fn(&ApplyStep) -> Result<(), Unable>,
) -> Decision {
    let Some(text) = shown else { return Decision::Nothing };
    match ApplyStep::parse(text) {
        Ok(step) if step.id == answered => Decision::Nothing,
        Ok(step) => match able(&step) {
            Ok(()) => Decision::Begin(step),
            Err(Unable::Yet(_)) if waited < WAIT_MAX => Decision::Wait,
            Err(Unable::Yet(message) | Unable::ByItself(message)) => Decision::Refuse { id: step.id, message },
        },
        Err(error) => {
            // What cannot be read may still have a name to answer to.
            let id = serde_json::from_str::<Value>(text).ok().and_then(|value| Some(value["id"].as_str()?.to_owned()));
            match id.filter(|id| !id.is_empty() && id != answered) {
                Some(id) => Decision::Refuse { id, message: error.to_string() },
                None => Decision::Nothing,
            }
        }
    }
}
