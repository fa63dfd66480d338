//! The configuration file: one that a person named, or `stemma.toml` that was found. A found file may have come with
//! somebody's documents. It may change limits and methods, but says neither who gets texts and secrets, nor who may connect,
//! nor which other files are read.

use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use serde_json::Value;

use crate::config::{ConfigError, SECRET_KEYS};
use crate::trust::read_own;

/// Name of a configuration file that is found.
pub const DEFAULT_FILE: &str = "stemma.toml";

// Sections with addresses and rights only.
const SECTIONS: [&str; 5] = ["broker", "redis", "s3", "query", "sources"];
// Names of addresses, in any section.
const ADDRESSES: [&str; 3] = ["base_url", "key_header", "otlp_endpoint"];
// Paths of other files.
const PATHS: [&str; 3] = ["prompts", "reason.knowledge.files", "local.second_reader"];

/// A configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigFile {
    /// By `--config` or `STEMMA_CONFIG`.
    Named(PathBuf),
    /// In the working directory, or next to the store.
    Found(PathBuf),
}

impl ConfigFile {
    /// The file of that name in `folder`, if there is one.
    pub fn find(folder: &Path) -> Option<Self> {
        let path = folder.join(DEFAULT_FILE);
        // A link, dangling or not, is found and then refused.
        path.symlink_metadata().is_ok().then_some(Self::Found(path))
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Named(path) | Self::Found(path) => path,
        }
    }

    /// The text of the file, which is TOML. It is read once: what a found file may set was checked in this text.
    ///
    /// # Errors
    /// [`ConfigError`] naming the file, and the setting that it may not have.
    pub(crate) fn read(&self) -> Result<String, ConfigError> {
        let path = self.path();
        let invalid = |error: &dyn Display| {
            let message = format!("{}: {error}", path.display());
            ConfigError::Invalid(message)
        };
        let text = match self {
            Self::Named(path) => fs::read_to_string(path).map_err(|error| match error.kind() {
                ErrorKind::NotFound => ConfigError::NoFile(path.clone()),
                _ => invalid(&error),
            })?,
            Self::Found(path) => read_own(path)?,
        };
        let values: Value = Toml::from_str(&text).map_err(|error| invalid(&error))?;
        match (self, reserved_setting(&values)) {
            (Self::Found(path), Some(key)) => Err(ConfigError::Unnamed {
                key,
                path: path.clone(),
            }),
            _ => Ok(text),
        }
    }
}

// A setting that only a named file may have. Entries of lists count as their fields do.
fn reserved_setting(values: &Value) -> Option<String> {
    let mut stack = vec![(String::new(), values)];
    while let Some((key, value)) = stack.pop() {
        if is_reserved(&key) {
            return Some(key);
        }
        match value {
            Value::Object(fields) => stack.extend(fields.iter().map(|(name, value)| {
                let separator = if key.is_empty() { "" } else { "." };
                (format!("{key}{separator}{name}"), value)
            })),
            Value::Array(items) => stack.extend(items.iter().map(|item| (key.clone(), item))),
            _ => {}
        }
    }
    None
}

/// Whether only a named file may have the setting.
pub fn is_reserved(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or(key);
    let name = key.rsplit('.').next().unwrap_or(key);
    SECTIONS.contains(&section)
        || ADDRESSES.contains(&name)
        || SECRET_KEYS.contains(&name)
        || PATHS.iter().any(|path| {
            key.strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::Distrust;

    fn read(toml: &str) -> Result<String, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(DEFAULT_FILE), toml).unwrap();
        ConfigFile::find(folder.path()).unwrap().read()
    }

    #[test]
    fn a_found_file_sets_no_address_secret_right_or_path() {
        for (toml, key) in [
            (
                "[model]\nname = \"m\"\nbase_url = \"http://a\"",
                "model.base_url",
            ),
            ("model.base_url = \"\"", "model.base_url"),
            ("[model]\nheaders = [\"a: b\"]", "model.headers"),
            (
                "[[models]]\nname = \"a\"\n[[models]]\nbase_url = \"x\"",
                "models.base_url",
            ),
            (
                "[embeddings]\nbase_url = \"http://a\"",
                "embeddings.base_url",
            ),
            ("[s3]\nendpoint = \"http://a\"", "s3"),
            ("s3.region = \"a\"", "s3"),
            ("[query]\nhosts = [\"a\"]", "query"),
            ("[broker]\nurl = \"amqp://a\"", "broker"),
            ("[redis]\nurl = \"redis://a\"", "redis"),
            (
                "[telemetry]\notlp_endpoint = \"http://a\"",
                "telemetry.otlp_endpoint",
            ),
            ("prompts = \"p\"", "prompts"),
            (
                "[reason.knowledge.files]\ndefault = \"/a\"",
                "reason.knowledge.files",
            ),
            ("[local]\nsecond_reader = \"/a\"", "local.second_reader"),
        ] {
            match read(toml) {
                Err(ConfigError::Unnamed { key: found, .. }) => assert_eq!(found, key, "{toml}"),
                other => panic!("{toml}: {other:?}"),
            }
        }
        let toml = "structure = \"layout\"\n[limits]\nmax_pages = 3\n[model]\nname = \"m\"";
        assert_eq!(read(toml).unwrap(), toml);
    }

    #[test]
    fn a_found_file_is_no_link() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ConfigFile::find(folder.path()), None);
        let other = folder.path().join("other");
        fs::write(&other, "structure = \"layout\"\n").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join(DEFAULT_FILE)).unwrap();
        let found = ConfigFile::find(folder.path()).unwrap();
        assert!(matches!(
            found.read(),
            Err(ConfigError::Distrust(Distrust::Link(_)))
        ));
        let named = ConfigFile::Named(found.path().into());
        assert_eq!(named.read().unwrap(), "structure = \"layout\"\n");
    }

    #[test]
    fn a_found_file_that_claims_a_terabyte_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DEFAULT_FILE);
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = ConfigFile::find(folder.path()).unwrap().read();
        assert!(error.unwrap_err().to_string().contains("at most 1 MiB"));
    }
}
