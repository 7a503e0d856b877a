//! When the certificates of the webhook are made anew, and in which order, so that the API server trusts what it is shown.
//!
//! A new authority is published before anything is signed by it, and the old one stays published after the change: replicas
//! show the old certificate for a moment. Each step is decided from what is stored, so a leader that dies between two of
//! them is followed by one that goes on where it ended.

use std::time::Duration;

use machine::Time;

/// How long an authority is good.
pub const AUTHORITY_LIFE: Duration = Duration::from_secs(3 * 365 * 86_400);
/// How long a certificate of the server is good.
pub const SERVER_LIFE: Duration = Duration::from_secs(90 * 86_400);
/// Certificates are good from a little earlier than now: clocks of API servers may be behind ours.
pub const BACKDATE: Duration = Duration::from_secs(3_600);

/// From when and until when a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its first instant.
    pub from: Time,
    /// Its last.
    pub until: Time,
}

impl Validity {
    /// Returns the life of a certificate that is made now.
    pub fn starting(now: Time, life: Duration) -> Validity {
        Validity { from: now - BACKDATE, until: now + life }
    }

    /// Returns when it is to be made anew: after two thirds of its life.
    pub fn renew_at(&self) -> Time {
        self.from + self.until.since(self.from) * 2 / 3
    }

    fn is_over(&self, now: Time) -> bool {
        now >= self.until
    }
}

/// What is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The authority, if it and its key can be read.
    pub authority: Option<Validity>,
    /// The next authority.
    pub next: Option<Validity>,
    /// The certificate of the server, if the authority has signed it.
    pub server: Option<Validity>,
    /// Whether every webhook configuration trusts the next authority.
    pub next_is_trusted: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Nothing.
    Keep,
    /// Make an authority and a certificate: there is none, or what is there has expired.
    Begin,
    /// Make the next authority and have it trusted; nothing is signed by it yet.
    MakeNext,
    /// Let the next authority sign; the old one stays trusted.
    Promote,
    /// Make another certificate of the server. An authority before the present one has signed nothing that is still shown.
    Renew,
}

/// Decides what is to be done now.
pub fn step(stored: &Stored, now: Time) -> Rotation {
    let Some(authority) = stored.authority.filter(|authority| !authority.is_over(now)) else { return Rotation::Begin };
    match stored.next.filter(|next| !next.is_over(now)) {
        Some(_) if stored.next_is_trusted => return Rotation::Promote,
        // It is published first; meanwhile the present certificate may come to its end, too.
        Some(_) => {}
        None if now >= authority.renew_at() => return Rotation::MakeNext,
        None => {}
    }
    match stored.server {
        Some(server) if now < server.renew_at() => Rotation::Keep,
        _ => Rotation::Renew,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at(day: u32) -> Time {
        Time::from_secs(1_800_000_000) + DAY * day
    }

    fn life(day: u32, life: Duration) -> Option<Validity> {
        Some(Validity::starting(at(day), life))
    }

    #[test]
    fn nothing_or_something_expired_begins_anew() {
        assert_eq!(step(&Stored::default(), at(0)), Rotation::Begin);
        let stored = Stored { authority: life(0, DAY), server: life(0, DAY), ..Stored::default() };
        assert_eq!(step(&stored, at(2)), Rotation::Begin);
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let stored = Stored { authority: life(0, AUTHORITY_LIFE), server: life(0, SERVER_LIFE), ..Stored::default() };
        assert_eq!(step(&stored, at(59)), Rotation::Keep);
        assert_eq!(step(&stored, at(60)), Rotation::Renew);
        assert_eq!(step(&Stored { server: None, ..stored }, at(0)), Rotation::Renew, "signed by another");
    }

    #[test]
    fn an_authority_signs_only_once_it_is_trusted() {
        let stored = Stored { authority: life(0, AUTHORITY_LIFE), server: life(700, SERVER_LIFE), ..Stored::default() };
        assert_eq!(step(&stored, at(729)), Rotation::Keep);
        assert_eq!(step(&stored, at(731)), Rotation::MakeNext);
        let stored = Stored { next: life(731, AUTHORITY_LIFE), ..stored };
        assert_eq!(step(&stored, at(731)), Rotation::Keep, "it is published first");
        assert_eq!(step(&stored, at(761)), Rotation::Renew, "however long that takes");
        assert_eq!(step(&Stored { next_is_trusted: true, ..stored }, at(731)), Rotation::Promote);
    }
}
