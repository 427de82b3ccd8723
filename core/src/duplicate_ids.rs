//! Detection of events that repeat the `EventId` of an earlier event.
//!
//! Azure sends no duplicates, so the search is simple and bounded: the first [`DUPLICATE_ID_WINDOW`] ids of a document are
//! compared with each other, later ones are not. While the document is read, only hashes are stored. An id whose hash
//! equals an earlier one is suspect; the suspects are then compared with the earlier ids in the document, so that a
//! collision hides no event. There are at most 63, and each reads the document's first events twice: the time stays
//! linear in the document's length even if all hashes are equal.

use crate::hash::Hash;
use crate::json::Text;

/// How many ids of a document are compared with each other: those of the first 64 events that have an id. A
/// [`Document`](crate::Document) does not detect that a later event repeats an id.
pub const DUPLICATE_ID_WINDOW: usize = 64;

/// Which of a document's first ids repeat an earlier one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DuplicateIds {
    /// One bit for each id in the window, the first id's lowest.
    mask: u64,
}

const _: () = assert!(DUPLICATE_ID_WINDOW == u64::BITS as usize);

impl DuplicateIds {
    pub(crate) const NONE: Self = Self { mask: 0 };

    /// Whether the id at this position among the document's ids repeats an earlier one.
    pub(crate) const fn contains(self, position: usize) -> bool {
        position < DUPLICATE_ID_WINDOW && self.mask >> position & 1 != 0
    }

    /// How many ids repeat an earlier one.
    pub(crate) const fn count(self) -> usize {
        self.mask.count_ones() as usize
    }

    /// How many of the first `ids` ids repeat an earlier one.
    pub(crate) const fn count_before(self, ids: usize) -> usize {
        if ids >= DUPLICATE_ID_WINDOW {
            return self.count();
        }
        (self.mask & (1_u64 << ids).wrapping_sub(1)).count_ones() as usize
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.mask == 0
    }

    const fn insert(&mut self, position: usize) {
        if position < DUPLICATE_ID_WINDOW {
            self.mask |= 1 << position;
        }
    }
}

/// The hashes of a document's first ids.
pub(crate) struct IdHashes {
    /// Of 16 bits, which keeps the stack small: among 64 different ids there is a suspect in 3 % of the documents.
    hashes: [u16; DUPLICATE_ID_WINDOW],
    count: usize,
    suspects: DuplicateIds,
}

impl IdHashes {
    pub(crate) const fn new() -> Self {
        Self {
            hashes: [0; DUPLICATE_ID_WINDOW],
            count: 0,
            suspects: DuplicateIds::NONE,
        }
    }

    /// Adds the next id of the document.
    #[inline]
    pub(crate) fn insert(&mut self, id: &Text<'_>) {
        if self.count < DUPLICATE_ID_WINDOW {
            self.insert_in_window(hash(id));
        }
    }

    fn insert_in_window(&mut self, hash: u16) {
        let position = self.count;
        if self
            .hashes
            .get(..position)
            .is_some_and(|seen| seen.contains(&hash))
        {
            self.suspects.insert(position);
        }
        if let Some(entry) = self.hashes.get_mut(position) {
            *entry = hash;
        }
        self.count = position.wrapping_add(1);
    }

    /// The ids whose hash equals an earlier one.
    pub(crate) const fn suspects(&self) -> DuplicateIds {
        self.suspects
    }
}

/// Returns which of the suspects repeat an earlier id. `ids` returns an iterator over the document's ids.
pub(crate) fn resolve<'a, I: Iterator<Item = Text<'a>>>(
    suspects: DuplicateIds,
    ids: impl Fn() -> I,
) -> DuplicateIds {
    let mut duplicates = DuplicateIds::NONE;
    for position in (0..DUPLICATE_ID_WINDOW).filter(|position| suspects.contains(*position)) {
        if let Some(id) = ids().nth(position)
            && ids()
                .take(position)
                .any(|earlier| earlier.is_same_name(&id))
        {
            duplicates.insert(position);
        }
    }
    duplicates
}

fn hash(id: &Text<'_>) -> u16 {
    u16::try_from(Hash::of_id(id) >> 48).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    use super::*;
    use crate::document::Document;
    use crate::event::ProblemKind;

    fn document(ids: impl IntoIterator<Item = String>) -> String {
        let events: Vec<_> = ids
            .into_iter()
            .map(|id| format!("{{\"EventId\":\"{id}\"}}"))
            .collect();
        format!("{{\"Events\":[{}]}}", events.join(","))
    }

    /// The indices of the events that `events()` returns, and of those that `problems()` calls repeated. Also checks that
    /// the iterator's length is right at every step.
    fn read(text: &str) -> (Vec<usize>, Vec<usize>) {
        let document = Document::parse(text.as_bytes()).unwrap();
        let mut events = document.events();
        let mut indices = Vec::new();
        for left in (0..events.len()).rev() {
            indices.push(events.next().unwrap().index());
            assert_eq!(events.len(), left);
        }
        assert!(events.next().is_none());
        let repeated = document
            .problems()
            .filter(|problem| problem.kind == ProblemKind::Repeated);
        let repeated = repeated.map(|problem| problem.event.unwrap()).collect();
        (indices, repeated)
    }

    #[test]
    fn ids_in_the_window_are_compared_and_later_ones_are_not() {
        let mut ids: Vec<_> = (0..100).map(|n| format!("id-{n}")).collect();
        for (at, of) in [(5, 3), (40, 39), (63, 0), (64, 1), (99, 98)] {
            ids[at] = format!("ID-{of}");
        }
        let (events, repeated) = read(&document(ids));
        assert_eq!(repeated, [5, 40, 63]);
        assert_eq!(events.len(), 97);
        assert!(repeated.iter().all(|index| !events.contains(index)));
    }

    #[test]
    fn different_ids_are_never_duplicates() {
        let text = document((0..1000).map(|n| format!("C7061BAC-AFDC-4513-B24B-{n:012X}")));
        let (events, repeated) = read(&text);
        assert_eq!((events.len(), repeated.len()), (1000, 0));
    }

    #[test]
    fn only_the_first_event_of_an_id_remains() {
        let (events, repeated) = read(&document(
            (0..60).map(|n| format!("{}{}", ["id", "ID"][n % 2], n % 5)),
        ));
        assert_eq!((events, repeated.len()), ([0, 1, 2, 3, 4].to_vec(), 55));
        let (events, repeated) = read(&document((0..50_000).map(|_| String::from("a"))));
        assert_eq!((events.len(), repeated.len()), (50_000 - 63, 63));
    }

    #[test]
    fn escapes_and_other_elements_do_not_hide_a_duplicate() {
        let body = br#"{"Events":[7,{"EventId":5},{},{"EventId":"a"},{"EventType":"x","Event\u0049d" : "\u0041"},8]}"#;
        let (events, repeated) = read(core::str::from_utf8(body).unwrap());
        assert_eq!((events, repeated), ([3].to_vec(), [4].to_vec()));
    }

    #[test]
    fn ids_of_equal_hashes_are_different_events() {
        let first = hash(&Text::plain("vm-0"));
        let other = (1..1_000_000)
            .map(|n| format!("vm-{n}"))
            .find(|id| hash(&Text::plain(id)) == first)
            .unwrap();
        let ids = [String::from("vm-0"), other.clone(), other.to_uppercase()];
        let (events, repeated) = read(&document(ids));
        assert_eq!((events, repeated), ([0, 1].to_vec(), [2].to_vec()));
    }

    #[test]
    fn ids_that_all_have_one_hash_are_compared_in_linear_time() {
        // Two chunks of eight bytes after which the hash is the same, for each of ten places in an id.
        let pairs = [
            ["uvinwvxpmnxwfhub", "gbhwkxfczw221j71"],
            ["bsdoytxrruhbxdrm", "zcynbnepvdifaz3r"],
            ["suzynhbbwzqynfhe", "ukmpblimnjbnyqk5"],
            ["szjjmdyvhnyacdoz", "szfvbdsrylsac21j"],
            ["omquwguimhoeljch", "crphinxour5cfvgg"],
            ["rkutjgsazndzbwoi", "fdueygys8jgxzht1"],
            ["hscbyrtplhikpqgu", "dbfpxzlfnibij3ds"],
            ["ywpjmfjhauditrbt", "krgwworjxjwtolao"],
            ["ieljqgrtenlqwyuv", "wvdqoeoftet2t7h0"],
            ["dukwfmsftrldozto", "xvsrjdcloc1fwuga"],
        ];
        let id = |n: usize| {
            let chunks: Vec<_> = pairs
                .iter()
                .enumerate()
                .map(|(k, pair)| pair[n >> k & 1])
                .collect();
            format!("{}{}", "x".repeat(1008), chunks.concat())
        };
        assert_eq!(hash(&Text::plain(&id(0))), hash(&Text::plain(&id(1023))));
        let (events, repeated) = read(&document((0..1000).map(id)));
        assert_eq!((events.len(), repeated.len()), (1000, 0));
        // Each of the later half is found among all others of its hash.
        let (events, repeated) = read(&document((0..64).map(|n| id(n % 32))));
        assert_eq!((events.len(), repeated.len()), (32, 32));
    }
}
