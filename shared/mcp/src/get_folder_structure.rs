//! `get_folder_structure`: folders with document counts, for prompts written for PageIndex Cloud.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::{tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stemma_archive::ListRequest;

use crate::tool_context::ToolContext;
use crate::tool_result::{ToolOutcome, ToolResult, delimited, token_cost};

// PageIndex does not publish this schema: its known arguments are accepted but ignored, and all folders are returned.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct GetFolderStructureArguments {
    #[serde(rename = "folder_id")]
    #[schemars(extend("x-hidden" = true))]
    _folder_id: Option<String>,
    #[serde(rename = "max_depth")]
    #[schemars(extend("x-hidden" = true))]
    _max_depth: Option<Value>,
}

#[derive(Serialize)]
pub(crate) struct GetFolderStructureOutput {
    folders: Vec<FolderRow>,
    total: usize,
}

#[derive(Serialize)]
struct FolderRow {
    id: String,
    count: usize,
}

#[tool_router(router = get_folder_structure_router, vis = "pub(crate)")]
impl ToolContext {
    #[tool(description = "Folders and virtual folders with their numbers of documents.")]
    async fn get_folder_structure(
        &self,
        Parameters(_): Parameters<GetFolderStructureArguments>,
    ) -> ToolOutcome<GetFolderStructureOutput> {
        let catalog = self.archive.catalog();
        let folders = catalog.folders()?;
        let total = folders.len();
        let counts = folders
            .into_iter()
            .map(|(path, count)| (format!("/{path}"), count));
        let axes = self.archive.folder(&ListRequest::default())?.axes;
        let axes = axes.into_iter().map(|axis| (axis.locator, axis.values));
        let mut folders = vec![FolderRow {
            id: "root".into(),
            count: catalog.len(),
        }];
        let mut room = self.format.limit(None);
        folders.extend(axes.chain(counts).map_while(|(id, count)| {
            let folder = FolderRow { id, count };
            room = room.checked_sub(token_cost(&folder))?;
            Some(folder)
        }));
        let lines: Vec<String> = folders
            .iter()
            .map(|folder| format!("{} ({})", folder.id, folder.count))
            .collect();
        let summary = format!("{} documents in {total} folders", catalog.len());
        let text = delimited("catalog", &lines.join("\n"));
        Ok(
            ToolResult::new(GetFolderStructureOutput { folders, total }, summary)
                .with_text(text)
                .with_option("Documents: browse_documents(folder_id) with an id from here"),
        )
    }
}
