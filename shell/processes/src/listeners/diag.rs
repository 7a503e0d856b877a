//! Which socket answers on an address, asked of the kernel itself: one message each way (`sock_diag`).
//!
//! It looks the socket up as it would for a packet, so the choice between an exact address and all addresses is its own. That
//! takes microseconds, where its tables of all sockets take ten milliseconds on a machine with much memory.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, netlink};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
/// Lengths of `nlmsghdr` and `inet_diag_req_v2`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
/// Where `inet_diag_msg` has the state and the inode.
const STATE: usize = HEADER + 1;
const INODE: usize = HEADER + 68;
const LISTENING: u8 = 10;
/// The kernel answers before `send` returns; this is for one that does not.
const PATIENCE: Duration = Duration::from_millis(100);

/// Returns the inode of the socket that answers on an address; `None`: nobody listens.
pub(super) fn listening(address: IpAddr, port: u16) -> io::Result<Option<u64>> {
    let kind = (AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC);
    let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, Some(netlink::SOCK_DIAG))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    rustix::net::send(&socket, &request(address, port), SendFlags::empty())?;
    let mut answer = [0; 1024];
    let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
    parse(&answer[..length])
}

fn request(address: IpAddr, port: u16) -> [u8; HEADER + REQUEST] {
    let mut message = [0; HEADER + REQUEST];
    let mut put = |at: usize, bytes: &[u8]| message[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &((HEADER + REQUEST) as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    put(HEADER, &[family.as_raw() as u8, ipproto::TCP.as_raw().get() as u8]);
    put(HEADER + 4, &(1_u32 << LISTENING).to_ne_bytes());
    put(HEADER + 8, &port.to_be_bytes());
    match address {
        IpAddr::V4(address) => put(HEADER + 12, &address.octets()),
        IpAddr::V6(address) => put(HEADER + 12, &address.octets()),
    }
    // Of any cookie.
    put(HEADER + 48, &[0xff; 8]);
    message
}

fn parse(answer: &[u8]) -> io::Result<Option<u64>> {
    let torn = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer about a socket is too short");
    let word = |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    let type_ = word(4).map(|[low, high, ..]: [u8; 4]| u16::from_ne_bytes([low, high])).ok_or_else(torn)?;
    if type_ == NLMSG_ERROR {
        let error = Errno::from_raw_os_error(-word(HEADER).map(i32::from_ne_bytes).ok_or_else(torn)?);
        return if error == Errno::NOENT { Ok(None) } else { Err(error.into()) };
    }
    let inode = word(INODE).map(u32::from_ne_bytes).ok_or_else(torn)?;
    Ok((answer.get(STATE) == Some(&LISTENING)).then_some(inode.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn inode(listener: &TcpListener) -> u64 {
        rustix::fs::fstat(listener).unwrap().st_ino
    }

    #[test]
    fn the_kernel_names_the_socket_that_answers() {
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let exact = TcpListener::bind("127.201.0.13:0").unwrap();
        let port = exact.local_addr().unwrap().port();
        assert_eq!(listening(at("127.201.0.13"), port).unwrap(), Some(inode(&exact)));
        assert_eq!(listening(at("127.201.0.14"), port).unwrap(), None);
        let everywhere = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = everywhere.local_addr().unwrap().port();
        assert_eq!(listening(at("127.201.0.13"), port).unwrap(), Some(inode(&everywhere)));
        drop(everywhere);
        assert_eq!(listening(at("127.201.0.13"), port).unwrap(), None);
        // Where there is no IPv6 there is nothing to ask.
        if let Ok(both) = TcpListener::bind("[::]:0") {
            let port = both.local_addr().unwrap().port();
            assert_eq!(listening(at("127.201.0.13"), port).unwrap(), Some(inode(&both)));
            assert_eq!(listening(at("::1"), port).unwrap(), Some(inode(&both)));
        }
    }

    #[test]
    fn a_torn_answer_is_an_error() {
        assert!(parse(&[]).is_err());
        assert!(parse(&[0; HEADER + 20]).is_err());
        let mut refused = [0; HEADER + 4];
        refused[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        refused[HEADER..].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(parse(&refused).unwrap_err().raw_os_error(), Some(1));
    }
}
