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
            let score = visited.score;
            let title = clean(visited.path.last().map_or("", String::as_str));
            let locator = clean(&visited.locator);
            let reason = clean(&visited.reason);
            let line = format!("   {sign} {score:.2} {locator}  {title}: {reason}");
            output.line(&output.dim(&line));
        }
        for applied in &reasoning.knowledge {
            let [name, by, text] =
                [&applied.name, &applied.by, &applied.text].map(|text| clean(text));
            output.line(&output.dim(&format!("   knowledge {name} ({by}): {text}")));
        }
    }
    for note in &reasoning.notes {
        output.note(&format!("{} ({})", clean(&note.message), note.code));
    }
}

fn step(step: &stemma_archive::TreeSearchStep, output: &Output) {
    let document = step.document.as_ref();
    let place = document.map_or_else(String::new, |document| format!(" in {}", clean(document)));
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
    let mut line = format!("{} · {} calls", clean(model), usage.calls);
    if usage.cached_replies > 0 {
        line += &format!(", {} cached", usage.cached_replies);
    }
    line += &format!(", {tokens} tokens");
    if let Some(nanodollars) = usage.nanodollars {
        line += &format!(", {}", money_from_nanos(nanodollars));
    }
    line
}
