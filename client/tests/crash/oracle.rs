//! The promises, checked from outside: from what the command told, what the service was asked, and what the commands
//! left behind.
//!
//! A command that is killed before its record runs again; each such kill allows for one repetition. Everything else
//! happens once.

use std::fmt;

use scheduled_events::state::Owed;
use serde_json::Value;

use crate::plan::{CHANGES, FOREIGN, Kill, Plan, Stand};
use crate::service::{Approval, Mark};

/// One run of the command, up to its kill or its end.
#[derive(Debug)]
pub(crate) struct Run {
    /// Where it was to be killed.
    pub(crate) kill: Option<Kill>,
    /// Whether it was.
    pub(crate) killed: bool,
    pub(crate) code: Option<i32>,
    pub(crate) records: Vec<Value>,
    pub(crate) stderr: String,
    /// The commands for changes that its state file knows as not ended.
    pub(crate) owed: Vec<Owed>,
}

/// All that is known of a seed from outside.
#[derive(Debug)]
pub(crate) struct Transcript {
    pub(crate) plan: Plan,
    pub(crate) runs: Vec<Run>,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) marks: Vec<Mark>,
    /// Recoveries that began while their event was still shown.
    pub(crate) early: Vec<String>,
    /// Whether the last run ended by itself.
    pub(crate) ended: bool,
}

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Broken {
    /// The command failed, or left a state file that is not whole.
    Failed,
    /// It goes on for ever: something was not done, not approved again, or not recovered from.
    NeverEnds,
    /// A change was not told.
    ChangeLost,
    /// A change was told again although the command had gone on since.
    ChangeAgain,
    PreparedAgain,
    ApprovedTooEarly,
    ApprovedAgain,
    ApprovedWrongly,
    RecoveryForgotten,
    RecoveredTooEarly,
    RecoveredAgain,
    /// A command for a change did not run to its end.
    CommandLost,
    CommandAgain,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

type Finding = (Broken, String);

/// Every promise that was broken, with what shows it.
pub(crate) fn judge(seen: &Transcript) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !seen.ended {
        findings.push((Broken::NeverEnds, "the last run goes on".into()));
    }
    for (number, run) in seen.runs.iter().enumerate() {
        let ended_well =
            run.killed && run.code.is_none() || run.code == Some(0) || number + 1 == seen.runs.len() && !seen.ended;
        if !ended_well {
            findings.push((Broken::Failed, format!("run {number} ended with {:?}", run.code)));
        }
        for word in ["damaged", "panicked", "could not be written", "could not be started"] {
            if run.stderr.contains(word) {
                findings.push((Broken::Failed, format!("run {number} says: {}", run.stderr)));
            }
        }
    }
    for id in seen.plan.ids() {
        seen.changes(id, &mut findings);
        seen.preparation(id, &mut findings);
        seen.approval(id, &mut findings);
        seen.recovery(id, &mut findings);
        seen.commands(id, &mut findings);
    }
    findings
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.plan)?;
        for (number, run) in self.runs.iter().enumerate() {
            writeln!(f, "run {number}: kill {:?}, killed {}, code {:?}", run.kill, run.killed, run.code)?;
            for record in &run.records {
                writeln!(f, "    {record}")?;
            }
            writeln!(f, "    stderr: {:?}", run.stderr)?;
        }
        for approval in &self.approvals {
            let Approval { run, late, ids, status, .. } = approval;
            writeln!(f, "approval in run {run} of {ids:?}: {status:?}, late {late}")?;
        }
        for Mark { run, word, id, ended, .. } in &self.marks {
            writeln!(f, "{word} {id} in run {run}: {}", if *ended { "ended" } else { "begun" })?;
        }
        Ok(())
    }
}

impl Transcript {
    fn kills(&self) -> usize {
        self.runs.iter().filter(|run| run.killed).count()
    }

    /// The first run that told a record.
    fn told(&self, passes: impl Fn(&Value) -> bool) -> Option<usize> {
        self.runs.iter().position(|run| run.records.iter().any(&passes))
    }

    fn told_outcome(&self, kind: &str, id: &str) -> Option<usize> {
        self.told(|record| record["record"] == kind && record["event_id"] == id)
    }

    /// The runs in which a command began.
    fn begun(&self, word: &str, id: &str) -> Vec<usize> {
        let begun = self.marks.iter().filter(|mark| !mark.ended && mark.word == word && mark.id == id);
        begun.map(|mark| mark.run).collect()
    }

    fn ended(&self, word: &str, id: &str) -> bool {
        ended(&self.marks, word, id)
    }

    /// Each change is told, in order, and again only where a kill came between its telling and its keeping.
    fn changes(&self, id: &str, findings: &mut Vec<Finding>) {
        let expected = self.plan.changes(id);
        let mut next = 0;
        let mut last = String::new();
        // Whether the run that told it is known to have kept that.
        let (mut told_in, mut kept) = (0, false);
        for (number, run) in self.runs.iter().enumerate() {
            for record in &run.records {
                let change = record["change"].as_str().filter(|_| record["event_id"] == id);
                let Some(change) = change else {
                    // What is told of other events says nothing; these are told once everything is kept.
                    kept |= told_in == number
                        && ["prepare", "approval", "recover", "poll-failed"]
                            .iter()
                            .any(|kind| record["record"] == **kind);
                    continue;
                };
                if expected.get(next).is_some_and(|words| words.contains(&change)) {
                    next += 1;
                } else if self.plan.moves_unseen && last != change {
                    // What was missed shows in what comes after it; all that is told is told once, and the end is told.
                } else if last != change || kept {
                    let text = format!("{id}: {change} after {last}, {next} of {expected:?} told, kept: {kept}");
                    findings.push((Broken::ChangeAgain, text));
                }
                change.clone_into(&mut last);
                (told_in, kept) = (number, false);
            }
        }
        let all_told = if self.plan.moves_unseen {
            last.is_empty() || ["completed", "ended", "cancelled"].contains(&last.as_str())
        } else {
            next == expected.len()
        };
        if !all_told {
            findings.push((Broken::ChangeLost, format!("{id}: only {next} of {expected:?} were told")));
        }
    }

    fn preparation(&self, id: &str, findings: &mut Vec<Finding>) {
        let begun = self.begun("prepare", id);
        let mut complain =
            |text: String| findings.push((Broken::PreparedAgain, format!("{id}: {text}, begun in runs {begun:?}")));
        if begun.len() > self.kills() + 1 || begun.windows(2).any(|two| two[0] == two[1]) {
            complain("more often than it was killed".into());
        }
        let kept = self.told_outcome("prepare", id);
        // An approval says as much.
        let approved = self.approvals.iter().find(|approval| approval.ids.iter().any(|other| other == id));
        for run in [kept, approved.map(|approval| approval.run)].into_iter().flatten() {
            if begun.iter().any(|&begun| begun > run) {
                complain(format!("again after run {run} had kept its outcome"));
            }
        }
        if !begun.is_empty() && (!self.plan.prepares || id == FOREIGN || !self.plan.announces(id)) {
            complain("nobody asked for that".into());
        }
    }

    fn approval(&self, id: &str, findings: &mut Vec<Finding>) {
        let told = self.told(|record| {
            let ids = record["event_ids"].as_array();
            record["record"] == "approval"
                && record["status"] == 200
                && ids.is_some_and(|ids| ids.iter().any(|other| other == id))
        });
        let mut answered = None;
        let approvals = self.approvals.iter().filter(|approval| approval.ids.iter().any(|other| other == id));
        for (number, approval) in approvals.enumerate() {
            let text = || format!("{id}: approval {number}: {approval:?}");
            if self.plan.prepares && (!self.plan.prepares_well || !ended(&approval.marks, "prepare", id)) {
                findings.push((Broken::ApprovedTooEarly, text()));
            }
            let scheduled = |&(shown, stand): &(&str, Stand)| shown == id && stand != Stand::Started;
            if id == FOREIGN || !approval.late && !approval.shown.iter().any(scheduled) {
                findings.push((Broken::ApprovedWrongly, text()));
            }
            if told.is_some_and(|run| approval.run > run) || answered == Some(approval.run) {
                findings.push((Broken::ApprovedAgain, text()));
            }
            if approval.status == Some(200) {
                answered = Some(approval.run);
            }
        }
    }

    fn recovery(&self, id: &str, findings: &mut Vec<Finding>) {
        let begun = self.begun("recover", id);
        if !self.begun("prepare", id).is_empty() && !self.ended("recover", id) {
            findings
                .push((Broken::RecoveryForgotten, format!("{id}: prepared for, begun to recover in runs {begun:?}")));
        }
        let kept = self.told_outcome("recover", id);
        // A preparation that was ended at once leaves no mark, and is recovered from all the same.
        let asked = self.told(|record| record["action"] == "prepare" && record["event_id"] == id).is_some();
        if begun.len() > self.kills() + 1
            || begun.windows(2).any(|two| two[0] == two[1])
            || kept.is_some_and(|run| begun.iter().any(|&begun| begun > run))
            || !begun.is_empty() && !asked
        {
            findings.push((Broken::RecoveredAgain, format!("{id}: in runs {begun:?}, kept in run {kept:?}")));
        }
        if self.early.iter().any(|early| early == id) {
            findings.push((Broken::RecoveredTooEarly, format!("{id}: while it was still announced")));
        }
    }

    /// For each change that was told its command runs to its end, and again only where a kill came before that was kept.
    fn commands(&self, id: &str, findings: &mut Vec<Finding>) {
        if !self.plan.tells {
            return;
        }
        for change in CHANGES {
            let word = format!("on-{change}");
            let begun = self.begun(&word, id);
            let told = self.told(|record| record["change"] == change && record["event_id"] == id);
            if told.is_some() && !self.ended(&word, id) {
                findings.push((Broken::CommandLost, format!("{id}: {word} began in runs {begun:?}, told in {told:?}")));
            }
            let called_for = |&run: &usize| {
                let told = |record: &Value| record["change"] == change && record["event_id"] == id;
                let owed = |owed: &Owed| owed.change.word() == change && owed.event.event_id == id;
                self.runs[run].records.iter().any(told) || run > 0 && self.runs[run - 1].owed.iter().any(owed)
            };
            if !begun.iter().all(called_for) || begun.windows(2).any(|two| two[0] == two[1]) {
                findings.push((Broken::CommandAgain, format!("{id}: {word} began in runs {begun:?}")));
            }
        }
    }
}

fn ended(marks: &[Mark], word: &str, id: &str) -> bool {
    marks.iter().any(|mark| mark.ended && mark.word == word && mark.id == id)
}
