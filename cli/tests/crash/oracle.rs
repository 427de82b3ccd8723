//! The guarantees, checked from outside: from the records, the requests that the service received,
//! and the marks of the hooks.
//!
//! The application begins and ends in service. A preparation takes it out of service, and a
//! recovery, which finds it out of service, puts it back.
//!
//! A hook runs again if a kill comes before its record is saved; each such kill allows one
//! repetition. Everything else happens once.

use std::fmt;

use scheduled_events::state::PendingHook;
use serde_json::Value;

use crate::plan::{CHANGES, EventState, FOREIGN, Kill, Plan};
use crate::service::{Action, Approval, Mark};

/// One run of the program, up to its kill or its end.
#[derive(Debug)]
pub(crate) struct Run {
    /// Where to kill it.
    pub(crate) kill: Option<Kill>,
    /// Whether it was killed.
    pub(crate) killed: bool,
    pub(crate) code: Option<i32>,
    pub(crate) records: Vec<Value>,
    pub(crate) stderr: String,
    /// The pending hooks in its state file.
    pub(crate) pending_hooks: Vec<PendingHook>,
}

/// Everything that was observed while playing a seed.
#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) plan: Plan,
    pub(crate) runs: Vec<Run>,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) marks: Vec<Mark>,
    /// The actions on the application, in order.
    pub(crate) actions: Vec<Action>,
    /// Recoveries that acted while an event kept the machine out of service.
    pub(crate) early: Vec<String>,
    /// Whether the last run ended by itself.
    pub(crate) ended: bool,
}

/// A guarantee, named after its violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Guarantee {
    /// The program failed, or left a damaged state file.
    Failed,
    /// The program never ends: an approval or a recovery is missing.
    NeverEnds,
    /// A change was not reported.
    ChangeLost,
    /// A change was reported again although it had been saved.
    ChangeAgain,
    PreparedAgain,
    ApprovedTooEarly,
    ApprovedAgain,
    ApprovedWrongly,
    RecoveryForgotten,
    RecoveredTooEarly,
    RecoveredAgain,
    /// The hook of a reported change did not run to its end.
    HookLost,
    HookAgain,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

type Finding = (Guarantee, String);

/// All violations, with their evidence.
pub(crate) fn check(seen: &Transcript) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !seen.ended {
        findings.push((Guarantee::NeverEnds, "the last run timed out".into()));
    }
    for (number, run) in seen.runs.iter().enumerate() {
        let ended_well = run.killed && run.code.is_none()
            || run.code == Some(0)
            || number + 1 == seen.runs.len() && !seen.ended;
        if !ended_well {
            findings.push((
                Guarantee::Failed,
                format!("run {number} ended with {:?}", run.code),
            ));
        }
        for word in [
            "damaged",
            "panicked",
            "cannot write",
            "could not be started",
        ] {
            if run.stderr.contains(word) {
                findings.push((
                    Guarantee::Failed,
                    format!("run {number} reports: {}", run.stderr),
                ));
            }
        }
    }
    for id in seen.plan.ids() {
        seen.changes(id, &mut findings);
        seen.preparation(id, &mut findings);
        seen.approval(id, &mut findings);
        seen.hooks(id, &mut findings);
    }
    seen.application(&mut findings);
    seen.recovery(&mut findings);
    findings
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.plan)?;
        for (number, run) in self.runs.iter().enumerate() {
            writeln!(
                f,
                "run {number}: kill {:?}, killed {}, code {:?}",
                run.kill, run.killed, run.code
            )?;
            for record in &run.records {
                writeln!(f, "    {record}")?;
            }
            writeln!(f, "    stderr: {:?}", run.stderr)?;
        }
        for approval in &self.approvals {
            let Approval {
                run,
                late,
                ids,
                status,
                ..
            } = approval;
            writeln!(
                f,
                "approval in run {run} of {ids:?}: {status:?}, late {late}"
            )?;
        }
        for Action { run, word, id } in &self.actions {
            writeln!(f, "the application in run {run}: {word} {id}")?;
        }
        for Mark {
            run,
            word,
            id,
            ended,
            ..
        } in &self.marks
        {
            writeln!(
                f,
                "{word} {id} in run {run}: {}",
                if *ended { "ended" } else { "begun" }
            )?;
        }
        Ok(())
    }
}

impl Transcript {
    fn kills(&self) -> usize {
        self.runs.iter().filter(|run| run.killed).count()
    }

    /// The first run that reported such a record.
    fn reported(&self, passes: impl Fn(&Value) -> bool) -> Option<usize> {
        self.runs
            .iter()
            .position(|run| run.records.iter().any(&passes))
    }

    fn reported_outcome(&self, kind: &str, id: &str) -> Option<usize> {
        self.reported(|record| {
            record["record"] == kind && record["event_id"] == id && record["outcome"] != "begun"
        })
    }

    /// The runs in which this command started.
    fn begun(&self, word: &str, id: &str) -> Vec<usize> {
        let begun = self
            .marks
            .iter()
            .filter(|mark| !mark.ended && mark.word == word && mark.id == id);
        begun.map(|mark| mark.run).collect()
    }

    fn ended(&self, word: &str, id: &str) -> bool {
        ended(&self.marks, word, id)
    }

    /// Each change is reported, in order, and again only if a kill came between its report and the
    /// next save.
    fn changes(&self, id: &str, findings: &mut Vec<Finding>) {
        let expected = self.plan.changes(id);
        let mut next = 0;
        let mut last = String::new();
        // The run that reported the last change, and whether that run is known to have saved it.
        let (mut reported_in, mut saved) = (0, false);
        for (number, run) in self.runs.iter().enumerate() {
            for record in &run.records {
                let change = record["change"]
                    .as_str()
                    .filter(|_| record["event_id"] == id);
                let Some(change) = change else {
                    // These records are written after a save.
                    saved |= reported_in == number
                        && ["prepare", "approval", "recover", "poll-failed"]
                            .iter()
                            .any(|kind| record["record"] == **kind);
                    continue;
                };
                if expected
                    .get(next)
                    .is_some_and(|words| words.contains(&change))
                {
                    next += 1;
                } else if self.plan.changes_between_runs && last != change {
                    // Changes between two runs are missed, but none is reported twice, and the end
                    // is reported.
                } else if last != change || saved {
                    let text = format!(
                        "{id}: {change} after {last}, {next} of {expected:?} reported, saved: {saved}"
                    );
                    findings.push((Guarantee::ChangeAgain, text));
                }
                change.clone_into(&mut last);
                (reported_in, saved) = (number, false);
            }
        }
        let complete = if self.plan.changes_between_runs {
            last.is_empty() || ["completed", "ended", "cancelled"].contains(&last.as_str())
        } else {
            next == expected.len()
        };
        if !complete {
            findings.push((
                Guarantee::ChangeLost,
                format!("{id}: only {next} of {expected:?} were reported"),
            ));
        }
    }

    fn preparation(&self, id: &str, findings: &mut Vec<Finding>) {
        let begun = self.begun("prepare", id);
        let mut violated = |text: String| {
            findings.push((
                Guarantee::PreparedAgain,
                format!("{id}: {text}, begun in runs {begun:?}"),
            ));
        };
        // One that failed is tried again while there is time, in any run.
        let happens_once = self.plan.preparation_succeeds;
        if happens_once
            && (begun.len() > self.kills() + 1 || begun.windows(2).any(|two| two[0] == two[1]))
        {
            violated("more often than the program was killed".into());
        }
        let saved = self.reported_outcome("prepare", id);
        // An approval follows a saved preparation, too.
        let approved = self
            .approvals
            .iter()
            .find(|approval| approval.ids.iter().any(|other| other == id));
        for run in [saved, approved.map(|approval| approval.run)]
            .into_iter()
            .flatten()
        {
            if happens_once && begun.iter().any(|&begun| begun > run) {
                violated(format!("again after run {run} had saved its outcome"));
            }
        }
        if !begun.is_empty() && (!self.plan.prepares || id == FOREIGN || !self.plan.announces(id)) {
            violated("the policy does not ask for it".into());
        }
    }

    fn approval(&self, id: &str, findings: &mut Vec<Finding>) {
        let reported = self.reported(|record| {
            let ids = record["event_ids"].as_array();
            record["record"] == "approval"
                && record["status"] == 200
                && ids.is_some_and(|ids| ids.iter().any(|other| other == id))
        });
        let mut answered = None;
        let approvals = self
            .approvals
            .iter()
            .filter(|approval| approval.ids.iter().any(|other| other == id));
        for (number, approval) in approvals.enumerate() {
            let text = || format!("{id}: approval {number}: {approval:?}");
            if self.plan.prepares
                && (!self.plan.preparation_succeeds || !ended(&approval.marks, "prepare", id))
            {
                findings.push((Guarantee::ApprovedTooEarly, text()));
            }
            let scheduled =
                |&(shown, state): &(&str, EventState)| shown == id && state != EventState::Started;
            if id == FOREIGN || !approval.late && !approval.shown.iter().any(scheduled) {
                findings.push((Guarantee::ApprovedWrongly, text()));
            }
            if reported.is_some_and(|run| approval.run > run) || answered == Some(approval.run) {
                findings.push((Guarantee::ApprovedAgain, text()));
            }
            if approval.status == Some(200) {
                answered = Some(approval.run);
            }
        }
    }

    /// Follows the application from action to action.
    fn application(&self, findings: &mut Vec<Finding>) {
        let mut prepared: Vec<&str> = Vec::new();
        let mut recovered: Option<&Action> = None;
        for action in &self.actions {
            let id = action.id.as_str();
            if action.word == "prepare" {
                if recovered.is_some() {
                    findings.push((
                        Guarantee::PreparedAgain,
                        format!("{action:?} after {recovered:?}"),
                    ));
                }
                prepared.push(id);
                continue;
            }
            // The application is in service: a kill came before the last recovery was saved, or a
            // preparation was cut off before it acted.
            let is_repeated =
                recovered.is_some_and(|last| last.run < action.run && self.runs[last.run].killed);
            let was_cut_off = || recovered.is_none() && self.asked().any(|id| !self.prepared(id));
            if prepared.is_empty() && !is_repeated && !was_cut_off() {
                findings.push((
                    Guarantee::RecoveredAgain,
                    format!("{action:?} while the application was in service"),
                ));
            }
            prepared.clear();
            recovered = Some(action);
        }
        if self.ended && !prepared.is_empty() {
            let text =
                format!("the application is out of service in the end, prepared for {prepared:?}");
            findings.push((Guarantee::RecoveryForgotten, text));
        }
        for early in &self.early {
            findings.push((Guarantee::RecoveredTooEarly, early.clone()));
        }
    }

    /// The events for which the policy requires a preparation.
    fn asked(&self) -> impl Iterator<Item = &'static str> {
        let is_asked =
            |record: &Value, id: &str| record["action"] == "prepare" && record["event_id"] == id;
        let ids = self.plan.ids().into_iter();
        ids.filter(move |id| self.reported(|record| is_asked(record, id)).is_some())
    }

    /// Whether a preparation for the event has acted.
    fn prepared(&self, id: &str) -> bool {
        self.actions
            .iter()
            .any(|action| action.word == "prepare" && action.id == id)
    }

    /// The recovery of the machine runs to its end, and runs again only if a kill came before that
    /// was saved.
    fn recovery(&self, findings: &mut Vec<Finding>) {
        let recoveries = || self.marks.iter().filter(|mark| mark.word == "recover");
        let begun: Vec<_> = recoveries()
            .filter(|mark| !mark.ended)
            .map(|mark| mark.run)
            .collect();
        if self.ended && !self.actions.is_empty() && !recoveries().any(|mark| mark.ended) {
            findings.push((
                Guarantee::RecoveryForgotten,
                format!("recovery started in runs {begun:?}"),
            ));
        }
        let saved = self.reported(|record| record["record"] == "recover");
        if begun.len() > self.kills() + 1
            || begun.windows(2).any(|two| two[0] == two[1])
            || saved.is_some_and(|run| begun.iter().any(|&begun| begun > run))
            || !begun.is_empty() && self.asked().next().is_none()
        {
            findings.push((
                Guarantee::RecoveredAgain,
                format!("in runs {begun:?}, saved in run {saved:?}"),
            ));
        }
    }

    /// The hook of each reported change runs to its end, and runs again only if a kill came before
    /// that was saved.
    fn hooks(&self, id: &str, findings: &mut Vec<Finding>) {
        if !self.plan.has_hooks {
            return;
        }
        for change in CHANGES {
            let word = format!("on-{change}");
            let begun = self.begun(&word, id);
            let reported =
                self.reported(|record| record["change"] == change && record["event_id"] == id);
            if reported.is_some() && !self.ended(&word, id) {
                findings.push((
                    Guarantee::HookLost,
                    format!("{id}: {word} started in runs {begun:?}, reported in {reported:?}"),
                ));
            }
            let called_for = |&run: &usize| {
                let reported =
                    |record: &Value| record["change"] == change && record["event_id"] == id;
                let pending =
                    |hook: &PendingHook| hook.change.word() == change && hook.event.event_id == id;
                self.runs[run].records.iter().any(reported)
                    || run > 0 && self.runs[run - 1].pending_hooks.iter().any(pending)
            };
            if !begun.iter().all(called_for) || begun.windows(2).any(|two| two[0] == two[1]) {
                findings.push((
                    Guarantee::HookAgain,
                    format!("{id}: {word} started in runs {begun:?}"),
                ));
            }
        }
    }
}

fn ended(marks: &[Mark], word: &str, id: &str) -> bool {
    marks
        .iter()
        .any(|mark| mark.ended && mark.word == word && mark.id == id)
}
