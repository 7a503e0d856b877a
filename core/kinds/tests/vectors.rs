//! Runs the vectors of the kinds.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::Value;
use testkit::{Suite, Verdict, same};

fn main() -> ExitCode {
    Suite::new(env!("CARGO_PKG_NAME")).file("protobuf/decode", decode).run()
}

type Decode = testkit::Case<DecodeGiven, Value>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecodeGiven {
    base64: String,
}

fn decode(case: Decode) -> Verdict {
    let body = kinds::base64::decode(&case.given.base64).map_err(|error| error.to_string())?;
    let got = kinds::model::protobuf::decode(&body).map_err(|error| error.to_string())?;
    same(&case.expect, &got)
}
