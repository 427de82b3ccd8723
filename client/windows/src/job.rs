//! Job objects: a process and everything that it starts, ended together.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::process::Child;
use std::ptr::null;

use windows_sys::Win32::Foundation::{
    ERROR_INVALID_PARAMETER, ERROR_NO_MORE_FILES, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectBasicAccountingInformation, JobObjectExtendedLimitInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED, OpenThread, ResumeThread, THREAD_SUSPEND_RESUME,
};

use crate::check;

/// How a process for [`Job::start`] is created: suspended, so that it starts nothing before it is in the job, and as a group that
/// Ctrl-C does not reach.
pub const CREATION_FLAGS: u32 = CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP;

/// The exit code of processes that are killed.
const KILLED: u32 = 1;

/// A process and everything that it starts. Dropping it kills them, and so does the end of this process, in whatever way.
#[derive(Debug)]
pub struct Job {
    job: OwnedHandle,
    leader: u32,
}

impl Job {
    /// Puts a process that was created with [`CREATION_FLAGS`] into a new job, and lets it run.
    ///
    /// # Errors
    /// Windows refuses the job. The process still waits; kill it.
    pub fn start(process: &Child) -> io::Result<Self> {
        // SAFETY: no attributes and no name; the handle is checked, and owned from here on.
        let job = unsafe {
            let job = CreateJobObjectW(null(), null());
            if job.is_null() {
                return Err(io::Error::last_os_error());
            }
            OwnedHandle::from_raw_handle(job)
        };
        let job = Self {
            job,
            leader: process.id(),
        };
        job.set_kill_on_close(true)?;
        // SAFETY: both handles are open.
        check(unsafe { AssignProcessToJobObject(job.raw(), process.as_raw_handle()) })?;
        resume(process.id())?;
        Ok(job)
    }

    /// The number of processes that run.
    pub fn processes(&self) -> u32 {
        // SAFETY: the structure consists of numbers, and its size is passed.
        let found = unsafe {
            let mut counts: JOBOBJECT_BASIC_ACCOUNTING_INFORMATION = zeroed();
            let size = struct_size::<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION>();
            let place = (&raw mut counts).cast();
            let class = JobObjectBasicAccountingInformation;
            check(QueryInformationJobObject(
                self.raw(),
                class,
                place,
                size,
                std::ptr::null_mut(),
            ))
            .map(|()| counts.ActiveProcesses)
        };
        found.unwrap_or_default()
    }

    /// Sends Ctrl-Break to the process, which it receives if it has the same console as this one. Returns whether it was sent.
    pub fn send_break(&self) -> bool {
        // SAFETY: only numbers are passed.
        unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, self.leader) != 0 }
    }

    /// Kills all processes.
    pub fn kill(&self) {
        // SAFETY: the handle is open. It fails if nothing runs.
        unsafe { TerminateJobObject(self.raw(), KILLED) };
    }

    /// From now on, what runs survives this value.
    pub fn release(&self) {
        // Without it, what was left running is killed: there is nothing else to do.
        let _ = self.set_kill_on_close(false);
    }

    fn set_kill_on_close(&self, kill: bool) -> io::Result<()> {
        // SAFETY: the structure consists of numbers, and its size is passed.
        unsafe {
            let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = zeroed();
            limits.BasicLimitInformation.LimitFlags = if kill {
                JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
            } else {
                0
            };
            let size = struct_size::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>();
            let place = (&raw const limits).cast();
            check(SetInformationJobObject(
                self.raw(),
                JobObjectExtendedLimitInformation,
                place,
                size,
            ))
        }
    }

    fn raw(&self) -> RawHandle {
        self.job.as_raw_handle()
    }
}

/// Lets the threads of a process run that was created suspended. One that a scanner had started there may have ended meanwhile.
fn resume(process: u32) -> io::Result<()> {
    // SAFETY: every handle is checked before it is used, and closed by its owner; the structure consists of numbers and has its size.
    unsafe {
        let snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
        if snapshot == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        let snapshot = OwnedHandle::from_raw_handle(snapshot);
        let mut entry: THREADENTRY32 = zeroed();
        entry.dwSize = struct_size::<THREADENTRY32>();
        let mut is_resumed = false;
        let mut more = Thread32First(snapshot.as_raw_handle(), &raw mut entry);
        while more != 0 {
            if entry.th32OwnerProcessID == process {
                let thread = OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID);
                if thread.is_null() {
                    let error = io::Error::last_os_error();
                    if error.raw_os_error() != Some(ERROR_INVALID_PARAMETER.cast_signed()) {
                        return Err(error);
                    }
                } else {
                    let thread = OwnedHandle::from_raw_handle(thread);
                    if ResumeThread(thread.as_raw_handle()) == u32::MAX {
                        return Err(io::Error::last_os_error());
                    }
                    is_resumed = true;
                }
            }
            more = Thread32Next(snapshot.as_raw_handle(), &raw mut entry);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(ERROR_NO_MORE_FILES.cast_signed()) {
            return Err(error);
        }
        // It would wait for ever.
        if is_resumed {
            Ok(())
        } else {
            Err(io::Error::other(
                "Windows lists no thread of the new process",
            ))
        }
    }
}

fn struct_size<T>() -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(u32::MAX)
}
