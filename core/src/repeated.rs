//! Which events of a document repeat an `EventId`, found in one pass, a bounded number of times over, without storage
//! for the ids.

use crate::event::{EVENT_DEPTH, Event, Member};
use crate::hash::Hash;
use crate::json::{Scanner, Text, value};

/// How many repeated events a document remembers. Azure sends none; from the seventeenth on they are no longer left
/// out, and a tracker ignores them all the same.
const KEPT: usize = 16;

/// How many ids are listed at a time: by their hashes while the document is read, with their places when it is gone over
/// again.
const LISTED: usize = 64;

/// The size of the filter, in words: as much as the list takes.
const FILTER: usize = 2 * LISTED;

/// The size of the filter for ids that were doubted, in words.
const DOUBTS: usize = 16;

/// How ids are searched for: by the letter in the names before them that documents have the fewest of, and its place there.
const LETTER: u8 = b'I';
const LETTER_END: usize = "EventI".len();

/// How far before an id its name starts at most: with a quote, a colon and a space.
const NAME_MAX: usize = "EventId\": ".len();

/// How often the document is gone over again to see which doubted ids stand there twice. Once is enough for a thousand
/// events; the bound is what keeps a hostile document linear.
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
        if let Some(slot) = self.offsets.get_mut(usize::from(self.count)) {
            *slot = offset;
            self.count = self.count.saturating_add(1);
        }
    }

    const fn is_full(&self) -> bool {
        self.count as usize == KEPT
    }
}

/// Finds repeated ids. The hashes of the first ids are listed; when there are more, a Bloom filter takes over in the same
/// memory. Ids that seem to be known by then are doubted, which a second filter remembers; those that it knows are few.
///
/// If there are any, ids are looked at once more, not the document: from each the next is at least as far as the two
/// nearest ones are. Their hashes are listed. Where one is listed twice, or other places were found than before, the whole
/// document is gone over once more, and doubted ids are listed with their places and compared.
pub(crate) struct RepeatFinder<'r, 'a> {
    text: &'a str,
    /// Where the `Events` array starts.
    events: usize,
    /// The list of hashes, then the filter, then the list of hashes and places.
    words: [u32; FILTER],
    listed: u8,
    /// Whether the filter has taken over.
    filters: bool,
    doubts: [u32; DOUBTS],
    doubted: bool,
    /// Where ids stand.
    places: Places,
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
            doubts: [0; DOUBTS],
            doubted: false,
            places: Places::new(),
            repeats,
        }
    }

    /// Takes the next event that has an id.
    #[inline]
    pub(crate) fn see(&mut self, event: &Event<'_>) {
        self.places.add(event.id_offset());
        let hash = hash(&event.event_id());
        if self.seems_known(hash) {
            set(&mut self.doubts, hash);
            self.doubted = true;
        }
    }

    /// Whether the hash was seen before: certainly when it was, rarely when it was not.
    fn seems_known(&mut self, hash: u32) -> bool {
        if !self.filters {
            let list = self.words.first_chunk_mut::<LISTED>();
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
        let Some(list) = self.words.first_chunk_mut::<LISTED>() else { return };
        for hash in core::mem::replace(list, [0; LISTED]) {
            set(&mut self.words, hash);
        }
        self.filters = true;
    }

    /// Settles the doubts, if there are any; how often the document was gone over for that.
    pub(crate) fn finish(&mut self) -> u8 {
        let mut passes = 0;
        if !self.doubted || self.finds_none_twice().is_some() {
            return passes;
        }
        let mut from = Some(0);
        while let Some(offset) = from
            && passes < MAX_PASSES
        {
            from = self.settle(offset);
            passes = passes.wrapping_add(1);
        }
        passes
    }

    /// Looks at the ids once more: `Some` where none of those that are doubted stands there twice, `None` where one seems to,
    /// or it cannot be told.
    #[inline(never)] // As for `settle`.
    fn finds_none_twice(&mut self) -> Option<()> {
        let mut found = Places::new();
        let mut listed: usize = 0;
        let mut place = self.places.first;
        loop {
            let hash = hash(&Scanner::new(self.text, place, 0).string().ok()?);
            found.add(place);
            if has(&self.doubts, hash) {
                let (known, free) = self.words.split_at_mut_checked(listed)?;
                if known.contains(&hash) {
                    return None;
                }
                *free.first_mut()? = hash;
                listed = listed.wrapping_add(1);
            }
            if found.count == self.places.count {
                return (found.hash.finish() == self.places.hash.finish()).then_some(());
            }
            place = self.next_id(place.checked_add(self.places.nearest)?)?;
        }
    }

    /// Where the next id stands, at `place` or behind it, as far as its name tells.
    fn next_id(&self, place: usize) -> Option<usize> {
        let text = self.text.as_bytes();
        let mut at = place.saturating_sub(NAME_MAX);
        loop {
            at = at.wrapping_add(text.get(at..)?.iter().position(|&byte| byte == LETTER)?).wrapping_add(1);
            let name = text.get(at.wrapping_sub(LETTER_END)..).unwrap_or_default();
            if let Some(id) = Member::EventId.behind_name(name).and_then(|behind| value(b'"', behind)) {
                return Some(text.len().wrapping_sub(id.len()));
            }
        }
    }

    /// Lists the doubted ids whose values stand at `from` or behind it, and keeps the places where they stand again.
    /// Where the list was full, if it was: ids before that place need not be looked at any more.
    #[inline(never)] // Its stack is not to be added to that of every document.
    fn settle(&mut self, from: usize) -> Option<usize> {
        self.listed = 0;
        let mut full = None;
        let mut scanner = Scanner::new(self.text, self.events, EVENT_DEPTH.wrapping_sub(1));
        let mut first = true;
        scanner.open_array().ok()?;
        while !self.repeats.is_full()
            && let Ok(true) = scanner.next_element(&mut first)
        {
            if scanner.peek() != Some(b'{') {
                scanner.skip_checked().ok()?;
            } else if let Some((offset, id)) = Event::id_of(&mut scanner)
                && offset >= from
                && !self.compare(offset, &id)
            {
                full = full.or(Some(offset));
            }
        }
        full
    }

    /// Keeps the place if its id is listed, and lists it otherwise; whether there was room for that.
    fn compare(&mut self, offset: usize, id: &Text<'_>) -> bool {
        let hash = hash(id);
        let Ok(offset) = u32::try_from(offset) else { return true };
        if !has(&self.doubts, hash) || self.repeats.contains(offset as usize) {
            return true;
        }
        let (list, _) = self.words.as_chunks_mut();
        let (listed, free) = list.split_at_mut_checked(self.listed.into()).unwrap_or_default();
        if listed.iter().any(|&[known, place]| known == hash && same_id(self.text, place as usize, id)) {
            self.repeats.push(offset);
            return true;
        }
        let [place, ..] = free else { return false };
        *place = [hash, offset];
        self.listed = self.listed.wrapping_add(1);
        true
    }
}

/// A summary of the places where ids stand.
struct Places {
    first: usize,
    last: usize,
    count: usize,
    /// How near to each other the two nearest are.
    nearest: usize,
    /// Of all of them, in their order.
    hash: Hash,
}

impl Places {
    const fn new() -> Self {
        Self { first: 0, last: 0, count: 0, nearest: usize::MAX, hash: Hash::new() }
    }

    #[inline]
    fn add(&mut self, place: usize) {
        if self.count == 0 {
            self.first = place;
        } else {
            self.nearest = self.nearest.min(place.wrapping_sub(self.last));
        }
        self.last = place;
        self.count = self.count.wrapping_add(1);
        self.hash.word(place as u64);
    }
}

/// Whether the string at `offset`, which was read before, is this id.
#[inline(never)] // As for `settle`.
fn same_id(text: &str, offset: usize, id: &Text<'_>) -> bool {
    let fold = |char: char| char.to_ascii_uppercase();
    match Scanner::new(text, offset, 0).string() {
        Ok(known) => known.chars().map(fold).eq(id.chars().map(fold)),
        Err(_) => false,
    }
}

/// A hash that is never 0, which means that no id is listed.
fn hash(id: &Text<'_>) -> u32 {
    u32::try_from(Hash::of_id(id) >> 32).unwrap_or(1).max(1)
}

/// Sets the bits that stand for `hash`; whether all were set before. The filter has a power of two of words.
fn set<const WORDS: usize>(filter: &mut [u32; WORDS], hash: u32) -> bool {
    let mut known = true;
    for part in parts(hash) {
        if let Some(word) = filter.get_mut((part >> 5) as usize & WORDS.wrapping_sub(1)) {
            let bit = 1 << (part & 31);
            known &= *word & bit != 0;
            *word |= bit;
        }
    }
    known
}

/// Whether the bits that stand for `hash` are all set.
fn has<const WORDS: usize>(filter: &[u32; WORDS], hash: u32) -> bool {
    parts(hash).iter().all(|part| {
        filter.get((part >> 5) as usize & WORDS.wrapping_sub(1)).is_some_and(|word| word >> (part & 31) & 1 != 0)
    })
}

/// Three bits for each hash find the fewest ids known that are not, when there are a thousand.
fn parts(hash: u32) -> [u32; 3] {
    [hash, hash >> 10, hash >> 20]
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

    /// How often a document is gone over again.
    fn passes(ids: impl Iterator<Item = String>) -> u8 {
        let text = document(ids);
        let mut repeats = Repeats::default();
        let mut finder = RepeatFinder::new(&text, "{\"Events\":".len(), &mut repeats);
        Document::parse_each(text.as_bytes(), &mut [], |event, _, _| finder.see(event)).unwrap();
        finder.finish()
    }

    #[test]
    fn a_document_is_gone_over_again_as_rarely_as_can_be() {
        let numbered = |count: u32| (0..count).map(|n| format!("id-{n}"));
        // So many are listed, and known for certain.
        assert_eq!(passes(numbered(64)), 0);
        assert_eq!(passes(numbered(64).chain([String::from("ID-63")])), 1);
        assert_eq!(passes(numbered(65)), 0);
        assert_eq!(passes(numbered(1000)), 0);
        assert_eq!(passes((0..1000).map(|_| String::from("a"))), 1);
        assert_eq!(passes(numbered(5000)), MAX_PASSES);
    }

    #[test]
    fn ids_are_found_again_wherever_they_stand() {
        let event = |n: usize, id: &str| match n % 50 {
            // Far from each other, spelt with escapes, behind a name like theirs, none at all.
            7 => format!("{{\"Description\":\"{}\",\"EventId\": \"{id}\"}}", "I".repeat(3000)),
            8 => format!("{{\"Event\\u0049d\":\"{id}\"}}"),
            9 => format!("{{\"a\":{{\"EventId\":\"id-0\"}},\"EventId\":\"{id}\"}}"),
            10 => String::from("{\"EventId\":5}"),
            _ => format!("{{\"EventId\":\"{id}\"}}"),
        };
        for odd in [false, true] {
            for repeated in [None, Some(64), Some(400), Some(799)] {
                let id = |n: usize| if Some(n) == repeated { String::from("ID-33") } else { format!("id-{n}") };
                let events: Vec<_> = (0..800).map(|n| event(if odd { n } else { 7 * (n % 2) }, &id(n))).collect();
                let text = format!("{{\"Events\":[{}]}}", events.join(","));
                let document = Document::parse(text.as_bytes()).unwrap();
                let found = document.problems().find(|problem| problem.kind == crate::error::ProblemKind::Repeated);
                assert_eq!(found.and_then(|problem| problem.event), repeated, "odd: {odd}");
            }
        }
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
