//! Which form an answer takes: read from `Accept`.

use api::status::Status;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Yaml,
}

/// What an answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects themselves.
    Whole,
    /// Rows for people; the version of the Table API.
    Table(&'static str),
    /// Metadata alone.
    Metadata(&'static str),
    /// Aggregated discovery; the version of its API.
    Aggregated(&'static str),
}

/// The first acceptable entry of the list wins; parameters that we do not know make an entry unacceptable.
pub(crate) fn negotiate(accept: &str, discovery: bool) -> Result<(Encoding, Form), Status> {
    if accept.trim().is_empty() {
        return Ok((Encoding::Json, Form::Whole));
    }
    accept.split(',').find_map(|entry| acceptable(entry, discovery)).ok_or_else(Status::not_acceptable)
}

fn acceptable(entry: &str, discovery: bool) -> Option<(Encoding, Form)> {
    let mut parts = entry.split(';').map(str::trim);
    let encoding = match parts.next()? {
        "application/json" | "*/*" | "application/*" => Encoding::Json,
        "application/yaml" => Encoding::Yaml,
        _ => return None,
    };
    let (mut as_, mut version, mut group) = ("", "", "");
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        match name {
            "as" => as_ = value,
            "v" => version = value,
            "g" => group = value,
            _ => {}
        }
    }
    let meta = match version {
        "v1" => Some("v1"),
        "v1beta1" => Some("v1beta1"),
        _ => None,
    };
    let form = match (as_, group, discovery) {
        ("", ..) => Form::Whole,
        ("Table", "meta.k8s.io", false) => Form::Table(meta?),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", false) => Form::Metadata(meta?),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", true) if version == "v2" => Form::Aggregated("v2"),
        _ => return None,
    };
    Some((encoding, form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_acceptable_entry_wins() {
        let get = |accept: &str| negotiate(accept, false).map_err(|status| status.code);
        assert_eq!(get(""), Ok((Encoding::Json, Form::Whole)));
        assert_eq!(get("application/vnd.kubernetes.protobuf,application/json"), Ok((Encoding::Json, Form::Whole)));
        assert_eq!(
            get("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            Ok((Encoding::Json, Form::Table("v1")))
        );
        assert_eq!(get("application/yaml"), Ok((Encoding::Yaml, Form::Whole)));
        assert_eq!(get("text/html"), Err(406));
        let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(negotiate(aggregated, true).unwrap().1, Form::Aggregated("v2"));
        assert_eq!(get(aggregated), Err(406));
    }
}
