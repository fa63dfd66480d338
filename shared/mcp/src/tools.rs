//! The tools of the server, and the list of tools of each preset.

use rmcp::handler::server::tool::ToolRouter;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::arguments::{HIDDEN, NULLABLE};
use crate::error::{ToolError, ToolErrorKind};
use crate::preset::Preset;
use crate::tool_context::ToolContext;

const ALL: &[&str] = &[
    "browse_documents",
    "get_document",
    "get_document_structure",
    "get_page_content",
    "search",
    "fetch",
    "grep_document",
    "compare_sections",
    "get_facts",
    "get_series",
    "ask",
    "describe",
];
// Tools that call a model, which costs money.
const COSTLY: &[&str] = &["ask", "describe"];
const PAGEINDEX: &[&str] = &[
    "browse_documents",
    "get_document",
    "get_document_structure",
    "get_page_content",
    "search_documents",
    "get_folder_structure",
];
// OpenAI's contract: tools with one argument, and their descriptions.
const OPENAI: &[(&str, &str)] = &[
    (
        "search",
        "Search filings; returns results with ids for fetch.",
    ),
    (
        "fetch",
        "Fetch the text of a search result by its id; a result that is cut names the id of the rest.",
    ),
];

/// All tools, with the schemas against which arguments are checked.
pub(crate) fn router() -> ToolRouter<ToolContext> {
    let mut router = ToolContext::browse_documents_router()
        + ToolContext::get_document_router()
        + ToolContext::get_document_structure_router()
        + ToolContext::get_page_content_router()
        + ToolContext::search_router()
        + ToolContext::fetch_router()
        + ToolContext::grep_document_router()
        + ToolContext::compare_sections_router()
        + ToolContext::get_facts_router()
        + ToolContext::get_series_router()
        + ToolContext::get_folder_structure_router()
        + ToolContext::ask_router()
        + ToolContext::describe_router();
    for route in router.map.values_mut() {
        let read_only = ToolAnnotations::new().read_only(true).open_world(false);
        route.attr.annotations.get_or_insert(read_only);
    }
    router
}

/// The tool of a name or alias. Tools of other presets can be called, except those that cost money.
pub(crate) fn callable<'a>(
    router: &'a ToolRouter<ToolContext>,
    preset: Preset,
    name: &str,
) -> Option<&'a Tool> {
    let tool = router.get(without_alias(name))?;
    (!COSTLY.contains(&tool.name.as_ref()) || preset == Preset::All).then_some(tool)
}

// Prompts written for PageIndex Cloud use this alias.
fn without_alias(name: &str) -> &str {
    if name == "search_documents" {
        "search"
    } else {
        name
    }
}

/// The error for a name that is not callable.
pub(crate) fn unknown(name: &str, listed: &[Tool]) -> ToolError {
    if name == "get_document_image" {
        let message = "images are part of get_page_content()";
        return ToolError::new(ToolErrorKind::InvalidInput, "tool.no_images", message).with_option(
            "get_page_content(doc_name, pages, image: \"page\") has the picture of a page",
        );
    }
    let short_name: String = name.chars().take(60).collect();
    let message = format!("there is no tool `{short_name}`");
    let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_ref()).collect();
    ToolError::new(ToolErrorKind::InvalidInput, "tool.unknown", message)
        .with_option(format!("Tools are: {}", names.join(", ")))
}

/// Whether JSON text results have `success` and `next_steps`. OpenAI's contract for `search` and `fetch` does not.
pub(crate) fn has_json_envelope(name: &str) -> bool {
    !matches!(without_alias(name), "search" | "fetch")
}

/// The tools as clients see them, and those that cost money where `may_pay` says so.
pub(crate) fn list(
    router: &ToolRouter<ToolContext>,
    preset: Preset,
    may_pay: impl Fn(&str) -> bool,
) -> Vec<Tool> {
    match preset {
        Preset::All => ALL
            .iter()
            .filter(|name| !COSTLY.contains(name) || may_pay(name))
            .filter_map(|name| listed(router, name))
            .collect(),
        Preset::PageIndex => PAGEINDEX
            .iter()
            .filter_map(|name| listed(router, name))
            .map(without_output_schema)
            .collect(),
        Preset::OpenAi => OPENAI
            .iter()
            .filter_map(|(name, description)| {
                let mut tool = without_output_schema(listed(router, name)?);
                tool.description = Some((*description).into());
                tool.input_schema = required_only(&tool.input_schema).into();
                Some(tool)
            })
            .collect(),
    }
}

fn listed(router: &ToolRouter<ToolContext>, name: &'static str) -> Option<Tool> {
    let mut tool = router.get(without_alias(name))?.clone();
    tool.name = name.into();
    let mut input = tool.input_schema.as_ref().clone();
    simplify(&mut input);
    tool.input_schema = input.into();
    let output = tool.output_schema.as_deref().map(output_schema);
    tool.output_schema = output.map(Into::into);
    Some(tool)
}

fn without_output_schema(mut tool: Tool) -> Tool {
    tool.output_schema = None;
    tool
}

fn required_only(schema: &JsonObject) -> JsonObject {
    let mut schema = schema.clone();
    let required = schema.get("required").cloned().unwrap_or_default();
    let required: Vec<&str> = required
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|name, _| required.contains(&name.as_str()));
    }
    schema
}

// Removes what only this server uses (hidden arguments, keywords of its own) and what costs tokens and says nothing.
fn simplify(schema: &mut JsonObject) {
    schema.retain(|keyword, value| match keyword.as_str() {
        "$schema" | "format" => false,
        "minimum" => *value != 0,
        "default" | "additionalProperties" => {
            !matches!(value, Value::Null | Value::Bool(_)) && *value != 0
        }
        keyword => !keyword.starts_with("x-"),
    });
    let required = schema.get("required").cloned().unwrap_or_default();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|_, property| property.get(HIDDEN).is_none());
        for (name, property) in properties {
            let Value::Object(property) = property else {
                continue;
            };
            let is_required = required
                .as_array()
                .is_some_and(|names| names.contains(&json!(name)));
            if !is_required && !property.contains_key(NULLABLE) {
                remove_null(property);
            }
            simplify(property);
        }
    }
    if let Some(Value::Object(items)) = schema.get_mut("items") {
        simplify(items);
    }
}

// An optional field is absent rather than null.
fn remove_null(property: &mut JsonObject) {
    if let Some(Value::Array(words)) = property.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(kinds)) = property.get("type")
        && let [kind, Value::String(null)] = kinds.as_slice()
        && null == "null"
    {
        let kind = kind.clone();
        property.insert("type".into(), kind);
    }
}

// The data of an error has only `next_steps` in common with the data of a success, and some clients check both.
fn output_schema(schema: &JsonObject) -> JsonObject {
    let mut output = schema.clone();
    simplify(&mut output);
    output.insert("required".into(), json!(["next_steps"]));
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_see_no_hidden_arguments_and_no_keywords_of_this_server() {
        let router = router();
        for preset in Preset::ALL {
            for tool in list(&router, preset, |_| true) {
                let json = serde_json::to_string(&tool).unwrap();
                assert!(!json.contains("\"x-") && !json.contains("$"), "{json}");
                let output = tool.output_schema.map(|schema| schema["required"].clone());
                let expected = (preset == Preset::All).then(|| json!(["next_steps"]));
                assert_eq!(output, expected, "{}", tool.name);
            }
        }
        let search = listed(&router, "search").unwrap();
        assert!(search.input_schema["properties"].get("folder_id").is_none());
        let document = listed(&router, "get_document").unwrap();
        let folder = &document.input_schema["properties"]["folder_id"];
        assert_eq!(folder["type"], json!(["string", "null"]));
    }
}
