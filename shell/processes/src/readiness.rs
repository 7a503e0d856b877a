//! Waiting for descriptors of the kernel.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime, for reading only: a socket that can be written to wakes nobody.
pub fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    register(fd, Interest::READABLE)
}

/// Registers a descriptor with the runtime, for reading and writing.
pub fn readable_and_writable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    register(fd, Interest::READABLE | Interest::WRITABLE)
}

fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // The safe constructor is deprecated because a type could answer with another descriptor each time it is asked. An owned
    // descriptor is one number from its birth to its drop, which is exactly what the unsafe successor asks us to promise.
    #[expect(deprecated)]
    AsyncFd::with_interest(fd, interest)
}
