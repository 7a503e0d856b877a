//! The channels of a command: `v4.channel.k8s.io` and `v5.channel.k8s.io`. The first byte of a message says which it is of.

use serde_json::{Value, json};

/// Protocols that are spoken, the best first. The fourth cannot say that standard input has ended.
pub const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

const STDIN: u8 = 0;
/// What the command writes.
pub const STDOUT: u8 = 1;
/// What it complains about; a terminal has no such channel.
pub const STDERR: u8 = 2;
/// How it ended; the last message.
pub const STATUS: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// What a client says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Bytes for standard input.
    Stdin(Vec<u8>),
    /// Standard input has ended.
    StdinEnds,
    /// The terminal has another size.
    Resize {
        /// Columns.
        width: u16,
        /// Lines.
        height: u16,
    },
    /// Nothing that concerns the command.
    Nothing,
}

/// Returns what a message of a client means.
pub fn input(mut message: Vec<u8>) -> Input {
    match *message.as_slice() {
        [STDIN, ..] => {
            message.remove(0);
            // Clients of the fourth version begin with an empty message on every channel.
            if message.is_empty() { Input::Nothing } else { Input::Stdin(message) }
        }
        [CLOSE, STDIN] => Input::StdinEnds,
        [RESIZE, ref size @ ..] => resize(size).unwrap_or(Input::Nothing),
        _ => Input::Nothing,
    }
}

fn resize(text: &[u8]) -> Option<Input> {
    let size: Value = serde_json::from_slice(text).ok()?;
    let side = |name| u16::try_from(size.get(name)?.as_u64()?).ok().filter(|side| *side > 0);
    Some(Input::Resize { width: side("Width")?, height: side("Height")? })
}

/// Returns the last message: the command has ended by itself; a signal counts as 128 and its number.
pub fn ended(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {},
        "status": "Failure",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

/// Returns the last message: the command could not be run.
pub fn failed(why: &str) -> Value {
    json!({"metadata": {}, "status": "Failure", "message": why, "reason": "InternalError", "code": 500})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_says_the_channel() {
        assert_eq!(input(b"\x00ls\n".to_vec()), Input::Stdin(b"ls\n".to_vec()));
        assert_eq!(input(vec![0]), Input::Nothing);
        assert_eq!(input(vec![255, 0]), Input::StdinEnds);
        assert_eq!(input(vec![255, 1]), Input::Nothing, "output ends when the command does");
        assert_eq!(input(b"\x04{\"Width\":132,\"Height\":43}".to_vec()), Input::Resize { width: 132, height: 43 });
        for nonsense in [&b""[..], b"\x04", b"\x04{}", b"\x04{\"Width\":0,\"Height\":1}", b"\x01out", b"\x07"] {
            assert_eq!(input(nonsense.to_vec()), Input::Nothing);
        }
    }

    #[test]
    fn the_end_names_the_exit_code() {
        assert_eq!(ended(0)["status"], "Success");
        assert_eq!(ended(42)["details"]["causes"][0], json!({"reason": "ExitCode", "message": "42"}));
        assert_eq!(failed("no such file")["message"], "no such file");
    }
}
