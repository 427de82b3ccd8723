//! Detection of events that repeat the `EventId` of an earlier event.
//!
//! Azure sends no duplicates, so the search is simple and bounded: the first [`DUPLICATE_ID_WINDOW`] ids of a document are
//! compared with each other, later ones are not. Only hashes and offsets are stored. Where two hashes are equal, the ids
//! themselves are compared in the document, so that a collision hides no event. Each id is compared with at most 63 others,
//! so reading stays linear in the document's length even if all hashes are equal.

use crate::hash::Hash;
use crate::json::{Scanner, Text};

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

/// Finds the duplicates while a document is read.
pub(crate) struct DuplicateIdFinder<'a> {
    /// The document, in which earlier ids are read again.
    text: &'a str,
    /// The ids so far, duplicates included.
    ids: [SeenId; DUPLICATE_ID_WINDOW],
    count: usize,
    duplicates: DuplicateIds,
}

#[derive(Clone, Copy)]
struct SeenId {
    hash: u32,
    /// Of the opening quote. An id beyond 4 GiB is not compared.
    offset: u32,
}

impl<'a> DuplicateIdFinder<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        let none = SeenId { hash: 0, offset: 0 };
        Self { text, ids: [none; DUPLICATE_ID_WINDOW], count: 0, duplicates: DuplicateIds::NONE }
    }

    /// Adds the next id of the document, whose opening quote is at `offset`.
    #[inline]
    pub(crate) fn insert(&mut self, id: &Text<'_>, offset: usize) {
        if self.count < DUPLICATE_ID_WINDOW {
            self.insert_in_window(id, offset);
        }
    }

    fn insert_in_window(&mut self, id: &Text<'_>, offset: usize) {
        let position = self.count;
        self.count = position.wrapping_add(1);
        let hash = u32::try_from(Hash::of_id(id) >> 32).unwrap_or_default();
        let seen = self.ids.get(..position).unwrap_or_default();
        if seen.iter().any(|seen| seen.hash == hash && self.is_id_at(seen.offset, id)) {
            self.duplicates.insert(position);
        }
        if let (Some(entry), Ok(offset)) = (self.ids.get_mut(position), u32::try_from(offset)) {
            *entry = SeenId { hash, offset };
        }
    }

    /// Whether the string at `offset` is this id, ASCII case ignored.
    #[cold]
    fn is_id_at(&self, offset: u32, id: &Text<'_>) -> bool {
        let fold = |char: char| char.to_ascii_lowercase();
        match Scanner::new(self.text, offset as usize, 0).string() {
            Ok(seen) => seen.chars().map(fold).eq(id.chars().map(fold)),
            Err(_) => false,
        }
    }

    pub(crate) const fn duplicates(&self) -> DuplicateIds {
        self.duplicates
    }
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
        let events: Vec<_> = ids.into_iter().map(|id| format!("{{\"EventId\":\"{id}\"}}")).collect();
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
        let repeated = document.problems().filter(|problem| problem.kind == ProblemKind::Repeated);
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
        let (events, repeated) = read(&document((0..60).map(|n| format!("{}{}", ["id", "ID"][n % 2], n % 5))));
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

    /// The part of the hash that is stored.
    fn stored_hash(id: &str) -> u32 {
        let mut finder = DuplicateIdFinder::new("");
        finder.insert(&Text::plain(id), 0);
        finder.ids[0].hash
    }

    #[test]
    fn ids_of_equal_hashes_are_different_events() {
        let ids = ["vm-58908", "vm-119802"];
        assert_eq!(stored_hash(ids[0]), stored_hash(ids[1]));
        let (events, repeated) = read(&document(ids.map(String::from)));
        assert_eq!((events.len(), repeated.len()), (2, 0));
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
            let chunks: Vec<_> = pairs.iter().enumerate().map(|(k, pair)| pair[n >> k & 1]).collect();
            format!("{}{}", "x".repeat(1008), chunks.concat())
        };
        assert_eq!(stored_hash(&id(0)), stored_hash(&id(1023)));
        let (events, repeated) = read(&document((0..1000).map(id)));
        assert_eq!((events.len(), repeated.len()), (1000, 0));
        // The same ids again: each is found among 63 others of its hash.
        let (events, repeated) = read(&document((0..64).map(|n| id(n % 32))));
        assert_eq!((events.len(), repeated.len()), (32, 32));
    }
}
