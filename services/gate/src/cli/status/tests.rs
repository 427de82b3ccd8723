use super::*;

#[test]
fn an_event_waits_only_for_groups_of_its_machines() {
    let text = ["db", "web"].map(|name| {
        let group = format!("[[group]]\nname = \"{}\"\nmachines = [\"{name}_*\"]\n", name.to_uppercase());
        group + "max_unavailable = 1\nper_zone = true\nwindows = [{ days = [\"DAY\"], from = \"00:00\", to = \"00:00\" }]\n"
    });
    let day = (Timestamp::now() + jiff::SignedDuration::from_hours(72))
        .strftime("%a")
        .to_string();
    let text = format!(
        "engine = \"folder\"\nfolder.path = \"/x\"\n{}",
        text.concat().replace("DAY", &day)
    );
    let config = Config::parse(&text).expect("a configuration");
    let group = |limit: u32| -> GroupRegister {
        serde_json::from_value(
            json!({"limit": limit, "claims": {"other": {"slots": ["x", "y"], "by": ["x"], "at": 1}}}),
        )
        .expect("a group")
    };
    let names = ["web_0", "web_1"].map(Name::from);
    let machine = |name: &Name| Machine {
        register: MachineRegister {
            zone: Some("1".into()),
            machine: Some(name.clone()),
            ..MachineRegister::default()
        },
        presence: Presence::Beating,
        age: Some(Duration::ZERO),
    };
    let mut event = EventRegister {
        resources: names.clone().into(),
        ..EventRegister::default()
    };
    let full_of = |event: &EventRegister, limit: u32| {
        let registers = Registers {
            events: Vec::new(),
            groups: ["db/zone-1", "web/zone-1", "web/zone-2", "unknown"]
                .map(|name| (name.to_owned(), group(limit)))
                .into(),
            machines: names
                .iter()
                .map(|name| (name.clone(), machine(name)))
                .collect(),
            problems: Vec::new(),
            time: Timestamp::now(),
        };
        let why = registers.why(&config.groups, "e", event).expect("it waits");
        why.split("; ")
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let full = full_of(&event, 2);
    assert_eq!(
        full[..2],
        [
            "the group web/zone-1 is full: x, y",
            "the group unknown is full: x, y"
        ]
    );
    assert!(
        full[2].starts_with("outside the maintenance windows of the group WEB until ")
            && full.len() == 3
    );
    // One place is left, and the event has two machines.
    assert_eq!(
        full_of(&event, 3)[0],
        "the group web/zone-1 has too few places for this event: x, y"
    );
    assert!(full_of(&event, 4)[0].starts_with("outside the maintenance windows"));
    // An event that takes no places waits for none.
    event.event_type = "Preempt".into();
    assert_eq!(full_of(&event, 2), [""; 0]);
}

#[test]
fn limits_that_differ_are_named() {
    let config = "engine = \"folder\"\nfolder.path = \"/x\"\n\
        [[group]]\nname = \"Web\"\nmachines = [\"web_*\"]\nmax_unavailable = 2\n";
    let config = Config::parse(config).expect("a configuration");
    let same = config.groups[0].digest();
    let machine = |limit: &str, digest: &str| {
        let limits = [("web".to_owned(), limit.to_owned())].into();
        let digests = Some([("web".to_owned(), digest.to_owned())].into());
        let register = MachineRegister {
            limits,
            digests,
            ..MachineRegister::default()
        };
        Machine {
            register,
            presence: Presence::Beating,
            age: None,
        }
    };
    let machines = [
        ("web_0", "2", &*same),
        ("web_1", "30%", ""),
        ("web_2", "1", ""),
        ("web_3", "2", ""),
    ];
    let machines = machines
        .map(|(name, limit, digest)| (Name::from(name), machine(limit, digest)))
        .into();
    let mut registers = Registers {
        events: Vec::new(),
        groups: Vec::new(),
        machines,
        problems: Vec::new(),
        time: Timestamp::now(),
    };
    let lines = "\nthe group Web has the limit 2 here and another one at web_1, web_2: the smallest one counts\n\
        \nthe group Web has other `machines`, `per_zone`, `pause` or `windows` at web_3: configure it equally\n";
    let text = registers.text(&config.groups, None);
    assert!(text.ends_with(lines), "{text}");
    let record = r#"{"differs":["web_1","web_2","web_3"],"group":"Web","limit":"2","others":{"web_1":"30%","web_2":"1"},"record":"limits-differ"}"#;
    let json = registers.json(&config.groups);
    assert!(json.lines().any(|line| line == record), "{json}");
    registers
        .machines
        .retain(|name, _| *name == Name::from("web_0"));
    assert!(
        !registers
            .text(&config.groups, None)
            .contains("the group Web")
    );
    assert!(!registers.json(&config.groups).contains("limits-differ"));
}

#[test]
fn what_cannot_be_read_may_have_what_is_not_shown() {
    let registers = |problems: &[&str]| Registers {
        events: Vec::new(),
        groups: Vec::new(),
        machines: BTreeMap::new(),
        problems: problems.iter().map(|&problem| problem.to_owned()).collect(),
        time: Timestamp::now(),
    };
    assert!(
        registers(&[])
            .text(&[], None)
            .contains("\nno place is taken\n")
    );
    let text = registers(&["the register groups/web cannot be read"]).text(&[], None);
    assert!(
        text.contains("\nno place is taken, as far as the registers can be read\n"),
        "{text}"
    );
}

#[test]
fn an_event_that_is_decided_has_a_line() {
    let event = json!({"event_type": "Reboot", "resources": ["a"], "marks": {}, "go": {"by": "a", "at": 1}});
    let registers = Registers {
        events: vec![("e".into(), serde_json::from_value(event).expect("an event"))],
        groups: Vec::new(),
        machines: BTreeMap::new(),
        problems: Vec::new(),
        time: Timestamp::now(),
    };
    let text = registers.text(&[], None);
    let line = text.lines().last().expect("a line");
    let is_it = line.starts_with("e was decided ")
        && line.ends_with(" ago: a posts the approval, or the next machine");
    assert!(is_it, "{text}");
}

#[test]
fn an_event_whose_machines_are_all_ready_waits_for_the_silent_ones() {
    let marked = json!({"mark": "ready", "at": 1, "round": 0});
    let event = json!({"event_type": "Reboot", "resources": ["a", "b"], "marks": {"a": marked, "b": marked}, "go": null});
    let waits = |silent: &[&str]| {
        let machine = |name: &&str| Machine {
            register: MachineRegister::default(),
            presence: if silent.contains(name) {
                Presence::Silent
            } else {
                Presence::Beating
            },
            age: None,
        };
        let registers = Registers {
            events: vec![(
                "e".into(),
                serde_json::from_value(event.clone()).expect("an event"),
            )],
            groups: Vec::new(),
            machines: ["a", "b"]
                .iter()
                .map(|name| (Name::from(*name), machine(name)))
                .collect(),
            problems: Vec::new(),
            time: Timestamp::now(),
        };
        registers.text(&[], None)
    };
    let text = waits(&["b"]);
    let why = "waits: silent, so that nobody knows whether they are still ready: b";
    assert!(text.contains(why), "{text}");
    let text = waits(&[]);
    assert!(text.contains("waits: all machines are ready, "), "{text}");
}

#[test]
fn what_has_started_and_what_is_over_has_no_time_left() {
    let config = "engine = \"folder\"\nfolder.path = \"/x\"\n\
        [[group]]\nname = \"web\"\nmachines = [\"a\", \"b\", \"c\"]\nmax_unavailable = 1\n";
    let config = Config::parse(config).expect("a configuration");
    let event = |go: serde_json::Value| -> EventRegister {
        serde_json::from_value(
            json!({"event_id": "C7061BAC", "event_type": "Reboot", "not_before": now() + 145,
            "resources": ["a", "b"], "marks": {}, "go": go}),
        )
        .expect("an event")
    };
    let claims =
        json!({"limit": 1, "claims": {"c7061bac": {"slots": ["a"], "by": ["a"], "at": now()}}});
    let show = |go: serde_json::Value, of: [Option<Progress>; 2]| {
        let machine = |(name, progress): (&str, Option<Progress>)| {
            let events = progress.map(|progress| ("c7061bac".to_owned(), progress));
            let register = MachineRegister {
                events: events.into_iter().collect(),
                ..MachineRegister::default()
            };
            let (presence, age) = (Presence::Beating, None);
            (
                Name::from(name),
                Machine {
                    register,
                    presence,
                    age,
                },
            )
        };
        Registers {
            events: vec![("c7061bac".into(), event(go))],
            groups: vec![(
                "web".into(),
                serde_json::from_value(claims.clone()).expect("a group"),
            )],
            machines: ["a", "b"]
                .into_iter()
                .zip(of)
                .chain([("x", None)])
                .map(machine)
                .collect(),
            problems: Vec::new(),
            time: Timestamp::now(),
        }
    };
    let go = json!({"by": "a", "at": 1});
    let none = serde_json::Value::Null;
    let recovering = "is over; not back in service yet: b";
    for (go, of, line, word) in [
        (&none, [None, None], "waits: not ready: a, b", "announced"),
        (
            &go,
            [Some(Progress::Approved), None],
            "is approved",
            "approved",
        ),
        (
            &go,
            [Some(Progress::Started), Some(Progress::Approved)],
            "has started",
            "started",
        ),
        (
            &none,
            [Some(Progress::Started), None],
            "has started without a decision",
            "started",
        ),
        (
            &go,
            [Some(Progress::Over), Some(Progress::Recovering)],
            recovering,
            "over",
        ),
        (
            &go,
            [Some(Progress::Over), Some(Progress::Over)],
            "is over",
            "over",
        ),
    ] {
        let registers = show(go.clone(), of);
        let text = registers.text(&config.groups, None);
        let has_line = text
            .lines()
            .any(|found| found == format!("C7061BAC {line}"));
        assert!(has_line, "{line} in\n{text}");
        // One spelling of the id, and no time that is left of what has begun.
        assert!(!text.contains("c7061bac"), "{text}");
        let is_ahead = ["announced", "approved"].contains(&word);
        assert_eq!(text.contains(" UTC, in 2m "), is_ahead, "{text}");
        assert!(text.contains("\nweb    1        2: a, b\n"), "{text}");
        assert!(
            text.contains("\nin no [[group]] of this configuration, so that no limit counts: x\n"),
            "{text}"
        );
        let json = registers.json(&config.groups);
        assert!(json.contains(&format!("\"state\":\"{word}\"")), "{json}");
        assert!(!json.contains("c7061bac"), "{json}");
    }
}

#[test]
fn until_when_there_is_time_is_shown() {
    let not_before = now() + 870;
    let event = json!({"event_type": "Reboot", "not_before": not_before, "resources": ["a", "b"], "marks": {}});
    let registers = Registers {
        events: vec![("e".into(), serde_json::from_value(event).expect("an event"))],
        groups: Vec::new(),
        machines: BTreeMap::new(),
        problems: Vec::new(),
        time: Timestamp::now(),
    };
    let minute = Timestamp::from_second(not_before.cast_signed())
        .expect("a time")
        .strftime("%F %H:%M")
        .to_string();
    let is_shown = |line: &str| line.contains(&format!("{minute} UTC, in 14m "));
    let text = registers.text(&[], None);
    assert!(
        text.lines()
            .next()
            .is_some_and(|line| line.ends_with("  NOT BEFORE")),
        "{text}"
    );
    assert_eq!(text.lines().position(is_shown), Some(1), "{text}");
    let narrow = registers.text(&[], Some(50));
    assert!(
        narrow
            .lines()
            .any(|line| line.starts_with("  not before: ") && is_shown(line)),
        "{narrow}"
    );
    assert!(
        registers
            .json(&[])
            .contains(&format!("\"not_before\":{not_before}"))
    );
}

#[test]
fn a_narrow_terminal_gets_short_ids_and_folded_reasons() {
    let names = [
        "aks-userpool01-31415926-vmss_17",
        "aks-userpool01-31415926-vmss_18",
    ]
    .map(Name::from);
    let id = "368d8799-233c-4d16-8e3a-0c6c6ab4efec";
    let resources = names.iter().cloned().collect();
    let event = EventRegister {
        event_type: "Redeploy".into(),
        resources,
        ..EventRegister::default()
    };
    let group =
        json!({"limit": 1, "claims": {id: {"slots": names, "by": names, "at": now() - 41}}});
    let registers = Registers {
        events: vec![(id.into(), event)],
        groups: vec![(
            "userpool01".into(),
            serde_json::from_value(group).expect("a group"),
        )],
        machines: BTreeMap::new(),
        problems: Vec::new(),
        time: Timestamp::now(),
    };
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    let text = registers.text(&[], Some(80));
    assert!(longest(&text) <= Some(80), "{text}");
    assert!(
        text.contains("\n368d8799…  Redeploy  aks-userpool01-31415926-vmss_17"),
        "{text}"
    );
    assert!(
        text.contains(&format!("{id} waits: not ready:")),
        "the whole id is in it: {text}"
    );
    assert!(
        names
            .iter()
            .all(|name| text.matches(&name.to_string()).count() == 4),
        "no name is split: {text}"
    );
    let wide = registers.text(&[], None);
    assert!(
        longest(&wide) > Some(80) && wide.matches(id).count() == 4,
        "{wide}"
    );
    assert_eq!(registers.text(&[], Some(1000)), wide);
}
