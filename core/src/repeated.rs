//! Which events of a document repeat an `EventId`, found in one pass, a bounded number of times over, without storage
//! for the ids.

use crate::event::{EVENT_DEPTH, Event};
use crate::hash::Hash;
use crate::json::{Scanner, Text, Value};

/// How many repeated events a document remembers. Azure sends none; from the seventeenth on they are no longer left
/// out, and a tracker ignores them all the same.
const KEPT: usize = 16;

/// How many ids are told apart by their hashes, before a filter has to do.
const HASHES: usize = 64;

/// The size of the filter, in words.
const FILTER: usize = 128;

/// How many ids are suspected at a time.
const SUSPECTS: usize = 16;

/// How often the document is gone over again to see whether suspected ids stand there twice, not counting the last time
/// at its end. Enough for more than a thousand events; the bound is what keeps a hostile document linear.
const MAX_PASSES: u8 = 8;

/// Where the values of repeated `EventId`s stand; those beyond four gibibytes are not remembered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeats {
    offsets: [u32; KEPT],
    count: u8,
}

impl Repeats {
    /// Whether the `EventId` whose value stands at `offset` has been seen before it.
    pub(crate) fn contains(&self, offset: usize) -> bool {
        self.offsets.iter().take(self.count.into()).any(|&known| known as usize == offset)
    }

    pub(crate) const fn count(&self) -> usize {
        self.count as usize
    }

    fn push(&mut self, offset: u32) {
        if !self.contains(offset as usize)
            && let Some(slot) = self.offsets.get_mut(usize::from(self.count))
        {
            *slot = offset;
            self.count = self.count.saturating_add(1);
        }
    }

    const fn is_full(&self) -> bool {
        self.count as usize == KEPT
    }
}

#[derive(Clone, Copy, Default)]
struct Suspect {
    hash: u32,
    offset: u32,
}

/// Finds repeated ids. The hashes of the first ids are listed; when there are more, a Bloom filter takes over in the same
/// memory. Ids whose hashes seem to be known are collected, and settled by going over the document once more.
pub(crate) struct RepeatFinder<'r, 'a> {
    text: &'a str,
    /// Where the `Events` array starts.
    events: usize,
    /// The list of hashes, then the filter.
    words: [u32; FILTER],
    listed: u8,
    /// Whether the filter has taken over.
    filters: bool,
    passes: u8,
    suspected: u8,
    suspects: [Suspect; SUSPECTS],
    /// What was found.
    repeats: &'r mut Repeats,
}

impl<'r, 'a> RepeatFinder<'r, 'a> {
    pub(crate) fn new(text: &'a str, events: usize, repeats: &'r mut Repeats) -> Self {
        Self {
            text,
            events,
            words: [0; FILTER],
            listed: 0,
            filters: false,
            passes: 0,
            suspected: 0,
            suspects: [Suspect::default(); SUSPECTS],
            repeats,
        }
    }

    /// Takes the next id, whose value stands at `offset`.
    pub(crate) fn see(&mut self, id: &Text<'_>, offset: usize) {
        if self.repeats.is_full() || self.passes >= MAX_PASSES {
            return;
        }
        let hash = hash(id);
        if self.seems_known(hash)
            && let Ok(offset) = u32::try_from(offset)
        {
            if usize::from(self.suspected) == SUSPECTS {
                self.settle(offset as usize);
            }
            if let Some(place) = self.suspects.get_mut(usize::from(self.suspected)) {
                *place = Suspect { hash, offset };
                self.suspected = self.suspected.saturating_add(1);
            }
        }
    }

    /// Settles what is left.
    pub(crate) fn finish(&mut self) {
        if self.suspected > 0 {
            self.settle(usize::MAX);
        }
    }

    /// Whether the hash was seen before: certainly when it was, rarely when it was not.
    fn seems_known(&mut self, hash: u32) -> bool {
        if !self.filters {
            let list = self.words.first_chunk_mut::<HASHES>();
            if list.as_ref().is_some_and(|list| list.contains(&hash)) {
                return true;
            }
            if let Some(place) = list.and_then(|list| list.get_mut(usize::from(self.listed))) {
                *place = hash;
                self.listed = self.listed.saturating_add(1);
                return false;
            }
            self.start_filter();
        }
        set(&mut self.words, hash)
    }

    #[inline(never)] // Its copy is not to be added to the stack of every document.
    fn start_filter(&mut self) {
        let Some(list) = self.words.first_chunk_mut::<HASHES>() else { return };
        for hash in core::mem::replace(list, [0; HASHES]) {
            set(&mut self.words, hash);
        }
        self.filters = true;
    }

    /// Goes over the events before `until` and keeps those suspects whose id stands there before themselves.
    #[inline(never)] // Its stack is not to be added to that of every document.
    fn settle(&mut self, until: usize) {
        self.passes = self.passes.saturating_add(1);
        let mut scanner = Scanner::new(self.text, self.events, EVENT_DEPTH.wrapping_sub(1));
        let mut first = true;
        if scanner.open_array().is_err() {
            return;
        }
        while let Ok(true) = scanner.next_element(&mut first) {
            if scanner.offset() >= until {
                break;
            }
            if scanner.peek() != Some(b'{') {
                if scanner.value().is_err() {
                    break;
                }
            } else if let Some((offset, id)) = Event::id_of(&mut scanner) {
                self.compare(offset, &id);
            }
        }
        self.suspected = 0;
    }

    /// Keeps the suspects behind `offset` that are the id which stands there.
    fn compare(&mut self, offset: usize, id: &Text<'_>) {
        let hash = hash(id);
        for suspect in self.suspects.iter().take(self.suspected.into()) {
            if suspect.hash == hash && suspect.offset as usize > offset && self.same_id(suspect.offset as usize, id) {
                self.repeats.push(suspect.offset);
            }
        }
    }

    /// Whether the string at `offset`, which was read before, is this id.
    fn same_id(&self, offset: usize, id: &Text<'_>) -> bool {
        let fold = |char: char| char.to_ascii_uppercase();
        match Scanner::new(self.text, offset, 0).value() {
            Ok(Value::String(known)) => known.chars().map(fold).eq(id.chars().map(fold)),
            _ => false,
        }
    }
}

/// A hash that is never 0, which means that no id is listed.
fn hash(id: &Text<'_>) -> u32 {
    u32::try_from(Hash::of_id(id) >> 32).unwrap_or(1).max(1)
}

/// Sets the two bits that stand for `hash`; whether both were set before.
fn set(filter: &mut [u32; FILTER], hash: u32) -> bool {
    let mut known = true;
    for part in [hash, hash >> 16] {
        let bit = 1 << (part & 31);
        if let Some(word) = filter.get_mut((part >> 5 & 127) as usize) {
            known &= *word & bit != 0;
            *word |= bit;
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    use super::*;
    use crate::document::Document;

    fn document(ids: impl Iterator<Item = String>) -> String {
        let events: Vec<_> = ids.map(|id| format!("{{\"EventId\":\"{id}\"}}")).collect();
        format!("{{\"Events\":[{}]}}", events.join(","))
    }

    #[test]
    fn twelve_hundred_ids_and_a_few_repeated_ones() {
        let mut ids: Vec<_> = (0..1200).map(|n| format!("id-{n}")).collect();
        for (at, of) in [(5, 3), (40, 39), (900, 31), (1100, 1), (1199, 1198)] {
            ids[at] = format!("ID-{of}");
        }
        let text = document(ids.into_iter());
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!(document.events().len(), 1195);
        let repeated: Vec<_> = document.problems().map(|problem| problem.event.unwrap()).collect();
        assert_eq!(repeated, [5, 40, 900, 1100, 1199]);
    }

    #[test]
    fn a_thousand_different_ids_have_no_repeats() {
        let text = document((0..1000).map(|n| format!("C7061BAC-AFDC-4513-B24B-{n:012X}")));
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!((document.events().len(), document.problems().count()), (1000, 0));
    }

    #[test]
    fn a_document_of_nothing_but_repeats_is_read_all_the_same() {
        let text = document((0..50_000).map(|_| String::from("a")));
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!(document.problems().count(), KEPT);
        assert_eq!(document.events().count(), 50_000 - KEPT);
    }

    /// What is left of the search through a document: how often it was gone over again, and what the finder knows.
    fn searched(ids: impl Iterator<Item = String>) -> (u8, u8, bool) {
        let text = document(ids);
        let mut repeats = Repeats::default();
        let mut finder = RepeatFinder::new(&text, "{\"Events\":".len(), &mut repeats);
        Document::parse_each(text.as_bytes(), &mut [], |event, _, _| finder.see(&event.event_id(), event.id_offset()))
            .unwrap();
        finder.finish();
        (finder.passes, finder.listed, finder.filters)
    }

    #[test]
    fn a_document_is_gone_over_again_as_rarely_as_can_be() {
        let numbered = |count: u32| (0..count).map(|n| format!("id-{n}"));
        // So many are listed, and known for certain.
        assert_eq!(searched(numbered(64)), (0, 64, false));
        assert_eq!(searched(numbered(64).chain([String::from("ID-63")])), (1, 64, false));
        assert_eq!(searched(numbered(65)), (0, 64, true));
        // No more once no more can be remembered, but for the one that was suspected meanwhile.
        assert_eq!(searched((0..1000).map(|_| String::from("a"))), (2, 1, false));
        assert_eq!(searched(numbered(3000)).0, MAX_PASSES + 1);
    }

    #[test]
    fn ids_of_the_same_hash_are_different_events() {
        let ids = ["vm-58908", "vm-119802"];
        assert_eq!(hash(&Text::plain(ids[0])), hash(&Text::plain(ids[1])));
        let text = document(ids.map(String::from).into_iter());
        assert_eq!(Document::parse(text.as_bytes()).unwrap().events().len(), 2);
    }

    #[test]
    fn elements_without_an_id_do_not_hide_a_repeated_one() {
        let body = br#"{"Events":[7,{"EventId":5},{},{"EventId":"a"},{"EventType":"x","EventId":"A"}]}"#;
        let document = Document::parse(body).unwrap();
        let repeated = document.problems().filter(|problem| problem.kind == crate::error::ProblemKind::Repeated);
        assert_eq!(repeated.map(|problem| problem.event).collect::<Vec<_>>(), [Some(4)]);
        assert_eq!(document.events().len(), 1);
    }
}
