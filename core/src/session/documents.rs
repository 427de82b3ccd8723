//! Which documents the session has read: recognises repeated and stale ones by the hash of their bytes.

use super::limits::STALE_GRACE_MS;
use crate::document::Incarnation;
use crate::time::UnixMillis;

/// How many superseded documents are remembered.
const SUPERSEDED: usize = 4;

/// The documents that a session has read.
#[derive(Clone, Debug, Default)]
pub(super) struct Documents {
    /// Those of the version without advice, and those of the preview: the service may keep them apart, so that one of them is older
    /// than the other, and the same bytes say less in the first.
    histories: [History; 2],
    /// The next place in the ring of each.
    next: [u8; 2],
    /// Whether the last one is of the preview.
    is_preview: Option<bool>,
    /// When the version of the documents last changed.
    switched_at: Option<UnixMillis>,
    /// Whether the newest document is to be applied again although its bytes are known.
    apply_again: bool,
}

/// The documents of one version.
#[derive(Clone, Debug, Default)]
struct History {
    /// Hash of the newest document.
    newest: Option<u64>,
    /// Hashes of the documents before it, a ring.
    superseded: [u64; SUPERSEDED],
    /// Since when a superseded document is served again.
    stale_since: Option<UnixMillis>,
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
    pub(super) fn is_unchanged(&self, hash: u64, is_preview: bool) -> bool {
        self.is_preview == Some(is_preview)
            && self.history().newest == Some(hash)
            && !self.apply_again
    }

    /// Records of which version the next document is. `is_known` is whether that of the last one before the start is known, or
    /// does not matter.
    pub(super) fn read_in(&mut self, is_preview: bool, is_known: bool, now: UnixMillis) {
        let is_other = match self.is_preview.replace(is_preview) {
            Some(before) => before != is_preview,
            None => !is_known,
        };
        if is_other {
            self.switched_at = Some(now);
            self.apply_again = true;
        }
    }

    fn history(&self) -> &History {
        let [stable, preview] = &self.histories;
        if self.is_preview == Some(true) {
            preview
        } else {
            stable
        }
    }

    fn history_mut(&mut self) -> &mut History {
        let [stable, preview] = &mut self.histories;
        if self.is_preview == Some(true) {
            preview
        } else {
            stable
        }
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
        let history = self.history();
        if history.newest == Some(hash) {
            return DocumentKind::Newest;
        }
        if incarnation != Incarnation::Absent
            && history.newest.is_some()
            && history.superseded.contains(&hash)
        {
            let since = history.stale_since.unwrap_or(now);
            if now.millis_since(since) < u64::from(STALE_GRACE_MS) {
                return DocumentKind::Stale { since };
            }
        }
        DocumentKind::New
    }

    /// Whether documents that lack an event since this time do not end it yet: their version changed shortly before that, and they may
    /// be older than those of the other version.
    pub(super) fn may_be_outdated(&mut self, absent_since: UnixMillis, now: UnixMillis) -> bool {
        let grace = u64::from(STALE_GRACE_MS);
        self.switched_at = self.switched_at.map(|at| at.min(now));
        now.millis_since(absent_since) < grace
            && self
                .switched_at
                .is_some_and(|at| absent_since.millis_since(at) < grace)
    }

    /// Records that the newest document was served again.
    pub(super) fn confirm(&mut self) {
        self.history_mut().stale_since = None;
        self.apply_again = false;
    }

    /// Makes the document with this hash the newest one.
    pub(super) fn accept(&mut self, hash: u64) {
        self.confirm();
        let index = usize::from(self.is_preview == Some(true));
        if let Some(history) = self.histories.get_mut(index)
            && let Some(next) = self.next.get_mut(index)
            && let Some(newest) = history.newest.replace(hash)
            && let Some(oldest) = history.superseded.get_mut(usize::from(*next) % SUPERSEDED)
        {
            *oldest = newest;
            *next = next.wrapping_add(1);
        }
    }

    /// Records that superseded documents are served since this time.
    pub(super) fn reject(&mut self, since: UnixMillis) {
        self.history_mut().stale_since = Some(since);
    }

    /// Makes the next poll apply the newest document again.
    pub(super) fn apply_again(&mut self) {
        self.apply_again = true;
    }

    /// Whether a document was read since the start.
    pub(super) fn has_read_one(&self) -> bool {
        self.histories
            .iter()
            .any(|history| history.newest.is_some())
    }

    /// Whether a document was read and no superseded one is served instead.
    pub(super) fn is_settled(&self) -> bool {
        self.has_read_one() && self.history().stale_since.is_none()
    }
}
