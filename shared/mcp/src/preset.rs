//! Sets of tools that a client can select.

use std::str::FromStr;

use crate::tool_result::ResultFormat;

/// A set of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    #[default]
    All,
    /// PageIndex's tools, with JSON text results.
    PageIndex,
    /// OpenAI's `search` and `fetch`, with JSON text results.
    OpenAi,
}

impl Preset {
    pub const ALL: [Preset; 3] = [Preset::All, Preset::PageIndex, Preset::OpenAi];

    pub fn as_str(self) -> &'static str {
        match self {
            Preset::All => "all",
            Preset::PageIndex => "pageindex",
            Preset::OpenAi => "openai",
        }
    }

    pub(crate) fn format(self) -> ResultFormat {
        if self == Preset::All {
            ResultFormat::Both
        } else {
            ResultFormat::JsonText
        }
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let matching = Self::ALL.into_iter().find(|preset| preset.as_str() == name);
        matching.ok_or_else(|| format!("`{name}` is not one of all, pageindex, openai"))
    }
}
