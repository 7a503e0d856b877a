//! Names of error numbers, as cores know them.

use std::borrow::Cow;

use rustix::io::Errno;

/// Returns the name of an error number, for example `ECONNREFUSED`.
pub(crate) fn name(errno: Errno) -> Cow<'static, str> {
    let name = match errno {
        Errno::TOOBIG => "E2BIG",
        Errno::ACCESS => "EACCES",
        Errno::ADDRINUSE => "EADDRINUSE",
        Errno::ADDRNOTAVAIL => "EADDRNOTAVAIL",
        Errno::AFNOSUPPORT => "EAFNOSUPPORT",
        Errno::AGAIN => "EAGAIN",
        Errno::CONNABORTED => "ECONNABORTED",
        Errno::CONNREFUSED => "ECONNREFUSED",
        Errno::CONNRESET => "ECONNRESET",
        Errno::HOSTDOWN => "EHOSTDOWN",
        Errno::HOSTUNREACH => "EHOSTUNREACH",
        Errno::INVAL => "EINVAL",
        Errno::IO => "EIO",
        Errno::ISDIR => "EISDIR",
        Errno::LOOP => "ELOOP",
        Errno::MFILE => "EMFILE",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::NETDOWN => "ENETDOWN",
        Errno::NETUNREACH => "ENETUNREACH",
        Errno::NFILE => "ENFILE",
        Errno::NOBUFS => "ENOBUFS",
        Errno::NOENT => "ENOENT",
        Errno::NOEXEC => "ENOEXEC",
        Errno::NOMEM => "ENOMEM",
        Errno::NOTDIR => "ENOTDIR",
        Errno::PERM => "EPERM",
        Errno::PIPE => "EPIPE",
        Errno::TIMEDOUT => "ETIMEDOUT",
        Errno::TXTBSY => "ETXTBSY",
        other => return Cow::Owned(format!("errno {}", other.raw_os_error())),
    };
    Cow::Borrowed(name)
}
