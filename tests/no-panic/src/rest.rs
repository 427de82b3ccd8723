//! Calls everything that the programs for parsing, approving and a whole session do not call.

use scheduled_events_core::{Document, Event, Text, VmNames};

use crate::{
    outside, reach, the_document, the_error, the_event, the_policies, the_profiles, the_session,
    the_spot_machine, the_times, the_tracker, the_versions,
};

/// Everything else that is public. The script checks that no public function is missing here.
#[inline(never)]
pub fn the_rest(input: &[u8], text: &str, names: &[&str], number: i64) {
    let names = VmNames::new(names).underscored();
    reach((
        names.is_unknown(),
        names.is_underscored(),
        names.iter().for_each(reach),
        VmNames::UNKNOWN.is_unknown(),
    ));
    match Document::parse(input) {
        Ok(document) => the_document(&document, text, names, number),
        Err(error) => the_error(error, input),
    }
    let shown = Document::parse_each(input, &mut [Text::plain(""); 2], |event, bytes, names| {
        reach((event.index(), bytes.start, names.map(<[_]>::len)));
    });
    reach(shown.is_ok());
    match Event::parse(input) {
        Ok(event) => the_event(&event, text),
        Err(error) => the_error(error, input),
    }
    if let Err(error) = Document::parse(text.as_bytes()) {
        the_error(error, text.as_bytes());
    }
    the_times(text, number);
    the_policies(number);
    the_tracker(input, names, number);
    the_session(input, text, names, number);
    outside::the_notifications(input, text, names, number);
    the_spot_machine(number);
    the_versions(text);
    the_profiles(text, number);
}
