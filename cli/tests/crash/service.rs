//! The service of one seed: it advances with the client's progress, fails at random, and records
//! requests.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::plan::{EventState, FOREIGN, Gate, Plan, Random, event};
use crate::support::{FakeService, Reply, Request, document};

/// A file that a hook created at its start or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The run that started the hook.
    pub(crate) run: usize,
    /// `prepare`, `recover`, or `on-` and a change.
    pub(crate) word: String,
    pub(crate) id: String,
    pub(crate) process: u32,
    pub(crate) ended: bool,
}

/// A command's action on the application: `prepare` takes it out of service, `recover` puts it
/// back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    pub(crate) run: usize,
    pub(crate) word: String,
    /// The event that the command was for.
    pub(crate) id: String,
}

/// An approval, with the state of the scenario at that time.
#[derive(Clone, Debug)]
pub(crate) struct Approval {
    pub(crate) run: usize,
    /// Whether a newer run had already sent a request.
    pub(crate) late: bool,
    pub(crate) ids: Vec<String>,
    /// The status of the response; `None` if the connection was closed instead.
    pub(crate) status: Option<u16>,
    /// The events in the document at that time.
    pub(crate) shown: Vec<(&'static str, EventState)>,
    pub(crate) marks: Vec<Mark>,
}

#[derive(Debug)]
pub(crate) struct Log {
    plan: Plan,
    folder: String,
    random: Random,
    faults_left: (u64, u64),
    scene: usize,
    /// The newest run, and how often it has read this scene.
    run: usize,
    reads: u64,
    accepted: Vec<String>,
    /// Whether a run has read events and polled again, so that they are in the state file:
    /// `--until-idle` waits for an event.
    was_read_twice: bool,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) polls: u64,
    pub(crate) faults: u64,
    /// The number of the application's actions that were checked.
    checked: usize,
    /// Recoveries that acted while an event kept the machine out of service.
    pub(crate) early: Vec<String>,
}

pub(crate) struct Service {
    service: FakeService,
    log: Arc<Mutex<Log>>,
}

impl Service {
    /// Starts a service for the plan. The hooks leave their marks in the folder.
    pub(crate) fn start(plan: &Plan, folder: &str) -> Self {
        let log = Arc::new(Mutex::new(Log {
            plan: plan.clone(),
            folder: folder.to_owned(),
            random: Random(!plan.seed),
            faults_left: plan.faults,
            scene: 0,
            run: 0,
            reads: 0,
            accepted: Vec::new(),
            was_read_twice: false,
            approvals: Vec::new(),
            polls: 0,
            faults: 0,
            checked: 0,
            early: Vec::new(),
        }));
        let service = FakeService::start();
        let shared = Arc::clone(&log);
        service.intercept(move |request| {
            // The fake service answers requests for the name and the id of the machine.
            (request.is_get() || request.is_post())
                .then(|| shared.lock().expect("a lock").answer(request))
        });
        Self { service, log }
    }

    pub(crate) fn url(&self) -> String {
        self.service.url()
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("a lock")
    }
}

/// Each run requests an API version of its own, so that a late request is attributed to its run. It
/// contains the seed and this process as well, in case a request of another harness arrives at this
/// port.
pub(crate) fn api_version(seed: u64, run: usize) -> String {
    format!("harness-{}-{seed}-{run}", std::process::id())
}

impl Log {
    fn answer(&mut self, request: &Request) -> Reply {
        let version = request
            .target
            .rsplit_once("api-version=")
            .expect("a version")
            .1;
        let run: usize = version
            .rsplit_once('-')
            .and_then(|(_, run)| run.parse().ok())
            .expect("a number");
        if version != api_version(self.plan.seed, run) {
            return Reply::new(404, "", "").close();
        }
        let late = run < self.run;
        self.check_recoveries();
        if run > self.run {
            (self.run, self.reads) = (run, 0);
            let left = self.plan.scenes.len() - 1 - self.scene;
            let knows_event = self.was_read_twice || !actions(&self.folder).is_empty();
            if self.plan.changes_between_runs && knows_event && left > 0 && self.random.percent(60)
            {
                self.scene += usize::try_from(self.random.range(1, left as u64)).expect("a scene");
            }
        }
        let reply = if request.is_post() {
            self.on_post(run, late, request.ids())
        } else {
            self.on_poll(late)
        };
        if self.random.percent(10) {
            return reply.after(Duration::from_millis(self.random.range(1, 150)));
        }
        reply
    }

    /// Checks the recoveries since the last request: the document that the program has read has no
    /// event of this machine that it prepared for or that has started.
    fn check_recoveries(&mut self) {
        let actions = actions(&self.folder);
        for (index, action) in actions
            .iter()
            .enumerate()
            .skip(self.checked)
            .filter(|(_, action)| action.word == "recover")
        {
            let prepared = |id: &str| {
                actions[..index]
                    .iter()
                    .any(|action| action.word == "prepare" && action.id == id)
            };
            for &(id, state) in &self.plan.scenes[self.scene].events {
                if id != FOREIGN && (state == EventState::Started || prepared(id)) {
                    self.early.push(format!(
                        "run {} recovered although {id} was open: {state:?}",
                        action.run
                    ));
                }
            }
        }
        self.checked = actions.len();
    }

    fn on_poll(&mut self, late: bool) -> Reply {
        self.polls += 1;
        if self.faults_left.0 > 0 && self.random.percent(20) {
            self.faults_left.0 -= 1;
            self.faults += 1;
            return match self.random.range(0, 3) {
                0 => Reply::new(200, "", ""),
                1 => Reply::raw("").close(),
                2 => Reply::raw(
                    "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{\"DocumentIncarnation\":",
                )
                .close(),
                _ => Reply::new(*self.random.one_of(&[404, 410, 429, 500, 503]), "", "{}"),
            };
        }
        if !late {
            self.was_read_twice |=
                self.reads > 0 && !self.plan.scenes[self.scene].events.is_empty();
            let passed = match &self.plan.scenes[self.scene].gate {
                Gate::Read(times) => self.reads >= *times,
                Gate::Approved(ids) => {
                    self.reads >= 1
                        && ids
                            .iter()
                            .all(|id| self.accepted.iter().any(|accepted| accepted == id))
                }
                Gate::Never => false,
            };
            if passed {
                (self.scene, self.reads) = (self.scene + 1, 0);
            }
            self.reads += 1;
        }
        let events: Vec<_> = self.plan.scenes[self.scene]
            .events
            .iter()
            .map(|&(id, state)| event(id, state))
            .collect();
        Reply::new(200, "", document(self.scene as u64 + 1, &events))
    }

    fn on_post(&mut self, run: usize, late: bool, ids: Vec<String>) -> Reply {
        let mut status = Some(200);
        let mut accepts = true;
        if self.faults_left.1 > 0 && self.random.percent(60) {
            self.faults_left.1 -= 1;
            self.faults += 1;
            status = *self
                .random
                .one_of(&[None, Some(400), Some(429), Some(500), Some(503)]);
            // A lost response may belong to an accepted request.
            accepts = status.is_none() && self.random.percent(50);
        }
        if accepts {
            self.accepted.extend(ids.iter().cloned());
        }
        self.approvals.push(Approval {
            run,
            late,
            ids,
            status,
            shown: self.plan.scenes[self.scene].events.clone(),
            marks: marks(&self.folder),
        });
        status.map_or_else(
            || Reply::raw("").close(),
            |status| Reply::new(status, "", ""),
        )
    }
}

/// The marks of the hooks: files named `RUN.WORD.ID.PID.begin` or `RUN.WORD.ID.PID.end`.
pub(crate) fn marks(folder: &str) -> Vec<Mark> {
    let entries = fs::read_dir(folder).expect("the folder");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    let parse = |name: &std::ffi::OsString| {
        let mut words = name.to_str()?.split('.').map(str::to_owned);
        let (run, word, id) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        Some(Mark {
            run,
            word,
            id,
            process: words.next()?.parse().ok()?,
            ended: words.next()? == "end",
        })
    };
    names
        .iter()
        .map(|name| parse(name).unwrap_or_else(|| panic!("a mark named {}", name.display())))
        .collect()
}

/// The file of the application, beside the marks: a line `RUN WORD ID` for each action, in order.
pub(crate) fn application(folder: &str) -> String {
    format!("{folder}-application")
}

/// The commands' actions on the application, in order.
pub(crate) fn actions(folder: &str) -> Vec<Action> {
    let text = match fs::read_to_string(application(folder)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.expect("the application's file"),
    };
    let parse = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        Some(Action {
            run: words.next()?.parse().ok()?,
            word: words.next()?,
            id: words.next()?,
        })
    };
    text.lines()
        .map(|line| parse(line).unwrap_or_else(|| panic!("an action {line:?}")))
        .collect()
}
