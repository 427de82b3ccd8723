//! Which events of a document repeat an `EventId`, found in one pass, a bounded number of times over, without storage
//! for the ids.

use crate::event::{EVENT_DEPTH, Event};
use crate::hash::Hash;
use crate::json::{Scanner, Text, Value};

/// How many repeated events a document remembers. Azure sends none; from the seventeenth on they are no longer left
/// out, and a tracker ignores them all the same.
const KEPT: usize = 16;

/// How many ids are remembered, or suspected, at a time.
const LISTED: usize = 20;

/// How often the document is gone over again to see whether suspected ids stand there twice. Enough for more than a
/// thousand events; the bound is what keeps a hostile document linear.
const MAX_PASSES: u8 = 8;

/// Where the values of repeated `EventId`s stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeats {
    offsets: [usize; KEPT],
    count: usize,
}

impl Repeats {
    /// Whether the `EventId` whose value stands at `offset` has been seen before it.
    pub(crate) fn contains(&self, offset: usize) -> bool {
        self.offsets.iter().take(self.count).any(|&known| known == offset)
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    fn push(&mut self, offset: usize) {
        if !self.contains(offset)
            && let Some(slot) = self.offsets.get_mut(self.count)
        {
            *slot = offset;
            self.count = self.count.saturating_add(1);
        }
    }

    const fn is_full(&self) -> bool {
        self.count == KEPT
    }
}

#[derive(Clone, Copy, Default)]
struct Listed {
    hash: u64,
    offset: usize,
}

/// Finds repeated ids. The first few ids are simply listed and compared. When there are more, a Bloom filter takes
/// over, and the list collects the ids that the filter thinks it has seen; a full list is settled by going over the
/// document once more.
pub(crate) struct RepeatFinder<'a> {
    text: &'a str,
    /// Where the `Events` array starts.
    events: usize,
    list: [Listed; LISTED],
    listed: usize,
    filter: [u64; 64],
    /// Whether the filter has taken over.
    filters: bool,
    passes: u8,
    repeats: Repeats,
}

impl<'a> RepeatFinder<'a> {
    pub(crate) fn new(text: &'a str, events: usize) -> Self {
        Self {
            text,
            events,
            list: [Listed::default(); LISTED],
            listed: 0,
            filter: [0; 64],
            filters: false,
            passes: 0,
            repeats: Repeats::default(),
        }
    }

    /// Takes the next id, whose value stands at `offset`.
    pub(crate) fn see(&mut self, id: &Text<'_>, offset: usize) {
        if self.repeats.is_full() || self.passes >= MAX_PASSES {
            return;
        }
        let next = Listed { hash: hash(id), offset };
        if !self.filters {
            let mut listed = self.list.iter().take(self.listed);
            if listed.any(|known| known.hash == next.hash && self.same_id(known.offset, id)) {
                self.repeats.push(offset);
                return;
            }
            if self.push(next) {
                return;
            }
            self.start_filter();
        }
        if set(&mut self.filter, next.hash) && !self.push(next) {
            self.settle(offset);
            self.push(next);
        }
    }

    /// What was found.
    pub(crate) fn finish(&mut self) -> Repeats {
        if self.filters && self.listed > 0 {
            self.settle(usize::MAX);
        }
        self.repeats
    }

    fn push(&mut self, id: Listed) -> bool {
        match self.list.get_mut(self.listed) {
            Some(slot) => {
                *slot = id;
                self.listed = self.listed.saturating_add(1);
                true
            }
            None => false,
        }
    }

    fn start_filter(&mut self) {
        for known in self.list.iter().take(self.listed) {
            set(&mut self.filter, known.hash);
        }
        self.filters = true;
        self.listed = 0;
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
        self.listed = 0;
    }

    /// Keeps the suspects behind `offset` that are the id which stands there.
    fn compare(&mut self, offset: usize, id: &Text<'_>) {
        let hash = hash(id);
        for suspect in self.list.iter().take(self.listed) {
            if suspect.hash == hash && suspect.offset > offset && self.same_id(suspect.offset, id) {
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

fn hash(id: &Text<'_>) -> u64 {
    let mut hash = Hash::new();
    match id.as_str() {
        Some(id) => id.bytes().for_each(|byte| hash.byte(byte.to_ascii_uppercase())),
        None => hash.chars(id.chars().map(|char| char.to_ascii_uppercase())),
    }
    // The filter wants bits that are independent of each other, which FNV's are not for ids that differ in one digit.
    let hash = hash.finish();
    (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Sets the two bits that stand for `hash`; whether both were set before.
fn set(filter: &mut [u64; 64], hash: u64) -> bool {
    let mut known = true;
    for part in [hash >> 40, hash >> 52] {
        let bit = 1 << (part & 63);
        if let Some(word) = filter.get_mut((part >> 6 & 63) as usize) {
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
        assert_eq!(document.problems().count(), super::KEPT);
        assert_eq!(document.events().count(), 50_000 - super::KEPT);
    }
}
