//! Conversions between types of CEL.

use api::Timestamp;
use machine::Time;

use super::eval::{Outcome, failed};
use super::functions::{Function, no_overload};
use super::value::Val;
use crate::format;

/// Converts a value to the type that a function of the same name stands for.
pub(super) fn to<'a>(function: Function, value: &Val<'a>) -> Outcome<'a> {
    let range = || failed(format!("range error converting to {function:?}"));
    match (function, value) {
        (Function::String, value) => {
            text(value).map_or_else(|| no_overload(function, std::slice::from_ref(value)), |text| Ok(Val::text(text)))
        }
        (Function::Bool, Val::Bool(flag)) => Ok(Val::Bool(*flag)),
        (Function::Bool, Val::Str(text)) => match text.as_ref() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Val::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Val::Bool(false)),
            _ => failed(format!("type conversion error from {text:?} to bool")),
        },
        (Function::Int, Val::Int(int)) => Ok(Val::Int(*int)),
        (Function::Int, Val::Uint(uint)) => i64::try_from(*uint).map_or_else(|_| range(), |int| Ok(Val::Int(int))),
        (Function::Int, Val::Double(double)) => whole(*double, -9.223_372_036_854_775e18, 9.223_372_036_854_775e18)
            .map_or_else(
                range,
                #[expect(clippy::cast_possible_truncation, reason = "in range")]
                |double| Ok(Val::Int(double as i64)),
            ),
        (Function::Int, Val::Str(text)) => parse(text, "int").map(Val::Int),
        (Function::Int, Val::Timestamp(micros)) => Ok(Val::Int(micros.div_euclid(1_000_000))),
        (Function::Uint, Val::Uint(uint)) => Ok(Val::Uint(*uint)),
        (Function::Uint, Val::Int(int)) => u64::try_from(*int).map_or_else(|_| range(), |uint| Ok(Val::Uint(uint))),
        (Function::Uint, Val::Double(double)) => whole(*double, 0.0, 1.844_674_407_370_955e19).map_or_else(
            range,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
            |double| Ok(Val::Uint(double as u64)),
        ),
        (Function::Uint, Val::Str(text)) => parse(text, "uint").map(Val::Uint),
        (Function::Double, Val::Str(text)) => parse(text, "double").map(Val::Double),
        (Function::Double, number) if number.as_double().is_some() => Ok(Val::Double(number.as_double().unwrap_or(f64::NAN))),
        (Function::Timestamp, Val::Timestamp(micros)) => Ok(Val::Timestamp(*micros)),
        (Function::Timestamp, Val::Str(text)) => match Timestamp::parse(text) {
            Ok(stamp) => Ok(Val::Timestamp(stamp.0.as_micros())),
            Err(error) => failed(error.to_string()),
        },
        (Function::Duration, Val::Duration(nanoseconds)) => Ok(Val::Duration(*nanoseconds)),
        (Function::Duration, Val::Str(text)) => match format::duration(text).filter(|_| !text.contains(' ')) {
            Some(nanoseconds) => Ok(Val::Duration(nanoseconds)),
            None => failed(format!("{text:?} is not a duration")),
        },
        _ => no_overload(function, std::slice::from_ref(value)),
    }
}

fn whole(double: f64, min: f64, max: f64) -> Option<f64> {
    (double > min - 1.0 && double < max).then_some(double.trunc())
}

fn parse<T: std::str::FromStr>(text: &str, name: &str) -> Result<T, super::eval::Fault> {
    text.parse().or_else(|_| failed(format!("type conversion error from {text:?} to {name}")))
}

/// Returns a scalar as text.
pub(super) fn text(value: &Val<'_>) -> Option<String> {
    Some(match value {
        Val::Str(text) => text.clone().into_owned(),
        Val::Bool(flag) => flag.to_string(),
        Val::Int(int) => int.to_string(),
        Val::Uint(uint) => uint.to_string(),
        Val::Double(double) => double.to_string(),
        Val::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Val::Timestamp(micros) => Timestamp(Time::from_micros(*micros)).shortest(),
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        Val::Duration(nanoseconds) => format!("{}s", *nanoseconds as f64 / 1e9),
        Val::Special(special) => special.text()?,
        _ => return None,
    })
}
