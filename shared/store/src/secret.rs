//! Keys and passwords, in a type that keeps them out of logs and output.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// A key, a password, or a URL that contains one. Displayed as `***`, or as nothing when empty; only [`Secret::reveal`]
/// returns the value.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Secret(String);

impl Secret {
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn masked(&self) -> &'static str {
        if self.is_empty() { "" } else { "***" }
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.masked())
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.masked())
    }
}

// Redacted as well: configuration is printed as a whole.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.masked())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_in_all_output() {
        let secret = Secret::from("hunter2");
        let json = serde_json::to_string(&secret).unwrap();
        for text in [format!("{secret:?}"), secret.to_string(), json] {
            assert!(text.contains("***") && !text.contains("hunter2"), "{text}");
        }
        assert_eq!(
            serde_json::from_str::<Secret>("\"hunter2\"")
                .unwrap()
                .reveal(),
            "hunter2"
        );
        assert_eq!(Secret::default().to_string(), "");
    }
}
