//! Layered configuration: defaults, then a file, then environment variables. Each setting knows its source, and an
//! unknown key is an error that suggests the nearest valid one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use figment::providers::{Env, Format, Serialized, Toml};
use figment::util::nest;
use figment::value::{Dict, Map, Value as FigmentValue};
use figment::{Figment, Metadata, Profile, Provider};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config_file::ConfigFile;
use crate::trust::Distrust;

// Variables with our prefix that belong to the command line or to logging.
const RESERVED_VARIABLES: [&str; 4] = ["STORE", "COLLECTION", "LOG", "CONFIG"];
// Variables of tests, such as the addresses of servers.
const TEST_VARIABLE_PREFIX: &str = "TEST_";
const VARIABLE_PREFIX: &str = "STEMMA_";
// Settings that hold a secret: their values are redacted.
pub(crate) const SECRET_KEYS: [&str; 7] = [
    "url",
    "access_key",
    "secret_key",
    "api_key",
    "headers",
    "message_key",
    "previous_message_key",
];

// Source of settings that nothing changes.
const DEFAULT: &str = "default";

#[derive(Debug, Clone)]
pub struct LoadedConfig<C> {
    pub config: C,
    pub settings: Vec<Setting>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// Dotted, e.g. `limits.max_pages`.
    pub key: String,
    pub value: Value,
    pub default: Value,
    /// `default`, the file, or the environment variable.
    pub source: String,
}

/// An invalid configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("unknown setting `{key}` in {source_name}{}", nearest.as_ref().map(|key| format!("; did you mean `{key}`?")).unwrap_or_default())]
    Unknown {
        key: String,
        source_name: String,
        nearest: Option<String>,
    },
    /// A value of the wrong type, or an invalid TOML file.
    #[error("{0}")]
    Invalid(String),
    /// An explicitly named configuration file does not exist.
    #[error("the configuration file {} does not exist", .0.display())]
    NoFile(PathBuf),
    /// A found file that is a link, or of another user.
    #[error(transparent)]
    Distrust(#[from] Distrust),
    /// A setting that only a named file may have.
    #[error("{} was found rather than named, so it may not set `{key}`", path.display())]
    Unnamed { key: String, path: PathBuf },
}

/// Loads a configuration: the defaults of `C`, then `file`, then variables like `STEMMA_LIMITS__MAX_PAGES`.
///
/// # Errors
/// [`ConfigError`] naming the key and its source.
pub fn load<C: DeserializeOwned + Serialize + Default>(
    file: Option<&ConfigFile>,
) -> Result<LoadedConfig<C>, ConfigError> {
    let defaults = serde_json::to_value(C::default())
        .map_err(|error| ConfigError::Invalid(error.to_string()))?;
    let path = file.map(ConfigFile::path);
    let variables = Env::prefixed(VARIABLE_PREFIX)
        .filter(|key| {
            !RESERVED_VARIABLES.iter().any(|other| key == other)
                && !key.as_str().starts_with(TEST_VARIABLE_PREFIX)
        })
        .split("__");
    let default_settings = flatten(&defaults);
    let texts: Vec<TextVariable> = variables
        .iter()
        .filter(|(key, _)| matches!(default_settings.get(key.as_str()), Some(Value::String(_))))
        .filter_map(|(key, text)| TextVariable::misread(key.as_str(), text, &variables))
        .collect();
    let mut figment = Figment::from(Serialized::defaults(C::default()));
    if let Some(file) = file {
        figment = figment.merge(Toml::string(&file.read()?));
    }
    figment = figment.merge(variables);
    for variable in texts {
        figment = figment.merge(variable);
    }
    let values: Value = figment
        .extract()
        .map_err(|error| ConfigError::Invalid(error.to_string()))?;
    let settings = flatten(&values)
        .into_iter()
        .map(|(key, value)| {
            let source = setting_source(&figment, &key, path);
            match default_settings.get(&key) {
                Some(default) => Ok(Setting {
                    value: redact(&key, value),
                    default: default.clone(),
                    source,
                    key,
                }),
                None => Err(ConfigError::Unknown {
                    nearest: nearest(&key, default_settings.keys()),
                    key,
                    source_name: source,
                }),
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    match figment.extract() {
        Ok(config) => Ok(LoadedConfig { config, settings }),
        Err(error) => Err(invalid_setting::<C>(&flatten(&values), &settings, &error)),
    }
}

/// A variable whose setting is a text, but which looks like a number, a truth value or a list: a key, a name or a digest may
/// consist of digits.
struct TextVariable {
    key: String,
    text: String,
    metadata: Metadata,
}

impl TextVariable {
    // `None` if the variable is read as a text anyway.
    fn misread(key: &str, text: String, variables: &Env) -> Option<Self> {
        let is_text = matches!(text.parse(), Ok(FigmentValue::String(..)));
        (!is_text).then(|| Self {
            key: key.into(),
            text,
            metadata: variables.metadata(),
        })
    }
}

impl Provider for TextVariable {
    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let nested = nest(&self.key, FigmentValue::from(self.text.as_str()));
        let dict = nested.into_dict().unwrap_or_default();
        Ok(Profile::Default.collect(dict))
    }
}

// Names the setting with a value of the wrong type. The error does not: it loses the key where structs are flattened.
// So each changed setting is tried alone.
fn invalid_setting<C: DeserializeOwned + Serialize + Default>(
    values: &BTreeMap<String, Value>,
    settings: &[Setting],
    error: &figment::Error,
) -> ConfigError {
    for setting in settings.iter().filter(|setting| setting.source != DEFAULT) {
        let value = values.get(&setting.key);
        let alone = Figment::from(Serialized::defaults(C::default()))
            .merge(Serialized::default(&setting.key, value));
        if let Err(error) = alone.extract::<C>() {
            let Setting { key, source, .. } = setting;
            return ConfigError::Invalid(format!("{key} in {source}: {}", error.kind));
        }
    }
    ConfigError::Invalid(error.to_string())
}

fn redact(key: &str, value: Value) -> Value {
    let name = key.rsplit('.').next().unwrap_or(key);
    match value {
        Value::Null => Value::Null,
        Value::String(text) if text.is_empty() => text.into(),
        Value::Array(items) => items.into_iter().map(|item| redact(key, item)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name.clone(), redact(&name, value)))
            .collect(),
        _ if SECRET_KEYS.contains(&name) => "***".into(),
        value => value,
    }
}

fn setting_source(figment: &Figment, key: &str, file: Option<&Path>) -> String {
    let name = figment
        .find_metadata(key)
        .map(|metadata| metadata.name.to_string())
        .unwrap_or_default();
    if name.contains("environment") {
        format!("{VARIABLE_PREFIX}{}", key.replace('.', "__").to_uppercase())
    } else if let Some(file) = file.filter(|_| name.contains("TOML")) {
        file.display().to_string()
    } else {
        DEFAULT.into()
    }
}

/// Leaf values by dotted key. Empty objects and arrays are leaves.
fn flatten(value: &Value) -> BTreeMap<String, Value> {
    let mut leaves = BTreeMap::new();
    let mut stack = vec![(String::new(), value)];
    while let Some((key, value)) = stack.pop() {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                let prefix = if key.is_empty() {
                    String::new()
                } else {
                    format!("{key}.")
                };
                stack.extend(
                    fields
                        .iter()
                        .map(|(name, value)| (format!("{prefix}{name}"), value)),
                );
            }
            leaf => {
                leaves.insert(key, leaf.clone());
            }
        }
    }
    leaves
}

/// The candidate most similar to `key`, if one is close.
pub fn nearest<'a>(key: &str, candidates: impl Iterator<Item = &'a String>) -> Option<String> {
    let scored = candidates.map(|candidate| (strsim::levenshtein(key, candidate), candidate));
    scored
        .min()
        .filter(|(distance, _)| *distance <= key.len().max(4) / 2)
        .map(|(_, candidate)| candidate.clone())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Serialize, Deserialize, PartialEq)]
    struct TestConfig {
        limits: TestLimits,
        open_documents: u32,
    }

    #[derive(Debug, Serialize, Deserialize, PartialEq)]
    struct TestLimits {
        max_pages: u32,
    }

    impl Default for TestConfig {
        fn default() -> Self {
            Self {
                limits: TestLimits { max_pages: 10 },
                open_documents: 2,
            }
        }
    }

    fn load_text(toml: &str) -> Result<LoadedConfig<TestConfig>, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.toml");
        std::fs::write(&path, toml).unwrap();
        load(Some(&ConfigFile::Named(path)))
    }

    #[test]
    fn settings_record_their_source() {
        let loaded = load_text("[limits]\nmax_pages = 5\n").unwrap();
        assert_eq!(
            loaded.config,
            TestConfig {
                limits: TestLimits { max_pages: 5 },
                open_documents: 2
            }
        );
        let sources: Vec<_> = loaded
            .settings
            .iter()
            .map(|s| (s.key.as_str(), s.source == "default"))
            .collect();
        assert_eq!(
            sources,
            [("limits.max_pages", false), ("open_documents", true)]
        );
    }

    #[test]
    fn unknown_key_error_suggests_nearest_key() {
        let error = load_text("[limits]\nmaxpages = 5\n")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("unknown setting `limits.maxpages`"),
            "{error}"
        );
        assert!(
            error.ends_with("did you mean `limits.max_pages`?"),
            "{error}"
        );
    }

    #[test]
    fn invalid_value_and_missing_file_are_errors() {
        let error = load_text("open_documents = \"many\"")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("open_documents in "), "{error}");
        assert!(error.ends_with("expected u32"), "{error}");
        assert!(matches!(
            load::<TestConfig>(Some(&ConfigFile::Named("/nowhere.toml".into()))),
            Err(ConfigError::NoFile(_))
        ));
    }
}
