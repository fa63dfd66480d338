//! Loading the header of a run.

use std::fmt;

use crate::blobs::Blobs;
use crate::key::{RunHeader, RunRef};
use crate::port_error::PortResult;

/// Why the header of a run is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderError {
    Missing(String),
    Unreadable(String),
    /// It says that it is of another run.
    OfAnotherRun(String),
}

impl HeaderError {
    /// The code of a failure for this reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Missing(_) => "engine.header_missing",
            Self::Unreadable(_) | Self::OfAnotherRun(_) => "engine.header_invalid",
        }
    }
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(key) => write!(f, "no run header at {key}"),
            Self::Unreadable(why) => f.write_str(why),
            Self::OfAnotherRun(key) => write!(f, "the header at {key} is of another run"),
        }
    }
}

impl RunHeader {
    /// Loads the header that `at` refers to. What it says about itself must be the same: its scope decides what is read and
    /// written for the run.
    ///
    /// # Errors
    /// [`crate::PortError`] when the store is unavailable; the inner error when the header does not exist.
    pub async fn load(blobs: &dyn Blobs, at: &RunRef) -> PortResult<Result<Self, HeaderError>> {
        let key = &at.header;
        let Some(json) = blobs.get(key).await? else {
            return Ok(Err(HeaderError::Missing(key.clone())));
        };
        Ok(match serde_json::from_slice::<Self>(&json) {
            Ok(header) if header.at == *at => Ok(header),
            Ok(_) => Err(HeaderError::OfAnotherRun(key.clone())),
            Err(error) => Err(HeaderError::Unreadable(format!("{key}: {error}"))),
        })
    }
}
