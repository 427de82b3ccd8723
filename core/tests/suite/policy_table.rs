//! Tables of decisions: every reason, every condition of a rule, leaders and scopes.

use scheduled_events_core::{
    Action, Decision, Document, EventKind, EventSources, EventTypes, Leader, MAX_RULES, Member,
    Policy, Reason, Rule, Scope, SourceKind, TooManyRules, VmNames,
};

use crate::common::{OTHER, START, Spec, VM, document, event};

const ACTIONS: [Action; 4] = [
    Action::Approve,
    Action::Prepare,
    Action::Hold,
    Action::Ignore,
];

fn decide_for(policy: &Policy, spec: &Spec, names: VmNames<'_>) -> Decision {
    let body = document(1, std::slice::from_ref(spec));
    let document = Document::parse(body.as_bytes()).unwrap();
    policy.decide(&document.events().next().unwrap(), names, START.seconds())
}

fn decide(policy: &Policy, spec: &Spec) -> Decision {
    decide_for(policy, spec, VmNames::new(&[VM]))
}

fn policy(rules: &[Rule]) -> Policy {
    Policy::new(rules).unwrap()
}

fn hold(reason: Reason) -> (Action, Option<u16>, Reason) {
    (Action::Hold, None, reason)
}

fn short(decision: &Decision) -> (Action, Option<u16>, Reason) {
    (decision.action, decision.rule, decision.reason)
}

#[test]
fn some_events_are_held_whatever_the_rules() {
    for (spec, reason) in [
        (
            event("a").invalid("Resources"),
            Reason::Unreliable(Member::Resources),
        ),
        (event("a").started(), Reason::AlreadyStarted),
        (event("a").status("scheduled"), Reason::NotScheduled),
        (event("a").status("Completed"), Reason::NotScheduled),
        (event("a").resources(&[]), Reason::NamesNoMachine),
        // A problem takes precedence over the status.
        (
            event("a").started().invalid("EventSource"),
            Reason::Unreliable(Member::EventSource),
        ),
    ] {
        for action in ACTIONS {
            let rule = Rule {
                scope: Scope::Any,
                ..Rule::new(action)
            };
            let decision = decide(&policy(&[rule]), &spec);
            assert_eq!(short(&decision), hold(reason), "{spec:?}");
            assert_eq!(decision.approve_after, None);
        }
    }
    // An unreadable `NotBefore` does not hold the event, since decisions do not depend on it.
    let decision = decide(
        &policy(&[Rule::new(Action::Approve)]),
        &event("a").invalid("NotBefore"),
    );
    assert_eq!(
        (decision.action, decision.time_left),
        (Action::Approve, None)
    );
}

/// Fault 28 of `tests/field-faults.md`.
#[test]
fn what_cannot_be_read_forbids_approving_and_not_preparing() {
    let nameless = Spec {
        event_type: None,
        ..event("a")
    };
    let silent = Spec {
        status: None,
        ..event("a")
    };
    let unreadable = |member: &'static str| event("a").invalid(member);
    for (spec, reason) in [
        (unreadable("EventId"), Reason::Unreliable(Member::EventId)),
        (
            unreadable("EventType"),
            Reason::Unreliable(Member::EventType),
        ),
        (
            unreadable("EventStatus"),
            Reason::Unreliable(Member::EventStatus),
        ),
        (
            unreadable("EventSource"),
            Reason::Unreliable(Member::EventSource),
        ),
        (
            unreadable("DurationInSeconds"),
            Reason::Unreliable(Member::DurationInSeconds),
        ),
        (
            event("a").duration(-2),
            Reason::Unreliable(Member::DurationInSeconds),
        ),
        (silent, Reason::StatusUnknown),
        (nameless, Reason::TypeUnknown),
    ] {
        for leader in [None, Some(Leader::Everyone)] {
            let decision = |action| {
                let mut policy = policy(&[Rule::new(action)]);
                policy.leader = leader;
                let decision = decide(&policy, &spec);
                assert_eq!(decision.approve_after, None, "{spec:?}");
                short(&decision)
            };
            assert_eq!(decision(Action::Approve), hold(reason), "{spec:?}");
            for action in [Action::Prepare, Action::Hold, Action::Ignore] {
                assert_eq!(decision(action), (action, Some(1), reason), "{spec:?}");
            }
        }
    }
}

/// Fault 28 of `tests/field-faults.md`: the other conditions of a rule still count.
#[test]
fn a_condition_on_what_cannot_be_read_does_not_match() {
    let prepare = Rule::new(Action::Prepare);
    let preempt = Rule {
        event_types: EventTypes::of(&[EventKind::Preempt]),
        ..prepare
    };
    let short = Rule {
        max_duration: Some(600),
        ..prepare
    };
    let platform = Rule {
        sources: EventSources::of(&[SourceKind::Platform]),
        ..prepare
    };
    // `EventSources::of` all of them includes events without a source, which an unreadable one is not.
    let no_source = Rule {
        sources: EventSources::from_bits(0b1000).unwrap(),
        ..prepare
    };
    let spec = || event("a").event_type("Preempt").duration(30);
    for (rule, unreadable, matches) in [
        (preempt, "DurationInSeconds", true),
        (preempt, "EventSource", true),
        (preempt, "EventStatus", true),
        (preempt, "EventType", false),
        (short, "DurationInSeconds", false),
        (short, "EventType", true),
        (platform, "EventSource", false),
        (platform, "EventType", true),
        (no_source, "EventSource", false),
    ] {
        let decision = decide(&policy(&[rule]), &spec().invalid(unreadable));
        let expected = if matches {
            Action::Prepare
        } else {
            Action::Hold
        };
        assert_eq!(decision.action, expected, "{unreadable} with {rule:?}");
    }
}

/// Fault 33 of `tests/field-faults.md`.
#[test]
fn a_repeated_name_is_one_machine() {
    for (resources, several) in [
        (&[VM, "VM_1"][..], false),
        (&[VM, VM, VM], false),
        (&[VM, OTHER, VM], true),
    ] {
        let decision = decide(
            &policy(&[Rule::new(Action::Prepare)]),
            &event("a").resources(resources),
        );
        assert_eq!(decision.approve_after.is_none(), several, "{resources:?}");
    }
    let mut policy = policy(&[Rule::new(Action::Approve)]);
    policy.leader = Some(Leader::Rank {
        take_over_after: 30,
    });
    let decision = decide(&policy, &event("a").resources(&[OTHER, OTHER, VM]));
    assert_eq!(decision.approve_after, Some(30));
}

#[test]
fn every_event_is_held_while_the_name_is_unknown() {
    for action in ACTIONS {
        for scope in [Scope::Mine, Scope::Others, Scope::Any] {
            let policy = policy(&[Rule {
                scope,
                ..Rule::new(action)
            }]);
            assert_eq!(
                short(&decide_for(&policy, &event("a"), VmNames::UNKNOWN)),
                hold(Reason::NameUnknown)
            );
            assert_eq!(
                short(&decide_for(&policy, &event("a"), VmNames::new(&[]))),
                hold(Reason::NameUnknown)
            );
        }
    }
}

#[test]
fn reasons_if_no_rule_matches() {
    let freezes = policy(&[Rule {
        event_types: EventTypes::of(&[EventKind::Freeze]),
        ..Rule::new(Action::Approve)
    }]);
    assert_eq!(short(&decide(&freezes, &event("a"))), hold(Reason::NoRule));
    assert_eq!(
        short(&decide(&freezes, &event("a").resources(&[OTHER]))),
        hold(Reason::OtherMachine)
    );
    assert_eq!(
        short(&decide(&Policy::observe(), &event("a"))),
        hold(Reason::Observing)
    );
    assert_eq!(
        short(&decide(&Policy::observe(), &event("a").resources(&[OTHER]))),
        hold(Reason::Observing)
    );
    assert_eq!(Policy::default(), Policy::observe());
}

#[test]
fn the_sample_policy_approves_user_events_and_short_freezes() {
    let freeze = || event("a").event_type("Freeze");
    for (spec, expected) in [
        (
            event("a").source("User"),
            (Action::Approve, Some(1), Reason::UserInitiated),
        ),
        (
            freeze().source("User").duration(60),
            (Action::Approve, Some(1), Reason::UserInitiated),
        ),
        (
            event("a").event_type("Preempt").source("User"),
            (Action::Approve, Some(1), Reason::UserInitiated),
        ),
        (
            freeze().duration(0),
            (Action::Approve, Some(2), Reason::ShortInterruption),
        ),
        (
            freeze().duration(8),
            (Action::Approve, Some(2), Reason::ShortInterruption),
        ),
        (freeze().duration(9), hold(Reason::NoRule)),
        (freeze().duration(-1), hold(Reason::NoRule)),
        (freeze(), hold(Reason::NoRule)),
        (event("a").duration(0), hold(Reason::NoRule)),
        (event("a").source("user"), hold(Reason::NoRule)),
        (
            event("a").source("User").resources(&[OTHER]),
            hold(Reason::OtherMachine),
        ),
        (
            freeze().duration(5).resources(&[OTHER]),
            hold(Reason::OtherMachine),
        ),
        (
            freeze().duration(5).resources(&[]),
            hold(Reason::NamesNoMachine),
        ),
        (
            freeze().duration(5).resources(&[OTHER, VM]),
            (Action::Hold, Some(2), Reason::AnotherLeads),
        ),
        (
            freeze().duration(5).resources(&[VM, OTHER]),
            (Action::Approve, Some(2), Reason::ShortInterruption),
        ),
    ] {
        assert_eq!(
            short(&decide(&Policy::sample(), &spec)),
            expected,
            "{spec:?}"
        );
    }
}

#[test]
fn event_types_and_sources_match_exactly() {
    let words = [
        ("Freeze", EventKind::Freeze),
        ("Reboot", EventKind::Reboot),
        ("Redeploy", EventKind::Redeploy),
        ("Preempt", EventKind::Preempt),
        ("Terminate", EventKind::Terminate),
        ("Pause", EventKind::Other),
        ("freeze", EventKind::Other),
    ];
    for (word, kind) in words {
        for (_, other) in words {
            let rule = Rule {
                event_types: EventTypes::of(&[other]),
                ..Rule::new(Action::Approve)
            };
            let matches = decide(&policy(&[rule]), &event("a").event_type(word)).rule == Some(1);
            assert_eq!(matches, kind == other, "{word} for {other:?}");
        }
        assert_eq!(
            decide(
                &policy(&[Rule::new(Action::Approve)]),
                &event("a").event_type(word)
            )
            .rule,
            Some(1)
        );
    }
    // A repeated kind changes nothing.
    let (freeze, user) = (EventKind::Freeze, SourceKind::User);
    assert_eq!(EventTypes::of(&[freeze, freeze]), EventTypes::of(&[freeze]));
    assert_eq!(EventSources::of(&[user, user]), EventSources::of(&[user]));
    let sources = [
        (Some("Platform"), Some(SourceKind::Platform)),
        (Some("User"), Some(SourceKind::User)),
        (Some("Fabric"), Some(SourceKind::Other)),
        (None, None),
    ];
    for (source, kind) in sources {
        let spec = Spec {
            source,
            ..event("a")
        };
        for other in [SourceKind::Platform, SourceKind::User, SourceKind::Other] {
            let rule = Rule {
                sources: EventSources::of(&[other]),
                ..Rule::new(Action::Approve)
            };
            assert_eq!(
                decide(&policy(&[rule]), &spec).rule == Some(1),
                kind == Some(other),
                "{source:?}"
            );
        }
        assert_eq!(
            decide(&policy(&[Rule::new(Action::Approve)]), &spec).rule,
            Some(1)
        );
    }
}

#[test]
fn durations_are_inclusive_and_an_unknown_one_never_matches_a_range() {
    for (min, max, duration, matches) in [
        (None, None, None, true),
        (None, None, Some(-1), true),
        (None, Some(8), Some(8), true),
        (None, Some(8), Some(9), false),
        (None, Some(8), Some(-1), false),
        (None, Some(8), None, false),
        (Some(5), None, Some(5), true),
        (Some(5), None, Some(4), false),
        (Some(5), None, Some(-1), false),
        (Some(0), None, None, false),
        (Some(5), Some(5), Some(5), true),
        (Some(6), Some(5), Some(5), false),
        (Some(0), Some(u32::MAX), Some(4_294_967_294), true),
    ] {
        let rule = Rule {
            min_duration: min,
            max_duration: max,
            ..Rule::new(Action::Approve)
        };
        let decision = decide(
            &policy(&[rule]),
            &Spec {
                duration,
                ..event("a")
            },
        );
        assert_eq!(
            decision.rule == Some(1),
            matches,
            "{duration:?} in {min:?}..={max:?}"
        );
    }
}

#[test]
fn scopes_match_by_resources() {
    let (own, others, both) = (
        event("a"),
        event("a").resources(&[OTHER]),
        event("a").resources(&[OTHER, VM]),
    );
    for (scope, spec, matches) in [
        (Scope::Mine, &own, true),
        (Scope::Mine, &others, false),
        (Scope::Mine, &both, true),
        (Scope::Others, &own, false),
        (Scope::Others, &others, true),
        (Scope::Others, &both, false),
        (Scope::Any, &own, true),
        (Scope::Any, &others, true),
        (Scope::Any, &both, true),
    ] {
        let decision = decide(
            &policy(&[Rule {
                scope,
                ..Rule::new(Action::Prepare)
            }]),
            spec,
        );
        assert_eq!(decision.rule == Some(1), matches, "{scope:?} {spec:?}");
    }
    assert_eq!(Scope::default(), Scope::Mine);
}

#[test]
fn another_machines_terminate_is_never_approved() {
    let terminate = event("a").event_type("Terminate");
    for scope in [Scope::Others, Scope::Any] {
        for (action, expected) in [
            (
                Action::Approve,
                (Action::Hold, Some(1), Reason::OtherMachinesTerminate),
            ),
            (
                Action::Prepare,
                (Action::Hold, Some(1), Reason::OtherMachinesTerminate),
            ),
            (Action::Hold, (Action::Hold, Some(1), Reason::Rule)),
            (Action::Ignore, (Action::Ignore, Some(1), Reason::Rule)),
        ] {
            let policy = policy(&[Rule {
                scope,
                ..Rule::new(action)
            }]);
            let decision = decide(&policy, &terminate.clone().resources(&[OTHER]));
            assert_eq!(
                (short(&decision), decision.approve_after),
                (expected, None),
                "{scope:?} {action:?}"
            );
            // Every other type can be approved.
            assert_eq!(
                decide(&policy, &event("a").resources(&[OTHER])).action,
                action
            );
        }
    }
    // This machine's own is approved, even if it also affects others.
    let any = policy(&[Rule {
        scope: Scope::Any,
        ..Rule::new(Action::Approve)
    }]);
    assert_eq!(
        decide(&any, &terminate.resources(&[VM, OTHER])).action,
        Action::Approve
    );
}

#[test]
fn leaders_approve_and_others_wait() {
    let first = event("a").resources(&[VM, OTHER]);
    let third = event("a").resources(&[OTHER, "x", VM]);
    let nobody = event("a").resources(&[OTHER, "x"]);
    let rank = |take_over_after| Leader::Rank { take_over_after };
    for (leader, spec, expected) in [
        (Leader::FirstResource, &first, Some(0)),
        (Leader::FirstResource, &third, None),
        (Leader::FirstResource, &nobody, Some(0)),
        (rank(30), &first, Some(0)),
        (rank(30), &third, Some(60)),
        (rank(0), &third, Some(0)),
        (rank(u32::MAX), &third, Some(u32::MAX)),
        (rank(30), &nobody, Some(0)),
        (Leader::Everyone, &first, Some(0)),
        (Leader::Everyone, &third, Some(0)),
        (Leader::Everyone, &nobody, Some(0)),
    ] {
        for action in ACTIONS {
            let mut policy = policy(&[Rule {
                scope: Scope::Any,
                ..Rule::new(action)
            }]);
            policy.leader = Some(leader);
            let decision = decide(&policy, spec);
            let (action, waits) = match (action, expected) {
                (Action::Approve, None) => (Action::Hold, None),
                // A machine that does not lead prepares too, since the event affects it.
                (Action::Approve | Action::Prepare, waits) => (action, waits),
                (Action::Hold | Action::Ignore, _) => (action, None),
            };
            assert_eq!(
                (decision.action, decision.approve_after),
                (action, waits),
                "{leader:?} {spec:?}"
            );
        }
    }
    assert_eq!(Leader::default(), Leader::FirstResource);
}

#[test]
fn the_first_rule_that_matches_decides() {
    let freeze = Rule {
        event_types: EventTypes::of(&[EventKind::Freeze]),
        ..Rule::new(Action::Ignore)
    };
    let user = Rule {
        sources: EventSources::of(&[SourceKind::User]),
        ..Rule::new(Action::Approve)
    };
    let policy = policy(&[
        freeze,
        user,
        Rule::new(Action::Prepare),
        Rule::new(Action::Approve),
    ]);
    for (spec, rule, action) in [
        (
            event("a").event_type("Freeze").source("User"),
            1,
            Action::Ignore,
        ),
        (event("a").source("User"), 2, Action::Approve),
        (event("a"), 3, Action::Prepare),
    ] {
        let decision = decide(&policy, &spec);
        assert_eq!((decision.rule, decision.action), (Some(rule), action));
    }
    assert_eq!(policy.rules().len(), 4);
    assert!(Policy::new(&[Rule::new(Action::Hold); MAX_RULES]).is_ok());
    assert_eq!(
        Policy::new(&[Rule::new(Action::Hold); MAX_RULES + 1]),
        Err(TooManyRules)
    );
}

#[test]
fn time_left_does_not_affect_the_decision() {
    let policy = policy(&[Rule::new(Action::Approve)]);
    for (not_before, time_left) in [(Some(900), Some(900)), (Some(-5), Some(-5)), (None, None)] {
        let decision = decide(
            &policy,
            &Spec {
                not_before,
                ..event("a")
            },
        );
        assert_eq!(
            (decision.action, decision.time_left),
            (Action::Approve, time_left)
        );
        assert!(decision.same_as(&decide(&policy, &event("a"))));
    }
    assert!(!decide(&policy, &event("a")).same_as(&decide(&policy, &event("a").started())));
}

#[test]
fn reasons_are_displayed_and_serialized_as_words() {
    for (reason, words) in [
        (Reason::UserInitiated, "user-initiated"),
        (Reason::ShortInterruption, "short interruption"),
        (Reason::Rule, "a rule matches"),
        (Reason::NoRule, "no rule matches"),
        (Reason::Observing, "the policy only observes"),
        (Reason::OtherMachine, "another VM's event"),
        (Reason::OtherMachinesTerminate, "another VM's Terminate"),
        (Reason::NameUnknown, "VM name unknown"),
        (Reason::TypeUnknown, "no EventType"),
        (Reason::StatusUnknown, "no EventStatus"),
        (Reason::NamesNoMachine, "no VM in Resources"),
        (Reason::AlreadyStarted, "already started"),
        (Reason::NotScheduled, "not Scheduled"),
        (
            Reason::Unreliable(Member::Resources),
            "unreadable Resources",
        ),
        (Reason::AnotherLeads, "another VM leads"),
    ] {
        assert_eq!(reason.to_string(), words);
        assert_eq!(serde_json::to_value(reason).unwrap(), words);
    }
}

#[test]
fn a_policy_round_trips_through_serde() {
    let mut policy = Policy::sample();
    policy.leader = Some(Leader::Rank {
        take_over_after: 30,
    });
    let written = serde_json::to_string(&policy).unwrap();
    assert_eq!(
        written,
        r#"{"rule":[{"source":["User"],"action":"approve"},{"event":["Freeze"],"max_duration":"8s","action":"approve"}],"leader":{"mode":"rank","take_over_after":"30s"}}"#
    );
    assert_eq!(serde_json::from_str::<Policy>(&written).unwrap(), policy);
    assert_eq!(
        serde_json::from_str::<Policy>("{}").unwrap(),
        Policy::observe()
    );
}

#[test]
fn each_rule_that_has_words_round_trips_through_serde() {
    for types in (1..128).filter_map(EventTypes::from_bits) {
        for sources in (1..16).filter_map(EventSources::from_bits) {
            for (action, scope) in
                Action::ALL
                    .into_iter()
                    .zip([Scope::Mine, Scope::Others, Scope::Any, Scope::Mine])
            {
                let rule = Rule {
                    event_types: types,
                    sources,
                    scope,
                    min_notice: Some(90_061),
                    ..Rule::new(action)
                };
                let written = serde_json::to_string(&rule);
                // Only together with all others, events without a source have no word of their own.
                if sources.bits() & 0b1000 != 0 && sources != EventSources::ANY {
                    assert!(written.is_err(), "{rule:?}");
                } else {
                    assert_eq!(
                        serde_json::from_str::<Rule>(&written.unwrap()).unwrap(),
                        rule
                    );
                }
            }
        }
    }
}

#[test]
fn the_serde_form_of_a_policy_is_checked() {
    for (json, error) in [
        (
            r#"{"event_types":63,"action":"hold"}"#,
            "unknown field `event_types`",
        ),
        (
            r#"{"event":63,"action":"hold"}"#,
            "expected a word, or a list of at least one",
        ),
        (
            r#"{"event":[],"action":"hold"}"#,
            "expected a word, or a list of at least one",
        ),
        (
            r#"{"event":"freeze","action":"hold"}"#,
            "unknown variant `freeze`",
        ),
        (
            r#"{"source":["Bug"],"action":"hold"}"#,
            "unknown variant `Bug`",
        ),
        (r#"{"event":"Freeze"}"#, "missing field `action`"),
        (
            r#"{"max_duration":-8,"action":"hold"}"#,
            "a duration such as",
        ),
        (
            r#"{"max_duration":"8","action":"hold"}"#,
            "a duration such as",
        ),
        (
            r#"{"max_duration":"s","action":"hold"}"#,
            "a duration such as",
        ),
        (
            r#"{"max_duration":"49711d","action":"hold"}"#,
            "a duration such as",
        ),
        (
            r#"{"min_duration":"9s","max_duration":"8s","action":"hold"}"#,
            "min_duration is longer than max_duration",
        ),
        (
            r#"{"min_notice":"1m","max_notice":"59s","action":"hold"}"#,
            "min_notice is longer than max_notice",
        ),
        (
            r#"{"prepare_before":"20m","action":"hold"}"#,
            "prepare_before has no effect",
        ),
    ] {
        let refused = serde_json::from_str::<Rule>(json).unwrap_err().to_string();
        assert!(refused.contains(error), "{json}: {refused}");
    }
    for (json, error) in [
        (r#"{"leader":"rnak"}"#, "unknown variant `rnak`"),
        (
            r#"{"leader":{"mode":"everyone","take_over_after":"8s"}}"#,
            "take_over_after is only valid",
        ),
        (
            r#"{"leader":{"mode":"rank","after":"8s"}}"#,
            "unknown field `after`",
        ),
        (r#"{"rules":[]}"#, "unknown field `rules`"),
    ] {
        let refused = serde_json::from_str::<Policy>(json)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(error), "{json}: {refused}");
    }
    let too_many = format!(
        r#"{{"rule":[{}]}}"#,
        [r#"{"action":"hold"}"#; MAX_RULES + 1].join(",")
    );
    assert!(serde_json::from_str::<Policy>(&too_many).is_err());
    let read: Rule = serde_json::from_str(
        r#"{"event":"Reboot","prepare_before":"1h 30m5s","action":"prepare"}"#,
    )
    .unwrap();
    assert_eq!(read.prepare_before, Some(5_405));
    let leader = serde_json::from_str::<Policy>(r#"{"leader":"rank"}"#)
        .unwrap()
        .leader;
    assert_eq!(
        leader,
        Some(Leader::Rank {
            take_over_after: Leader::TAKE_OVER_AFTER
        })
    );
}

#[test]
fn underscored_names_match_resources_of_the_first_api_version() {
    let policy = policy(&[Rule::new(Action::Approve)]);
    let names = VmNames::new(&[VM]);
    for (resources, plain, underscored) in [
        (&["_vm_1"][..], false, true),
        (&["vm_1"], true, true),
        (&["__vm_1"], false, false),
    ] {
        let spec = event("a").resources(resources);
        for (names, mine) in [(names, plain), (names.underscored(), underscored)] {
            assert_eq!(
                decide_for(&policy, &spec, names).action == Action::Approve,
                mine,
                "{resources:?}"
            );
        }
    }
}
