//! Prompts for frequent questions about filings, with steps that use these tools.

use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};

use crate::arguments::{is_blank, missing_argument, text, unknown_argument};
use crate::error::ToolError;

// Arguments are (name, description, required); `text` has `{argument}` placeholders.
struct PromptTemplate {
    name: &'static str,
    description: &'static str,
    arguments: &'static [(&'static str, &'static str, bool)],
    text: &'static str,
}

const TEMPLATES: [PromptTemplate; 5] = [
    PromptTemplate {
        name: "filing_brief",
        description: "A one-page brief of a filing, every figure with its page",
        arguments: &[("document", "name of the filing", true)],
        text: "Write a one-page brief of the filing {document}.\n\
1. get_document for form, period and Items. Where an Item is a stub or by reference, follow content_at.\n\
2. Read Business (Item 1), Risk Factors (1A), MD&A (7, or I.2 of a 10-Q) and the financial statements with \
get_page_content by item, in parts where they are long.\n\
3. Write: what the company does; results of the period against the one before; liquidity; the three most important \
risks; anything unusual. Put the page behind each figure as (p 47). Leave out what you did not read.",
    },
    PromptTemplate {
        name: "risk_factor_changes",
        description: "What changed in the risk factors between two filings of a company",
        arguments: &[
            ("earlier", "the earlier filing", true),
            ("later", "the later filing", true),
        ],
        text: "Compare the risk factors of {earlier} and {later}.\n\
1. compare_sections with these as left and right and item 1A: what was added, removed, renamed, moved or reworded.\n\
2. Read what is new, gone or renamed with get_page_content by section_id; where one section holds all risks, both of it.\n\
3. List added, removed and materially changed risks, each with the pages in both filings and one key sentence quoted.",
    },
    PromptTemplate {
        name: "find_number",
        description: "One figure, with the line of its page",
        arguments: &[
            (
                "question",
                "which figure, of which company and period",
                true,
            ),
            ("document", "the filing, where it is known", false),
        ],
        text: "Find: {question} {document}\n\
1. search the question (scope: the document, where one is given). Prefer the financial statements and their notes to \
prose; check company, period and form.\n\
2. Read the page with get_page_content; use grep_document for the line item. Mind units (thousands, millions), signs in \
parentheses and the order of the period columns.\n\
3. Answer with the figure, its unit and period, the document and the page, and the line quoted. Where the documents do \
not state it, say so; where it is computed, show how.",
    },
    PromptTemplate {
        name: "compare_companies",
        description: "A topic in the filings of several companies, side by side",
        arguments: &[
            ("companies", "names, separated by commas", true),
            ("topic", "what to compare", true),
            ("year", "fiscal year", false),
        ],
        text: "Compare {companies} on: {topic} {year}\n\
1. For each company: browse_documents with folder_id /@company/NAME, and choose filings of the same form and period; \
say which are missing.\n\
2. search the topic with scope /@company/NAME, read the best sections with fetch.\n\
3. Answer with a table, one row per company, each cell with document and page, then three sentences on the differences. \
Do not compare figures of different units or periods without saying so.",
    },
    PromptTemplate {
        name: "cited_answer",
        description: "How answers cite: the place of each claim, in a form programs read",
        arguments: &[("format", "cite or markdown; cite without", false)],
        text: "Answer from what you read with these tools and from nothing else; where it does not say, say so.\n\
Behind each claim and each figure put its place: the document by its name as the tools print it, and the page you \
read it on, counted from the first page of the file. One mark per place; no mark for what you did not read; never a page from memory.\n\
A mark is written `<cite doc=\"NAME\" page=\"N\"/>`, or, in the format markdown, `[NAME, p. N]`. Format: {format}",
    },
];

pub(crate) fn list() -> Vec<Prompt> {
    TEMPLATES
        .iter()
        .map(|template| {
            let arguments = template
                .arguments
                .iter()
                .map(|(name, description, required)| {
                    PromptArgument::new(*name)
                        .with_description(*description)
                        .with_required(*required)
                })
                .collect();
            Prompt::new(template.name, Some(template.description), Some(arguments))
        })
        .collect()
}

pub(crate) fn get(name: &str, mut sent: JsonObject) -> Result<GetPromptResult, ToolError> {
    let Some(template) = TEMPLATES.iter().find(|template| template.name == name) else {
        let names = TEMPLATES.map(|template| template.name).join(", ");
        let message = format!("there is no such prompt; prompts are {names}");
        return Err(ToolError::not_found("prompt.unknown", message));
    };
    let mut filled = template.text.to_owned();
    for (name, _, required) in template.arguments {
        let value = match sent.remove(*name).filter(|value| !is_blank(value)) {
            Some(value) => text(name, &value)?,
            None if *required => return Err(missing_argument(name)),
            None => String::new(),
        };
        filled = filled.replace(&format!("{{{name}}}"), &value);
    }
    if let Some(name) = sent.keys().next() {
        let known = template.arguments.iter().map(|(name, ..)| *name);
        return Err(unknown_argument(name, known));
    }
    let messages = vec![PromptMessage::new_text(Role::User, filled)];
    Ok(GetPromptResult::new(messages).with_description(template.description))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_placeholder_has_an_argument() {
        for template in &TEMPLATES {
            let values = template
                .arguments
                .iter()
                .map(|(name, ..)| ((*name).to_owned(), json!("ACME")));
            let filled = get(template.name, values.collect()).unwrap();
            let text = serde_json::to_string(&filled.messages).unwrap();
            assert_eq!(
                text.matches("ACME").count(),
                template.arguments.len(),
                "{text}"
            );
            assert!(!text.contains("{document}"));
        }
    }

    #[test]
    fn missing_and_unknown_arguments_are_refused() {
        assert_eq!(
            get("filing_brief", JsonObject::new()).unwrap_err().message,
            "`document` is missing"
        );
        assert_eq!(
            get("nothing", JsonObject::new()).unwrap_err().kind,
            crate::error::ToolErrorKind::NotFound
        );
    }
}
