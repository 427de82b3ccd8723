//! Which events of a document repeat an `EventId`, found in one pass, a bounded number of times over, without storage
//! for the ids.

use crate::event::{EVENT_DEPTH, Event, Member};
use crate::hash::Hash;
use crate::json::{Scanner, Text, value};

/// Among how many elements a document remembers those that repeat an id. Azure has announced no more, and sends no repeats;
/// later ones are not left out, and a tracker ignores them all the same.
const KEPT: usize = 1024;

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
/// events of which few are repeated; the bound is what keeps a hostile document linear.
const MAX_PASSES: u8 = 8;

/// With how many listed ids of its hash an id is compared. Three of one hash do not come together by chance, so whoever
/// made them gets no more work for it.
const ALIKE: usize = 2;

/// Which elements of `Events` repeat an id, a bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeats {
    elements: [u32; KEPT / 32],
    count: u16,
}

impl Repeats {
    pub(crate) const NONE: Self = Self { elements: [0; KEPT / 32], count: 0 };

    /// Whether the element of this index repeats an id.
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.count > 0 && self.elements.get(index / 32).is_some_and(|word| word >> (index % 32) & 1 != 0)
    }

    pub(crate) const fn count(&self) -> usize {
        self.count as usize
    }

    fn insert(&mut self, index: usize) {
        if let Some(word) = self.elements.get_mut(index / 32) {
            *word |= 1 << (index % 32);
            self.count = self.count.saturating_add(1);
        }
    }
}

/// Finds repeated ids. The hashes of the first ids are listed; when there are more, a Bloom filter takes over in the same
/// memory. Ids that seem to be known by then are doubted, which a second filter remembers; those that it knows are few.
///
/// If there are any, ids are looked at once more, not the document: from each the next is at least as far as the two
/// nearest ones are. Their hashes are listed. Where one is listed twice, other ids were found than before, or something in
/// the events is not known, the whole document is gone over once more, and doubted ids are listed with their places and
/// compared.
pub(crate) struct RepeatFinder<'r, 'a> {
    text: &'a str,
    /// Where the `Events` array starts.
    events: usize,
    /// The list of hashes, then the filter, then the list of doubted hashes, then that of hashes and places.
    words: [u32; FILTER],
    listed: u8,
    /// Whether the filter has taken over.
    filters: bool,
    doubts: [u32; DOUBTS],
    doubted: bool,
    /// Whether what looks like the name of an id may be part of a member that is not known.
    unsure: bool,
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
            unsure: false,
            places: Places::new(),
            repeats,
        }
    }

    /// Takes the next event that has an id.
    #[inline]
    pub(crate) fn see(&mut self, event: &Event<'_>) {
        self.places.add(event.id_offset());
        self.unsure |= event.has_unknown_members();
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

    /// Settles the doubts, if there are any; how often the document was gone over for that. Some element may be `odd`.
    pub(crate) fn finish(&mut self, odd: bool) -> u8 {
        let mut passes = 0;
        self.unsure |= odd;
        if !self.doubted || !self.unsure && self.finds_none_twice().is_some() {
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
    /// or it cannot be told. No text can hold what a name looks like, so that in events whose members are all known there
    /// is nothing else to find: as many as before are the same ones.
    #[inline(never)] // As for `settle`.
    fn finds_none_twice(&mut self) -> Option<()> {
        let mut found: usize = 0;
        let mut listed: usize = 0;
        let mut place = self.places.first;
        loop {
            let hash = hash(&Scanner::new(self.text, place, 0).string().ok()?);
            found = found.wrapping_add(1);
            if has(&self.doubts, hash) {
                let (known, free) = self.words.split_at_mut_checked(listed)?;
                if known.contains(&hash) {
                    return None;
                }
                *free.first_mut()? = hash;
                listed = listed.wrapping_add(1);
            }
            if found == self.places.count {
                return Some(());
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
        let mut next: usize = 0;
        while scanner.next_element(&mut first).ok()? {
            let index = next;
            next = index.wrapping_add(1);
            if scanner.peek() != Some(b'{') {
                scanner.skip_checked().ok()?;
            } else if let Some((offset, id)) = Event::id_of(&mut scanner)
                && offset >= from
                && !self.compare(index, offset, &id)
            {
                full = full.or(Some(offset));
            }
        }
        full
    }

    /// Keeps the element's index if its id is listed, and lists it otherwise; whether there was room for that.
    fn compare(&mut self, index: usize, offset: usize, id: &Text<'_>) -> bool {
        let hash = hash(id);
        let Ok(offset) = u32::try_from(offset) else { return true };
        if !has(&self.doubts, hash) || self.repeats.contains(index) {
            return true;
        }
        let (list, _) = self.words.as_chunks_mut();
        let (listed, free) = list.split_at_mut_checked(self.listed.into()).unwrap_or_default();
        let mut alike: usize = 0;
        for &[_, place] in listed.iter().filter(|[known, _]| *known == hash) {
            if same_id(self.text, place as usize, id) {
                self.repeats.insert(index);
                return true;
            }
            alike = alike.wrapping_add(1);
            if alike == ALIKE {
                return true;
            }
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
}

impl Places {
    const fn new() -> Self {
        Self { first: 0, last: 0, count: 0, nearest: usize::MAX }
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
        // The last one stands too far behind to be remembered.
        for (at, of) in [(5, 3), (40, 39), (900, 31), (1001, 1), (1023, 1022), (1024, 1000)] {
            ids[at] = format!("ID-{of}");
        }
        let text = document(ids.into_iter());
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!(document.events().len(), 1195);
        let repeated: Vec<_> = document.problems().map(|problem| problem.event.unwrap()).collect();
        assert_eq!(repeated, [5, 40, 900, 1001, 1023]);
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
        assert_eq!(document.problems().count(), KEPT - 1);
        assert_eq!(document.events().count(), 50_000 - (KEPT - 1));
    }

    /// How often a document is gone over again.
    fn passes(ids: impl Iterator<Item = String>) -> u8 {
        let text = document(ids);
        let mut repeats = Repeats::default();
        let mut finder = RepeatFinder::new(&text, "{\"Events\":".len(), &mut repeats);
        Document::parse_each(text.as_bytes(), &mut [], |event, _, _| finder.see(event)).unwrap();
        finder.finish(false)
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
    fn five_ids_twenty_times_each_are_five_events() {
        let text = document((0..100).map(|n| format!("{}{}", ["id", "ID"][n % 2], n % 5)));
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!((document.events().len(), document.problems().count()), (5, 95));
        assert_eq!(document.events().map(|event| event.index()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_only_looks_like_ids_does_not_stand_in_for_one_that_is_spelt_in_another_way() {
        // As many places are found as there are ids, but in an unknown member, and the repeated id is not among them.
        let mut ids: Vec<_> = (0..100).map(|n| format!("{{\"EventId\":\"id-{n}\"}}")).collect();
        ids.push(String::from("{\"EventId\" :\"ID-70\",\"x\":{\"EventId\":\"other\"}}"));
        ids.push(String::from("{\"EventId\":\"last\"}"));
        let text = format!("{{\"Events\":[{}]}}", ids.join(","));
        let document = Document::parse(text.as_bytes()).unwrap();
        assert_eq!(document.problems().map(|problem| problem.event).collect::<Vec<_>>(), [Some(100)]);
    }

    #[test]
    fn a_thousand_ids_that_were_made_to_have_one_hash_take_no_longer_than_others() {
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
        assert_eq!(hash(&Text::plain(&id(0))), hash(&Text::plain(&id(1023))));
        // Two of them are compared, no third: what is compared is counted, not what it takes.
        let text = document((0..1000).map(id));
        let mut repeats = Repeats::default();
        let mut finder = RepeatFinder::new(&text, "{\"Events\":".len(), &mut repeats);
        Document::parse_each(text.as_bytes(), &mut [], |event, _, _| finder.see(event)).unwrap();
        assert_eq!(finder.finish(false), 1);
        assert_eq!((finder.listed, repeats.count()), (2, 0));
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
