//! Whether there is anything to answer from: documents in the scope, their trees, and the Item that is asked for.

use super::AnswerError;
use super::question::Question;
use stemma_catalog::catalogue::{Catalogue, Listed};
use stemma_catalog::items;
use stemma_catalog::shelf::Shelf;
use stemma_retrieval::find::{ItemRef, Within};

/// Documents that are named in a refusal.
const NAMED: usize = 5;
/// Documents whose trees are looked at for an Item; in more of them it is taken to be.
const LOOKED_AT: usize = 100;

/// The documents of a question that have a tree or are to have one.
fn inside<'c>(question: &Question, catalogue: &'c Catalogue) -> Vec<&'c Listed> {
    catalogue
        .documents()
        .iter()
        .filter(|listed: &&Listed| match &question.within {
            Within::All => true,
            Within::Documents(docs) => docs.contains(&listed.doc()),
        })
        .filter(|listed| question.filter.holds(listed))
        .collect()
}

/// Documents in the scope that have no tree, and why, cut to some; none where all have one.
///
/// # Errors
/// [`AnswerError::Question`] where no document is there, or none has a tree: nobody knows what is in them.
pub(super) fn readable(
    question: &Question,
    catalogue: &Catalogue,
) -> Result<Vec<String>, AnswerError> {
    let inside = inside(question, catalogue);
    if inside.is_empty() {
        let message = "there are no documents here to answer from".into();
        return Err(AnswerError::Question {
            code: "answer.no_documents",
            message,
        });
    }
    let bare = || inside.iter().filter(|listed| listed.entry().is_none());
    let mut named: Vec<String> = bare().take(NAMED).map(|listed| why(listed)).collect();
    let more = bare().count().saturating_sub(NAMED);
    named.extend((more > 0).then(|| format!("and {more} more")));
    if bare().count() == inside.len() {
        let message = format!(
            "nothing here can be read, for there is no tree: {}",
            named.join(", ")
        );
        return Err(AnswerError::Question {
            code: "document.no_tree",
            message,
        });
    }
    Ok(named)
}

/// `scan (failed: no text layer)`.
fn why(listed: &Listed) -> String {
    match &listed.failure {
        Some(failure) => format!(
            "{} ({}: {})",
            listed.label,
            listed.state.as_str(),
            failure.message
        ),
        None => format!("{} ({})", listed.label, listed.state.as_str()),
    }
}

/// Looks for the Item of a question where nothing was found.
///
/// # Errors
/// [`AnswerError::Question`] where no document in the scope has it; or the store could not say.
pub(super) async fn has_item(
    question: &Question,
    catalogue: &Catalogue,
    shelf: &dyn Shelf,
) -> Result<(), AnswerError> {
    let Some(item) = &question.item else {
        return Ok(());
    };
    let inside = inside(question, catalogue);
    if inside.len() > LOOKED_AT {
        return Ok(());
    }
    for listed in inside.into_iter().filter(|listed| listed.entry().is_some()) {
        let Some(tree) = shelf.tree(listed).await? else {
            continue;
        };
        if items::items(&tree).iter().any(|known| is(known, item)) {
            return Ok(());
        }
    }
    let message = format!("no document here has an Item {}", item.number);
    Err(AnswerError::Question {
        code: "locator.item",
        message,
    })
}

fn is(known: &items::Item, item: &ItemRef) -> bool {
    let part = item.part.is_none() || known.part.is_none() || known.part == item.part;
    part && known.number.eq_ignore_ascii_case(&item.number)
}
