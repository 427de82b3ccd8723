//! Numbers and lengths of time in words.

/// A number of things.
///
/// ```
/// use scheduled_events_text::words::count;
///
/// assert_eq!(count(1, "event"), "1 event");
/// assert_eq!(count(2, "event"), "2 events");
/// ```
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A length of time in seconds, with two units at most.
///
/// ```
/// use scheduled_events_text::words::duration;
///
/// assert_eq!(duration(872), "14 min 32 s");
/// assert_eq!(duration(7_500), "2 h 5 min");
/// assert_eq!(duration(273_600), "3 d 4 h");
/// ```
pub fn duration(seconds: u64) -> String {
    let (days, hours, minutes, left) = (
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    );
    match (days, hours, minutes, left) {
        (0, 0, 0, left) => format!("{left} s"),
        (0, 0, minutes, 0) => format!("{minutes} min"),
        (0, 0, minutes, left) => format!("{minutes} min {left} s"),
        (0, hours, 0, _) => format!("{hours} h"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, 0, ..) => format!("{days} d"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}
