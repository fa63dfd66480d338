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

pub async fn run(args: ConfigArgs, context: &Context) -> Result<Exit, CommandError> {
    let pattern = args.pattern.unwrap_or_default();
    let settings = context.loaded_config()?.settings.iter();
    let settings: Vec<_> = settings
        .filter(|setting| setting.key.contains(&pattern))
        .collect();
    let rows: Vec<_> = settings
        .iter()
        .map(|s| serde_json::json!({ "key": s.key, "value": s.value, "default": s.default, "unit": unit(&s.key), "source": s.source }))
        .collect();
    context.output.show(&rows, || {
        use Column::{Left, Text};
        let mut table = Table::new([Left, Text, Text, Left, Left]);
        table.row(["setting", "value", "default", "unit", "source"]);
        for setting in &settings {
            let value = setting.value.to_string();
            let default = setting.default.to_string();
            let default = if setting.value == setting.default {
                ""
            } else {
                &default
            };
            table.row([
                setting.key.as_str(),
                &value,
                default,
                unit(&setting.key),
                &setting.source,
            ]);
        }
        table.print(&context.output);
    });
    Ok(Exit::nothing_if(settings.is_empty()))
}
