//! Prints the steps of a search with a model.

use stemma_archive::TreeSearchReport;

use crate::cost::money_from_nanos;
use crate::output::{Output, clean};

/// Prints notes, and with `--explain` steps and sections.
pub(super) fn show(reasoning: &TreeSearchReport, output: &Output) {
    if output.is_text() {
        reasoning
            .steps
            .iter()
            .for_each(|step| self::step(step, output));
        for visited in &reasoning.visited {
            let sign = if visited.chosen { "+" } else { "-" };
            let title = visited
                .path
                .last()
                .map_or_else(String::new, |title| clean(title));
            let locator = clean(&visited.locator);
            let reason = clean(&visited.reason);
            let line = format!(
                "   {sign} {:.2} {locator}  {title}: {reason}",
                visited.score
            );
            output.line(&output.dim(&line));
        }
        for applied in &reasoning.knowledge {
            let line = format!(
                "   knowledge {} ({}): {}",
                clean(&applied.name),
                clean(&applied.by),
                clean(&applied.text)
            );
            output.line(&output.dim(&line));
        }
    }
    for note in &reasoning.notes {
        output.note(&format!("{} ({})", clean(&note.message), note.code));
    }
}

fn step(step: &stemma_archive::TreeSearchStep, output: &Output) {
    let place = step
        .document
        .as_ref()
        .map(|document| format!(" in {}", clean(document)))
        .unwrap_or_default();
    output.line(&output.dim(&format!("   {}{place}: {}", step.what, clean(&step.why))));
    for thought in &step.thinking {
        output.line(&output.dim(&format!("     “{}”", clean(thought))));
    }
}

/// `4 calls, 5,210 tokens`, and what they cost.
pub(super) fn cost(reasoning: &TreeSearchReport) -> String {
    let Some(model) = &reasoning.model else {
        return "no model".into();
    };
    let usage = &reasoning.usage;
    let tokens = usage.prompt_tokens + usage.output_tokens;
    let remembered = if usage.cached_replies > 0 {
        format!(", {} cached", usage.cached_replies)
    } else {
        String::new()
    };
    let money = usage
        .nanodollars
        .map(|nanodollars| format!(", {}", money_from_nanos(nanodollars)))
        .unwrap_or_default();
    let confidence = reasoning.confidence;
    format!(
        "{} · {} calls{remembered}, {tokens} tokens{money} · confidence {confidence:.2}",
        clean(model),
        usage.calls
    )
}
