//! Warnings about API versions whose documents lack events or members that a command needs
//! ([`scheduled_events_core::api_version`] has the versions).

use scheduled_events_core::api_version::{Feature, VERSIONS};
use scheduled_events_core::{EventKind, EventSources, EventTypes, Policy};

/// A warning, if the policy depends on a member that documents of this version do not have.
pub(crate) fn policy_warning(policy: &Policy, version: &str) -> Option<String> {
    let mut lacking: Vec<(Feature, usize)> = Vec::new();
    for (number, rule) in (1..).zip(policy.rules()) {
        let names = |kind| rule.event_types != EventTypes::ANY && rule.event_types.contains(kind);
        let depends_on = |feature: Feature| match feature {
            Feature::Events(kind) => names(kind),
            Feature::Description => false,
            Feature::EventSource => rule.sources != EventSources::ANY,
            Feature::DurationInSeconds => rule.min_duration.or(rule.max_duration).is_some(),
        };
        let features = VERSIONS
            .iter()
            .filter_map(|(_, added)| *added)
            .filter(|feature| depends_on(*feature));
        for feature in features.filter(|feature| !feature.is_in(version)) {
            if lacking.iter().all(|(known, _)| *known != feature) {
                lacking.push((feature, number));
            }
        }
    }
    let newest = lacking.iter().map(|(feature, _)| feature.since()).max()?;
    let lacking: Vec<_> = lacking
        .iter()
        .map(|(feature, rule)| format!("{} (rule {rule})", feature.words()))
        .collect();
    Some(format!(
        "API version {version} does not deliver what the policy names: {}; use --api-version {newest} or newer",
        lacking.join(", ")
    ))
}

/// A warning, if documents of this version lack events of these types; an empty list means any
/// type but advice.
pub(crate) fn type_warning(types: &[EventKind], version: &str) -> Option<String> {
    let is_any = |kind| types.is_empty() && EventTypes::ANY.contains(kind);
    let is_wanted = |kind| is_any(kind) || types.contains(&kind);
    let lacking: Vec<_> = VERSIONS
        .iter()
        .filter_map(|(_, added)| *added)
        .filter(|feature| {
            matches!(feature, Feature::Events(kind) if is_wanted(*kind)) && !feature.is_in(version)
        })
        .collect();
    let newest = lacking.iter().map(|feature| feature.since()).max()?;
    let lacking: Vec<_> = lacking.into_iter().map(Feature::words).collect();
    Some(format!(
        "API version {version} does not deliver {}; use --api-version {newest} or newer",
        lacking.join(" and ")
    ))
}

#[cfg(test)]
mod tests {
    use scheduled_events_core::api_version::versions;

    use super::*;
    use scheduled_events::imds::{API_VERSION, UNDERSCORED_API_VERSION};
    use scheduled_events::policy_file::parse;

    #[test]
    fn the_table_is_that_of_the_documentation() {
        let page = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/inside/wire.md"
        ))
        .expect("the page");
        let rows = page
            .lines()
            .skip_while(|line| *line != "| version | adds | source |")
            .skip(2);
        let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), VERSIONS.len());
        for (row, (version, added)) in rows.iter().zip(VERSIONS) {
            let row = row
                .strip_prefix(&format!("| {version} | "))
                .unwrap_or_else(|| panic!("{row}"));
            let word = added.map(Feature::words);
            let word = word.map(|word| format!("`{}` |", word.trim_end_matches(" events")));
            assert!(word.is_none_or(|word| row.starts_with(&word)), "{row}");
        }
        assert!(versions().is_sorted());
        assert_eq!(
            (versions().next(), versions().next_back()),
            (Some(UNDERSCORED_API_VERSION), Some(API_VERSION))
        );
    }

    #[test]
    fn a_policy_is_compared_with_the_version() {
        let drain = "[[rule]]\nevent = [\"Reboot\", \"Terminate\"]\naction = \"prepare\"";
        let user = "[[rule]]\nevent = \"Reboot\"\naction = \"prepare\"\n[[rule]]\nsource = \"User\"\naction = \"approve\"";
        let short = "[[rule]]\nmin_duration = 0\naction = \"approve\"";
        for (policy, first) in [
            (drain, "2019-01-01"),
            (user, "2019-08-01"),
            (short, "2020-07-01"),
        ] {
            let policy = parse(policy).unwrap();
            for version in versions() {
                let warning = policy_warning(&policy, version);
                assert_eq!(warning.is_some(), version < first, "{version}: {warning:?}");
                assert!(warning.is_none_or(|warning| {
                    warning.ends_with(&format!("--api-version {first} or newer"))
                }));
            }
            assert_eq!(policy_warning(&policy, "2024-07-09"), None);
            assert_eq!(policy_warning(&policy, "latest"), None);
        }
        assert_eq!(
            policy_warning(&parse("[[rule]]\naction = \"hold\"").unwrap(), "2017-03-01"),
            None
        );
        assert_eq!(
            policy_warning(&Policy::sample(), "2019-04-01").unwrap(),
            "API version 2019-04-01 does not deliver what the policy names: EventSource (rule 1), DurationInSeconds \
             (rule 2); use --api-version 2020-07-01 or newer"
        );
    }

    #[test]
    fn types_are_compared_with_the_version() {
        let both = "API version 2017-08-01 does not deliver Preempt events and Terminate events; use --api-version \
                    2019-01-01 or newer";
        assert_eq!(type_warning(&[], "2017-08-01").as_deref(), Some(both));
        assert!(type_warning(&[EventKind::Preempt], "2017-11-01").is_none());
        assert!(type_warning(&[EventKind::Freeze], "2017-03-01").is_none());
        assert!(type_warning(&[], "2019-01-01").is_none());
        let advice = type_warning(&[EventKind::SpotRebalanceRecommendation], "2020-07-01");
        assert!(advice.is_some_and(|warning| warning.ends_with("2024-07-09 or newer")));
    }
}
