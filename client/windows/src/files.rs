//! Files: one is replaced while others read it, and a folder is for administrators alone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::thread;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{ERROR_ALREADY_EXISTS, FALSE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetSecurityInfo, SDDL_REVISION_1,
    SE_FILE_OBJECT, SetSecurityInfo,
};
use windows_sys::Win32::Security::{
    ACL, DACL_SECURITY_INFORMATION, EqualSid, GetSecurityDescriptorDacl,
    GetSecurityDescriptorOwner, GetTokenInformation, IsWellKnownSid, OWNER_SECURITY_INFORMATION,
    PROTECTED_DACL_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID, SECURITY_ATTRIBUTES,
    TOKEN_QUERY, TOKEN_USER, TokenUser, WinBuiltinAdministratorsSid, WinLocalSystemSid,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, CreateDirectoryW, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_LIST_DIRECTORY, FILE_READ_ATTRIBUTES, FILE_SHARE_READ,
    FILE_SHARE_WRITE, GetFileInformationByHandle, MOVEFILE_REPLACE_EXISTING,
    MOVEFILE_WRITE_THROUGH, MoveFileExW, READ_CONTROL, WRITE_DAC, WRITE_OWNER,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use crate::{check, check_code, wide};

/// How long replacing a file is tried while another program has it open.
const REPLACE_TIME: Duration = Duration::from_secs(2);

const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Full access for SYSTEM and the administrators, who own it, and for nobody else; nothing is inherited.
const PRIVATE: &str = "O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)";

/// Renames a file so that it replaces another one, on the disk and not only in memory. While a scanner or a backup has one of them
/// open, this is repeated for two seconds.
///
/// # Errors
/// Those of Windows.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let (wide_from, wide_to) = (wide(from)?, wide(to)?);
    let deadline = Instant::now() + REPLACE_TIME;
    loop {
        // SAFETY: both texts end with a zero.
        let moved = check(unsafe {
            MoveFileExW(
                wide_from.as_ptr(),
                wide_to.as_ptr(),
                MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH,
            )
        });
        match moved.or_else(|_| replace_open(from, to)) {
            Err(error) if is_in_use(&error) && Instant::now() < deadline => {
                thread::sleep(RETRY_INTERVAL);
            }
            result => return result,
        }
    }
}

/// Replaces a file that others have open, if they share it: the standard library does that. Its rename is on the disk once the
/// file is.
fn replace_open(from: &Path, to: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(from)?;
    fs::rename(from, to)?;
    file.sync_all()
}

/// Whether it failed since another program has the file open: access denied, a sharing or a lock violation.
fn is_in_use(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(5 | 32 | 33))
}

/// Creates a folder that only SYSTEM and administrators can read and write. One that exists becomes such a folder, unless somebody
/// other than they or this user owns it, or a file in it: everybody can create folders in `ProgramData`, and files in a folder that
/// an administrator made there. The owner of a file can always change its access list.
///
/// # Errors
/// `PermissionDenied` for a folder or file that belongs to somebody else, and those of Windows.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    let descriptor = Descriptor::parse(PRIVATE)?;
    let name = wide(folder)?;
    let attributes = SECURITY_ATTRIBUTES {
        nLength: u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).unwrap_or(u32::MAX),
        lpSecurityDescriptor: descriptor.0,
        bInheritHandle: FALSE,
    };
    // SAFETY: the name ends with a zero, and the descriptor is valid.
    match check(unsafe { CreateDirectoryW(name.as_ptr(), &raw const attributes) }) {
        Err(error) if error.raw_os_error() == Some(ERROR_ALREADY_EXISTS.cast_signed()) => {}
        result => return result,
    }
    // Nobody exchanges the folder while this is open.
    let opened = open(
        folder,
        FILE_LIST_DIRECTORY | READ_CONTROL | WRITE_DAC | WRITE_OWNER,
    )?;
    check_trusted(&opened, "it")?;
    if !opened.metadata()?.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            "it is not a folder; remove it first",
        ));
    }
    let what = OWNER_SECURITY_INFORMATION
        | DACL_SECURITY_INFORMATION
        | PROTECTED_DACL_SECURITY_INFORMATION;
    let (owner, list, handle) = (
        descriptor.owner()?,
        descriptor.access_list()?,
        opened.as_raw_handle(),
    );
    // SAFETY: the handle is open; owner and list are part of the descriptor, which lives until the end.
    check_code(unsafe {
        SetSecurityInfo(
            handle,
            SE_FILE_OBJECT,
            what,
            owner,
            null_mut(),
            list,
            null(),
        )
    })?;
    // From now on, nobody else adds a file.
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        check_trusted(
            &open(&path, READ_CONTROL)?,
            &format!("{} in it", path.display()),
        )?;
    }
    Ok(())
}

/// Opens a file, a folder or a link itself. With access to its content, nobody can rename or remove it as long as it is open.
fn open(path: &Path, access: u32) -> io::Result<File> {
    OpenOptions::new()
        .access_mode(access | FILE_READ_ATTRIBUTES)
        .share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS)
        .open(path)
}

/// Checks that it is no link, and belongs to SYSTEM, the administrators or this user.
fn check_trusted(file: &File, named: &str) -> io::Result<()> {
    if !file.metadata()?.is_symlink()
        && is_owned_by(file, |owner| {
            is_administrators(owner) || is_this_user(owner)
        })?
    {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{named} is a link, or belongs to a user other than SYSTEM, the administrators and you; remove it first"
        ),
    ))
}

/// Whether the path leads to this open file. A link does not.
///
/// # Errors
/// Those of Windows: there is no such file, for example.
pub fn is_same(file: &File, path: &Path) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options
        .access_mode(FILE_READ_ATTRIBUTES)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS);
    Ok(id(file)? == id(&options.open(path)?)?)
}

/// The number of the volume, and that of the file in it.
fn id(file: &File) -> io::Result<[u32; 3]> {
    // SAFETY: the handle is open, and the structure consists of numbers.
    unsafe {
        let mut found: BY_HANDLE_FILE_INFORMATION = zeroed();
        check(GetFileInformationByHandle(
            file.as_raw_handle(),
            &raw mut found,
        ))?;
        Ok([
            found.dwVolumeSerialNumber,
            found.nFileIndexHigh,
            found.nFileIndexLow,
        ])
    }
}

/// Whether a file or folder belongs to SYSTEM or to the administrators.
///
/// # Errors
/// Those of Windows.
pub fn is_owned_by_administrators(path: &Path) -> io::Result<bool> {
    let file = OpenOptions::new()
        .access_mode(READ_CONTROL)
        .custom_flags(FILE_FLAG_BACKUP_SEMANTICS)
        .open(path)?;
    is_owned_by(&file, is_administrators)
}

fn is_owned_by(file: &File, is_wanted: impl FnOnce(PSID) -> bool) -> io::Result<bool> {
    let (mut owner, mut descriptor): (PSID, PSECURITY_DESCRIPTOR) = (null_mut(), null_mut());
    // SAFETY: the handle is open, and the results have their types.
    check_code(unsafe {
        GetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &raw mut owner,
            null_mut(),
            null_mut(),
            null_mut(),
            &raw mut descriptor,
        )
    })?;
    // The owner is part of the descriptor.
    let _descriptor = Descriptor(descriptor);
    // A file system without access lists knows no owner.
    Ok(!owner.is_null() && is_wanted(owner))
}

fn is_administrators(owner: PSID) -> bool {
    // SAFETY: the owner is valid.
    [WinBuiltinAdministratorsSid, WinLocalSystemSid]
        .into_iter()
        .any(|kind| unsafe { IsWellKnownSid(owner, kind) } != 0)
}

/// Whether it is the user of this process.
fn is_this_user(owner: PSID) -> bool {
    let mut token = null_mut();
    // A token's user, with the identifier after it. Its alignment is that of the structure's pointer.
    let mut buffer = [0_usize; 32];
    let mut length = 0;
    // SAFETY: the token is closed by its owner; the size is that of the buffer, which is aligned for the structure.
    unsafe {
        if OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) == 0 {
            return false;
        }
        let token = OwnedHandle::from_raw_handle(token);
        let size = u32::try_from(size_of_val(&buffer)).unwrap_or_default();
        let place = buffer.as_mut_ptr();
        if GetTokenInformation(
            token.as_raw_handle(),
            TokenUser,
            place.cast(),
            size,
            &raw mut length,
        ) == 0
        {
            return false;
        }
        EqualSid(owner, (*place.cast::<TOKEN_USER>()).User.Sid) != 0
    }
}

/// A security descriptor that Windows allocated.
struct Descriptor(PSECURITY_DESCRIPTOR);

impl Descriptor {
    fn parse(text: &str) -> io::Result<Self> {
        let text = wide(text)?;
        let mut descriptor = null_mut();
        // SAFETY: the text ends with a zero; the descriptor is freed when it is dropped.
        check(unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                null_mut(),
            )
        })?;
        Ok(Self(descriptor))
    }

    fn owner(&self) -> io::Result<PSID> {
        let (mut defaulted, mut owner) = (0, null_mut());
        // SAFETY: the descriptor is valid.
        check(unsafe { GetSecurityDescriptorOwner(self.0, &raw mut owner, &raw mut defaulted) })?;
        Ok(owner)
    }

    fn access_list(&self) -> io::Result<*mut ACL> {
        let (mut present, mut defaulted, mut list) = (0, 0, null_mut());
        // SAFETY: the descriptor is valid.
        check(unsafe {
            GetSecurityDescriptorDacl(self.0, &raw mut present, &raw mut list, &raw mut defaulted)
        })?;
        Ok(list)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: Windows allocated it so that it is freed with this function.
        unsafe { LocalFree(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!(
            "scheduled-events-windows-{name}-{}",
            std::process::id()
        ));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_is_replaced_once_its_reader_closes_it() {
        let folder = folder("replace");
        let (old, new) = (folder.join("state"), folder.join("state.tmp"));
        for (share, waits) in [(FILE_SHARE_READ, true), (7, false)] {
            fs::write(&old, "old").unwrap();
            fs::write(&new, "new").unwrap();
            let reader = OpenOptions::new()
                .read(true)
                .share_mode(share)
                .open(&old)
                .unwrap();
            let closes = thread::spawn(move || {
                thread::sleep(Duration::from_millis(if waits { 300 } else { 0 }));
                drop(reader);
            });
            replace(&new, &old).unwrap();
            assert_eq!(fs::read_to_string(&old).unwrap(), "new");
            closes.join().unwrap();
        }
        assert!(replace(&folder.join("missing"), &old).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_open_file_replaces_another_one() {
        let folder = folder("open");
        let (old, new) = (folder.join("state"), folder.join("state.tmp"));
        fs::write(&old, "old").unwrap();
        fs::write(&new, "new").unwrap();
        // Wine replaces no file that is open; Windows does.
        let reader = File::open(&new).unwrap();
        replace_open(&new, &old).unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "new");
        assert!(!new.exists());
        drop(reader);
        assert!(replace_open(&new, &old).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_private_folder_is_the_administrators() {
        let folder = folder("private");
        let private = folder.join("private");
        create_private_folder(&private).unwrap();
        fs::write(private.join("state"), "").unwrap();
        fs::create_dir(private.join("folder")).unwrap();
        create_private_folder(&private).unwrap();
        assert!(create_private_folder(&folder.join("missing/private")).is_err());
        let error = create_private_folder(&private.join("state")).unwrap_err();
        assert!(error.to_string().contains("it is not a folder"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_checked_cannot_be_exchanged_meanwhile() {
        let folder = folder("exchanged");
        let (private, away) = (folder.join("private"), folder.join("away"));
        fs::create_dir(&private).unwrap();
        let opened = open(&private, FILE_LIST_DIRECTORY | READ_CONTROL).unwrap();
        check_trusted(&opened, "it").unwrap();
        assert!(fs::rename(&private, &away).is_err() && fs::remove_dir(&private).is_err());
        drop(opened);
        fs::rename(&private, &away).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_is_another_one_once_it_was_replaced() {
        let folder = folder("same");
        let (path, away) = (folder.join("audit"), folder.join("away"));
        let file = File::create(&path).unwrap();
        assert!(is_same(&file, &path).unwrap());
        fs::rename(&path, &away).unwrap();
        assert_eq!(
            is_same(&file, &path).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        fs::write(&path, "").unwrap();
        assert!(!is_same(&file, &path).unwrap() && is_same(&file, &away).unwrap());
        drop(file);
        fs::remove_dir_all(folder).unwrap();
    }
}
