//! A TCP connection of a probe, with as few system calls as it can have.
//!
//! On one machine a connection is established by the time `connect` returns, so the request is sent at once, and the runtime
//! hears of the socket only when there is an answer to wait for. Everything else is the slow path: it costs more and works the same.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use probe::outcome::Cause;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;

use super::errno as errnos;
use super::pace::{Pace, Paced, TOO_LONG};

/// A connection, or one that is being made.
#[derive(Debug)]
pub struct Socket {
    fd: Registration,
    /// The peer has said all that it was asked for; closing need not be abrupt.
    finished: bool,
    pace: Pace,
}

#[derive(Debug)]
enum Registration {
    None(OwnedFd),
    Done(AsyncFd<OwnedFd>),
    /// Only inside of a method.
    Moving,
}

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Connecting {
    /// It is there.
    Done(Socket),
    /// The kernel has not decided yet; see [`Socket::poll_writable`].
    Open(Socket),
    /// It was not made. The socket may be used again, if it came so far.
    Failed(Errno, Option<Socket>),
}

impl Connecting {
    /// Begins to connect, or asks the kernel how far it is with a socket that has begun.
    pub(super) fn begin(socket: Option<Socket>, address: &SocketAddr) -> Connecting {
        let socket = match socket.map_or_else(|| Socket::new(address), Ok) {
            Ok(socket) => socket,
            Err(error) => return Connecting::Failed(error, None),
        };
        match socket.connect_now(address) {
            Ok(()) | Err(Errno::ISCONN) if socket.is_its_own_peer() => Connecting::Failed(Errno::CONNREFUSED, None),
            Ok(()) | Err(Errno::ISCONN) => Connecting::Done(socket),
            Err(Errno::ALREADY | Errno::INPROGRESS) => Connecting::Open(socket),
            Err(error) => Connecting::Failed(error, Some(socket)),
        }
    }
}

impl Socket {
    fn new(address: &SocketAddr) -> Result<Socket, Errno> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        Ok(Socket { fd: Registration::None(fd), finished: false, pace: Pace::default() })
    }

    /// Begins to connect; whether it succeeds shows when it is used.
    pub(super) fn begin(address: &SocketAddr) -> Result<Socket, Errno> {
        let socket = Socket::new(address)?;
        match rustix::net::connect(socket.as_fd(), address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }

    /// Connects, with a socket that has begun to if there is one.
    pub(super) async fn connect(begun: Option<Socket>, address: &SocketAddr) -> Result<Socket, Errno> {
        let mut connecting = Connecting::begin(begun, address);
        loop {
            match connecting {
                Connecting::Done(socket) => return Ok(socket),
                Connecting::Open(mut socket) => {
                    socket.writable().await?;
                    connecting = Connecting::begin(Some(socket), address);
                }
                Connecting::Failed(error, socket) => {
                    // There is nobody to tell that it ends.
                    socket.into_iter().for_each(Socket::close);
                    return Err(error);
                }
            }
        }
    }

    /// Connects as far as the kernel does without waiting. On one machine the answer comes while the call still holds the socket, and
    /// is looked at only when it lets go of it: so the second call knows, where the first says that it has just begun.
    fn connect_now(&self, address: &SocketAddr) -> Result<(), Errno> {
        match rustix::net::connect(self.as_fd(), address) {
            Err(Errno::INPROGRESS) => rustix::net::connect(self.as_fd(), address),
            decided => decided,
        }
    }

    /// Returns whether the kernel has connected the socket to itself: it may, if nobody listens on a port out of those that it
    /// gives to callers.
    fn is_its_own_peer(&self) -> bool {
        match (rustix::net::getsockname(self.as_fd()), rustix::net::getpeername(self.as_fd())) {
            (Ok(own), Ok(peer)) => Some(own) == peer,
            _ => false,
        }
    }

    /// Returns whether the runtime does not know of it.
    pub(super) fn is_unregistered(&self) -> bool {
        matches!(self.fd, Registration::None(_))
    }

    /// Waits until the kernel has decided about a connection.
    pub(super) fn poll_writable(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_unregistered() && self.register(processes::readiness::readable_and_writable).is_err() {
            return Poll::Ready(());
        }
        let Registration::Done(fd) = &self.fd else { return Poll::Ready(()) };
        if let Ok(mut guard) = ready!(fd.poll_write_ready(context)) {
            guard.clear_ready();
        }
        Poll::Ready(())
    }

    /// Sends all of it.
    pub(super) async fn send(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match rustix::net::send(self.as_fd(), bytes, SendFlags::NOSIGNAL) {
                Ok(length) => bytes = &bytes[length..],
                Err(Errno::AGAIN) => self.writable().await?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Appends what has arrived to a buffer, within its capacity; 0: the peer has closed.
    pub(super) async fn receive(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Cause> {
        if self.pace.must_yield() {
            tokio::task::yield_now().await;
        }
        let length = self.read(buffer).await.map_err(|error| Cause::Errno(errnos::name(error)))?;
        if self.pace.count(length) { Ok(length) } else { Err(Cause::Protocol(TOO_LONG.to_owned())) }
    }

    async fn read(&mut self, buffer: &mut Vec<u8>) -> Result<usize, Errno> {
        if let Registration::None(_) = self.fd {
            self.register(processes::readiness::readable)?;
        }
        let Registration::Done(fd) = &self.fd else { return Err(Errno::BADF) };
        loop {
            let mut guard = fd.readable().await.map_err(errno)?;
            let room = buffer.capacity() - buffer.len();
            match rustix::net::recv(fd, spare_capacity(buffer), RecvFlags::empty()) {
                Ok((_, length)) => {
                    // Less than asked for: the next bytes announce themselves, there is no need to ask in vain.
                    if length < room {
                        guard.clear_ready();
                    }
                    return Ok(length);
                }
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn writable(&mut self) -> Result<(), Errno> {
        if let Registration::None(_) = self.fd {
            self.register(processes::readiness::readable_and_writable)?;
        }
        let Registration::Done(fd) = &self.fd else { return Err(Errno::BADF) };
        let mut guard = fd.writable().await.map_err(errno)?;
        // The caller tries first: a wait means that it could not.
        guard.clear_ready();
        Ok(())
    }

    fn register(&mut self, how: fn(OwnedFd) -> io::Result<AsyncFd<OwnedFd>>) -> Result<(), Errno> {
        let Registration::None(fd) = std::mem::replace(&mut self.fd, Registration::Moving) else { return Ok(()) };
        self.fd = Registration::Done(how(fd).map_err(errno)?);
        Ok(())
    }

    /// Closes in good order, after the peer has done what it was asked for.
    ///
    /// The kernel does so in the background. To linger, as the kubelet does, would hold this thread up to a second until a
    /// peer confirms, and a peer that reads nothing never does.
    pub(super) fn close(mut self) {
        self.finished = true;
    }

    /// Hands the connection, which is established, to the runtime.
    pub(super) fn into_tokio(mut self) -> Result<Paced, Errno> {
        self.finished = true;
        let fd = match std::mem::replace(&mut self.fd, Registration::Moving) {
            Registration::None(fd) => fd,
            Registration::Done(fd) => fd.into_inner(),
            Registration::Moving => return Err(Errno::BADF),
        };
        let stream = TcpStream::from_std(fd.into()).map_err(errno)?;
        Ok(Paced::new(stream, std::mem::take(&mut self.pace)))
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.fd {
            Registration::None(fd) => fd.as_fd(),
            Registration::Done(fd) => fd.get_ref().as_fd(),
            Registration::Moving => unreachable!("no method leaves it so, except when the socket is gone"),
        }
    }
}

impl Drop for Socket {
    /// A peer that did not answer may be gone, or send for ever: it is told at once that nobody reads any more.
    fn drop(&mut self) {
        if !self.finished && !matches!(self.fd, Registration::Moving) {
            let _ = sockopt::set_socket_linger(self.as_fd(), Some(Duration::ZERO));
        }
    }
}

fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
