//! Which documents the session has read: recognises repeated and stale ones by the hash of their bytes.

use super::limits::STALE_GRACE_MS;
use crate::document::Incarnation;
use crate::time::UnixMillis;

/// How many superseded documents are remembered.
const SUPERSEDED: usize = 4;

/// The documents that a session has read.
#[derive(Clone, Debug, Default)]
pub(super) struct Documents {
    /// Hash of the newest document.
    newest: Option<u64>,
    /// Hashes of the documents before it, a ring.
    superseded: [u64; SUPERSEDED],
    next: usize,
    /// Since when a superseded document is served again.
    stale_since: Option<UnixMillis>,
    /// Whether the newest document is to be applied again although its bytes are known.
    apply_again: bool,
    /// Hash of the newest document without the advice that others may have. It supersedes none.
    partial: Option<u64>,
}

/// How a document relates to those read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DocumentKind {
    /// Other bytes than those of the newest document.
    New,
    /// The bytes of the newest document.
    Newest,
    /// A superseded document, which is probably an old answer. It is accepted when it stays.
    Stale {
        /// Since when superseded documents are served.
        since: UnixMillis,
    },
}

impl Documents {
    /// Whether a body with this hash is the newest document and need not be applied again.
    pub(super) fn is_unchanged(&self, hash: u64) -> bool {
        self.newest == Some(hash) && !self.apply_again
    }

    /// Distinguishes a new document from the newest one and from a superseded one.
    ///
    /// Without an incarnation, equal bytes do not mean that a document is old: an empty one looks like all others.
    pub(super) fn classify(
        &self,
        hash: u64,
        incarnation: Incarnation<'_>,
        now: UnixMillis,
    ) -> DocumentKind {
        if self.newest == Some(hash) {
            return DocumentKind::Newest;
        }
        if incarnation != Incarnation::Absent
            && self.newest.is_some()
            && self.superseded.contains(&hash)
        {
            let since = self.stale_since.unwrap_or(now);
            if now.millis_since(since) < u64::from(STALE_GRACE_MS) {
                return DocumentKind::Stale { since };
            }
        }
        DocumentKind::New
    }

    /// Records that the newest document was served again.
    pub(super) fn confirm(&mut self) {
        self.stale_since = None;
        self.apply_again = false;
    }

    /// Makes the document with this hash the newest one.
    pub(super) fn accept(&mut self, hash: u64) {
        self.confirm();
        if let Some(newest) = self.newest.replace(hash)
            && let Some(oldest) = self.superseded.get_mut(self.next)
        {
            *oldest = newest;
            self.next = self.next.saturating_add(1) % SUPERSEDED;
        }
    }

    /// Records a document without the advice that others may have, so that the next one with it is applied again. Returns whether it
    /// is another one than the last such document.
    pub(super) fn accept_partial(&mut self, hash: u64) -> bool {
        self.apply_again = true;
        self.partial.replace(hash) != Some(hash)
    }

    /// Records that superseded documents are served since this time.
    pub(super) fn reject(&mut self, since: UnixMillis) {
        self.stale_since = Some(since);
    }

    /// Makes the next poll apply the newest document again.
    pub(super) fn apply_again(&mut self) {
        self.apply_again = true;
    }

    /// Whether a document was read since the start.
    pub(super) fn has_read_one(&self) -> bool {
        self.newest.or(self.partial).is_some()
    }

    /// Whether a document was read and no superseded one is served instead.
    pub(super) fn is_settled(&self) -> bool {
        self.has_read_one() && self.stale_since.is_none()
    }
}
