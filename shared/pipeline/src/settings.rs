//! What changes results: frozen at submission under its digest, carried by every task.

use serde::{Deserialize, Serialize};
use stemma_extract::Limits;

use crate::sections::SectionSettings;
use crate::structure::StructureSettings;

/// The settings of a run. Local configuration (concurrency, endpoints, keys) is not among them: it changes speed only.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Who decides about structure.
    pub structure: StructureMode,
    /// What a document may cost to read.
    pub limits: Limits,
    /// How sections are found.
    pub outline: StructureSettings,
    /// How sections are finished.
    pub sections: SectionSettings,
}

/// Who decides about structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructureMode {
    /// Rules decide what they surely can; a model, where one is configured, the rest.
    #[default]
    Auto,
    /// Rules decide everything.
    Layout,
}
