//! Suggestions for misspelled words.

/// The candidate that `word` is probably a misspelling of: at most a third of its characters differ. Case does not count.
///
/// ```
/// use scheduled_events::suggest::nearest;
///
/// assert_eq!(nearest("Rebot", ["Freeze", "Reboot"].into_iter()), Some("Reboot"));
/// assert_eq!(nearest("Deallocate", ["Freeze", "Reboot"].into_iter()), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    candidates
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&word, &candidate.to_ascii_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| distance * 3 <= candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
