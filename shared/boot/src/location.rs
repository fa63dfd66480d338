//! The location of a store: a local folder, or a prefix in a bucket.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::{Access, access};

use crate::trust::is_trusted;

/// The location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    Folder(PathBuf),
    /// A folder that nobody named: it is in the working directory or above, and may be somebody else's.
    Found(PathBuf),
    /// `s3://bucket/prefix`; the prefix may be empty.
    Bucket {
        bucket: String,
        /// Without a slash at either end.
        prefix: String,
    },
}

/// An invalid store location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a store: use a folder or s3://bucket/prefix")]
pub struct LocationError(String);

impl Location {
    /// The folder, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Location::Folder(path) | Location::Found(path) => Some(path),
            Location::Bucket { .. } => None,
        }
    }

    /// Folder for local caches of the store: inside a folder store if it is this user's and writable, else below
    /// `user_cache`.
    pub fn cache(&self, user_cache: &Path) -> PathBuf {
        match self {
            Location::Folder(path) | Location::Found(path) if has_own_caches(path) => {
                path.join("index")
            }
            Location::Folder(path) | Location::Found(path) => {
                let path = path.canonicalize().unwrap_or_else(|_| path.clone());
                user_cache
                    .join("stemma")
                    .join(path.to_string_lossy().replace('/', "~"))
            }
            // `~` cannot occur in a bucket name, so the joined name is unique.
            Location::Bucket { bucket, prefix } => user_cache
                .join("stemma")
                .join(format!("{bucket}~{}", prefix.replace('/', "~"))),
        }
    }
}

fn has_own_caches(store: &Path) -> bool {
    match store.metadata() {
        Ok(metadata) => is_trusted(metadata.uid()) && access(store, Access::WRITE_OK).is_ok(),
        Err(_) => !store.exists(),
    }
}

impl FromStr for Location {
    type Err = LocationError;

    fn from_str(text: &str) -> Result<Self, LocationError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return if text.is_empty() {
                Err(LocationError(text.into()))
            } else {
                Ok(Location::Folder(text.into()))
            };
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if scheme != "s3" || bucket.is_empty() {
            return Err(LocationError(text.into()));
        }
        Ok(Location::Bucket {
            bucket: bucket.into(),
            prefix: prefix.trim_matches('/').into(),
        })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Folder(path) | Location::Found(path) => path.display().fmt(f),
            Location::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Location::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_folder_and_bucket_locations() {
        let bucket = |bucket: &str, prefix: &str| Location::Bucket {
            bucket: bucket.into(),
            prefix: prefix.into(),
        };
        assert_eq!("s3://filings/a/b/".parse(), Ok(bucket("filings", "a/b")));
        assert_eq!("s3://filings".parse(), Ok(bucket("filings", "")));
        assert_eq!(".stemma".parse(), Ok(Location::Folder(".stemma".into())));
        assert_eq!(bucket("filings", "a/b").to_string(), "s3://filings/a/b");
        let cache = |text: &str| {
            text.parse::<Location>()
                .map(|location| location.cache(Path::new("/cache")))
        };
        assert_eq!(cache("no/such"), Ok("no/such/index".into()));
        assert_eq!(
            cache("s3://filings/a/b"),
            Ok("/cache/stemma/filings~a~b".into())
        );
        for wrong in ["", "s3://", "s3:///a", "ftp://x/y"] {
            assert!(wrong.parse::<Location>().is_err(), "{wrong}");
        }
    }
}
