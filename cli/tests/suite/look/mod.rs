//! The commands that show something and change nothing.

#[cfg(unix)]
mod discover;
mod documents;
mod status;
mod tables;
#[cfg(unix)]
mod timeline;
mod wait;
