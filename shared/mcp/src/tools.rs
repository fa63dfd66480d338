//! Tool registry and presets.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::arguments::Arguments;
use crate::error::{ToolError, ToolErrorKind};
use crate::tool_context::ToolContext;
use crate::tool_result::{ResultFormat, ToolResult};
use crate::{
    ask, browse_documents, compare_sections, fetch, get_document, get_document_structure,
    get_folder_structure, get_page_content, grep_document, search,
};

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

    pub(crate) fn form(self) -> ResultFormat {
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
        matching.ok_or_else(|| format!("`{name}` is none of all, pageindex, openai"))
    }
}

// `asks` includes the tool that calls a model.
pub(crate) fn list(preset: Preset, asks: bool) -> Vec<Tool> {
    let pageindex = || {
        vec![
            browse_documents::tool(),
            get_document::tool(),
            get_document_structure::tool(),
            get_page_content::tool(),
        ]
    };
    match preset {
        Preset::All => {
            let mut tools = pageindex();
            tools.extend([
                search::tool(),
                fetch::tool(),
                grep_document::tool(),
                compare_sections::tool(),
            ]);
            tools.extend(asks.then(ask::tool));
            tools
        }
        Preset::PageIndex => {
            let mut tools = pageindex();
            tools.extend([search::alias(), get_folder_structure::tool()]);
            tools.into_iter().map(as_json_text).collect()
        }
        Preset::OpenAi => [search::query_only(), fetch::id_only()]
            .map(as_json_text)
            .into(),
    }
}

// Accepts aliases and tools of other presets, except `ask`, which costs money.
pub(crate) async fn call(
    call: &mut ToolContext<'_>,
    preset: Preset,
    name: &str,
    arguments: Arguments,
) -> Result<ToolResult, ToolError> {
    match name {
        browse_documents::NAME => browse_documents::call(call, arguments).await,
        get_document::NAME => get_document::call(call, arguments).await,
        get_document_structure::NAME => get_document_structure::call(call, preset, arguments).await,
        get_page_content::NAME => get_page_content::call(call, arguments).await,
        search::NAME | search::ALIAS => search::call(call, arguments).await,
        fetch::NAME => fetch::call(call, arguments).await,
        grep_document::NAME => grep_document::call(call, arguments).await,
        compare_sections::NAME => compare_sections::call(call, arguments).await,
        ask::NAME if preset == Preset::All => ask::call(call, arguments).await,
        get_folder_structure::NAME => get_folder_structure::call(call, arguments),
        "get_document_image" => Err(ToolError::new(
            ToolErrorKind::InvalidInput,
            "tool.no_images",
            "there are no images of pages",
        )
        .with_option("get_page_content() has the text of a page")),
        _ => {
            let short_name: String = name.chars().take(60).collect();
            let asks = call.answerer().is_ok();
            let names = list(preset, asks)
                .into_iter()
                .map(|tool| tool.name.into_owned())
                .collect::<Vec<_>>();
            Err(ToolError::new(
                ToolErrorKind::InvalidInput,
                "tool.unknown",
                format!("there is no tool `{short_name}`"),
            )
            .with_option(format!("Tools are: {}", names.join(", "))))
        }
    }
}

// `takes` and `gives` are the `properties` of the input and output schemas.
pub(crate) fn read_only_tool(
    name: &'static str,
    about: &'static str,
    takes: Value,
    needs: &[&str],
    gives: Value,
) -> Tool {
    Tool::new(Cow::Borrowed(name), about, object(takes, needs))
        .with_raw_output_schema(object(gives, &["next_steps"]))
        .with_annotations(ToolAnnotations::new().read_only(true).open_world(false))
}

// Without an output schema.
fn as_json_text(mut tool: Tool) -> Tool {
    tool.output_schema = None;
    tool
}

fn object(properties: Value, needs: &[&str]) -> Arc<JsonObject> {
    let schema = [
        ("type", json!("object")),
        ("properties", properties),
        ("required", json!(needs)),
    ];
    Arc::new(
        schema
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}

/// A list of objects with these fields.
pub(crate) fn items(fields: Value) -> Value {
    let mut item = json!({ "type": "object" });
    item["properties"] = fields;
    json!({ "type": "array", "items": item })
}
