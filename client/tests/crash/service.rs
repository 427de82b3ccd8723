//! The service of one seed: it moves on as the client gets on, goes wrong now and then, and notes what it was asked.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::plan::{Chance, Gate, Plan, Stand, event};
use crate::support::{Reply, Request, Stage, document};

/// What a command left behind: that it began, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The run whose command it was.
    pub(crate) run: usize,
    /// `prepare`, `recover`, or `on-` and a change.
    pub(crate) word: String,
    pub(crate) id: String,
    pub(crate) process: u32,
    pub(crate) ended: bool,
}

/// An approval, and how things stood when it came.
#[derive(Clone, Debug)]
pub(crate) struct Approval {
    pub(crate) run: usize,
    /// Whether a newer run had asked for something already.
    pub(crate) late: bool,
    pub(crate) ids: Vec<String>,
    /// The status that was sent; none where the connection was closed instead.
    pub(crate) status: Option<u16>,
    /// What was shown at that time.
    pub(crate) shown: Vec<(&'static str, Stand)>,
    pub(crate) marks: Vec<Mark>,
}

#[derive(Debug)]
pub(crate) struct Log {
    plan: Plan,
    folder: String,
    chance: Chance,
    faults_left: (u64, u64),
    scene: usize,
    /// The newest run, and how often it has read the scene.
    run: usize,
    reads: u64,
    accepted: Vec<String>,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) polls: u64,
    pub(crate) faults: u64,
    /// Recoveries that began while their event was still shown.
    pub(crate) early: Vec<String>,
}

pub(crate) struct Service {
    stage: Stage,
    log: Arc<Mutex<Log>>,
}

impl Service {
    /// A service for the plan; commands leave their marks in the folder.
    pub(crate) fn start(plan: &Plan, folder: &str) -> Self {
        let log = Arc::new(Mutex::new(Log {
            plan: plan.clone(),
            folder: folder.to_owned(),
            chance: Chance(!plan.seed),
            faults_left: plan.faults,
            scene: 0,
            run: 0,
            reads: 0,
            accepted: Vec::new(),
            approvals: Vec::new(),
            polls: 0,
            faults: 0,
            early: Vec::new(),
        }));
        let stage = Stage::start();
        let shared = Arc::clone(&log);
        stage.intercept(move |request| {
            // The name is the stage's business.
            (!request.is_name()).then(|| shared.lock().expect("a lock").answer(request))
        });
        Self { stage, log }
    }

    pub(crate) fn url(&self) -> String {
        self.stage.url()
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("a lock")
    }
}

/// Each run asks for an API version of its own, so that a request which outlives its run is known as that one's. It names
/// the seed and this process too: where a harness was interrupted, what it left behind may go on asking at a port that is
/// another's by now.
pub(crate) fn api_version(seed: u64, run: usize) -> String {
    format!("harness-{}-{seed}-{run}", std::process::id())
}

impl Log {
    fn answer(&mut self, request: &Request) -> Reply {
        let version = request.target.rsplit_once("api-version=").expect("a version").1;
        let run: usize = version.rsplit_once('-').and_then(|(_, run)| run.parse().ok()).expect("a number");
        if version != api_version(self.plan.seed, run) {
            return Reply::new(404, "", "").close();
        }
        let late = run < self.run;
        if run > self.run {
            (self.run, self.reads) = (run, 0);
            let last = self.scene + 1 == self.plan.scenes.len();
            if self.plan.moves_unseen && !last && self.chance.in_a_hundred(50) {
                self.scene += 1;
            }
        }
        let reply = if request.is_post() { self.on_post(run, late, request.ids()) } else { self.on_poll(late) };
        if self.chance.in_a_hundred(10) {
            return reply.after(Duration::from_millis(self.chance.within(1, 150)));
        }
        reply
    }

    fn on_poll(&mut self, late: bool) -> Reply {
        self.polls += 1;
        let shown = &self.plan.scenes[self.scene].events;
        let early = marks(&self.folder).into_iter().filter(|mark| mark.word == "recover");
        self.early.extend(early.map(|mark| mark.id).filter(|id| shown.iter().any(|(shown, _)| shown == id)));
        if self.faults_left.0 > 0 && self.chance.in_a_hundred(20) {
            self.faults_left.0 -= 1;
            self.faults += 1;
            return match self.chance.within(0, 3) {
                0 => Reply::new(200, "", ""),
                1 => Reply::raw("").close(),
                2 => Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{\"DocumentIncarnation\":").close(),
                _ => Reply::new(*self.chance.one_of(&[404, 410, 429, 500, 503]), "", "{}"),
            };
        }
        if !late {
            let passed = match &self.plan.scenes[self.scene].gate {
                Gate::Read(times) => self.reads >= *times,
                Gate::Approved(ids) => {
                    self.reads >= 1 && ids.iter().all(|id| self.accepted.iter().any(|accepted| accepted == id))
                }
                Gate::Never => false,
            };
            if passed {
                (self.scene, self.reads) = (self.scene + 1, 0);
            }
            self.reads += 1;
        }
        let events: Vec<_> = self.plan.scenes[self.scene].events.iter().map(|&(id, stand)| event(id, stand)).collect();
        Reply::new(200, "", document(self.scene as u64 + 1, &events))
    }

    fn on_post(&mut self, run: usize, late: bool, ids: Vec<String>) -> Reply {
        let mut status = Some(200);
        let mut accepts = true;
        if self.faults_left.1 > 0 && self.chance.in_a_hundred(60) {
            self.faults_left.1 -= 1;
            self.faults += 1;
            status = *self.chance.one_of(&[None, Some(400), Some(429), Some(500), Some(503)]);
            // An answer that is lost says nothing about the request.
            accepts = status.is_none() && self.chance.in_a_hundred(50);
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
        status.map_or_else(|| Reply::raw("").close(), |status| Reply::new(status, "", ""))
    }
}

/// What the commands left behind, each as a file `RUN.WORD.ID.PID.begin` or `….end`.
pub(crate) fn marks(folder: &str) -> Vec<Mark> {
    let entries = fs::read_dir(folder).expect("the folder");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    let parse = |name: &std::ffi::OsString| {
        let mut words = name.to_str()?.split('.').map(str::to_owned);
        let (run, word, id) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        Some(Mark { run, word, id, process: words.next()?.parse().ok()?, ended: words.next()? == "end" })
    };
    names.iter().map(|name| parse(name).unwrap_or_else(|| panic!("a mark named {}", name.display()))).collect()
}
