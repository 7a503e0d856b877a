//! What is spoken on streams into a pod, as `kubectl exec` and `kubectl port-forward` do: WebSocket frames, the channels of a
//! command, and connections to ports, which are SPDY frames inside of a WebSocket.
//!
//! Bytes in, events and bytes out; who reads and writes them is said by a shell. Nothing here trusts the other side: what
//! breaks a protocol or exceeds a bound is an error, never a panic.

pub mod channels;
pub mod forward;
pub mod inflate;
pub mod spdy;
pub mod websocket;
