//! The commands that only show something.

#[cfg(unix)]
mod discover;
mod documents;
mod invalid_members;
mod policy_words;
mod status;
mod tables;
#[cfg(unix)]
mod timeline;
mod wait;
