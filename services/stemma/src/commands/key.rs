//! `stemma key`: makes an API key for the query server.

use rand::TryRngCore;
use rand::rngs::OsRng;
use stemma_gateway::auth::{KeyScope, key_digest};

use crate::context::Context;
use crate::error::{CommandError, Exit};

const KEY_BYTES: usize = 32;

/// Make an API key: prints the key, and the configuration entry with its digest.
///
/// The key is printed once and stored nowhere. The configuration holds only the digest.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stemma key analysts
  stemma key web --scopes read,ask --json")]
pub struct KeyArgs {
    /// Name of the key, for logs.
    #[arg(value_name = "NAME", default_value = "default", value_parser = name)]
    name: String,
    /// What the key may do: read, ask (calls a model, which costs money), write.
    #[arg(long, value_name = "SCOPE,…", value_delimiter = ',', default_value = "read", value_parser = scope)]
    scopes: Vec<KeyScope>,
}

// Printed in a TOML string.
fn name(text: &str) -> Result<String, String> {
    if !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    {
        Ok(text.into())
    } else {
        Err("a name has letters, digits, `-`, `_` and `.`".into())
    }
}

fn scope(text: &str) -> Result<KeyScope, String> {
    serde_json::from_value(text.into()).map_err(|_| "one of read, ask, write".into())
}

pub async fn run(args: KeyArgs, context: &Context) -> Result<Exit, CommandError> {
    let mut bytes = [0; KEY_BYTES];
    OsRng
        .try_fill_bytes(&mut bytes)
        .map_err(|error| CommandError::new("system.random", error.to_string()))?;
    let key: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let blake3 = key_digest(&key);
    let KeyArgs { name, scopes } = args;
    let output = &context.output;
    let entry = serde_json::json!({ "key": key, "name": name, "blake3": blake3, "scopes": scopes });
    output.show(&entry, || {
        output.line(&key);
        output.note("for the configuration of the query server; the key itself is not stored:");
        let scopes = &entry["scopes"];
        output.line(&format!(
            "\n[[query.keys]]\nname = \"{name}\"\nblake3 = \"{blake3}\"\nscopes = {scopes}"
        ));
    });
    Ok(Exit::Done)
}
