//! `stemma config`: shows all settings.

use crate::config::unit;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::table::{Column, Table};

/// Show every setting: value, default, unit and where it comes from.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Sources, in increasing priority: defaults, stemma.toml (or --config FILE), environment:
  limits.max_pages = 5000     in stemma.toml under [limits]
  STEMMA_LIMITS__MAX_PAGES    in the environment

Settings under `local` only change speed. Other settings change results, so changing one creates
new trees.

A stemma.toml that is only found sets no addresses, secrets, rights or paths of other files, because
it may have come with somebody's documents. Set them in the environment, or name the file with
--config or STEMMA_CONFIG.")]
pub struct ConfigArgs {
    /// Only show settings whose key contains this.
    pub pattern: Option<String>,
}

pub fn run(args: &ConfigArgs, context: &Context) -> Result<Exit, CommandError> {
    let mut settings = context.loaded_config()?.settings.clone();
    settings.retain(|setting| {
        args.pattern
            .as_ref()
            .is_none_or(|pattern| setting.key.contains(pattern))
    });
    if context.output.is_text() {
        use Column::{Left, Text};
        let mut table = Table::new([Left, Text, Text, Left, Left]);
        table.row(["setting", "value", "default", "unit", "source"]);
        for setting in &settings {
            let default = if setting.value == setting.default {
                String::new()
            } else {
                setting.default.to_string()
            };
            let value = setting.value.to_string();
            table.row([
                setting.key.clone(),
                value,
                default,
                unit(&setting.key).into(),
                setting.source.clone(),
            ]);
        }
        table.print(&context.output);
    } else {
        let rows: Vec<_> = settings
            .iter()
            .map(|s| serde_json::json!({ "key": s.key, "value": s.value, "default": s.default, "unit": unit(&s.key), "source": s.source }))
            .collect();
        context.output.json(&rows);
    }
    Ok(Exit::nothing_if(settings.is_empty()))
}
