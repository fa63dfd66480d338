//! What is shown of a search that asked a model.

use stemma_query::ReasoningView;

use crate::output::{Form, Output, clean};

/// Notes always; steps and sections where they were asked for.
pub(super) fn show(reasoning: &ReasoningView, output: &Output) {
    if output.form == Form::Text {
        reasoning
            .steps
            .iter()
            .for_each(|step| self::step(step, output));
        for looked in &reasoning.looked_at {
            let sign = if looked.chosen { "+" } else { "-" };
            let title = looked
                .path
                .last()
                .map_or_else(String::new, |title| clean(title));
            let locator = clean(&looked.locator);
            let reason = clean(&looked.reason);
            let line = format!("   {sign} {:.2} {locator}  {title}: {reason}", looked.score);
            output.line(&output.dim(&line));
        }
        for applied in &reasoning.knowledge {
            let line = format!(
                "   knowledge {} ({}): {}",
                clean(&applied.name),
                clean(&applied.by),
                clean(&applied.says)
            );
            output.line(&output.dim(&line));
        }
    }
    for note in &reasoning.notes {
        output.note(&format!("{} ({})", clean(&note.message), note.code));
    }
}

fn step(step: &stemma_query::StepView, output: &Output) {
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
pub(super) fn cost(reasoning: &ReasoningView) -> String {
    let Some(model) = &reasoning.model else {
        return "no model".into();
    };
    let spent = &reasoning.spent;
    let tokens = spent.prompt_tokens + spent.output_tokens;
    let remembered = if spent.remembered > 0 {
        format!(", {} remembered", spent.remembered)
    } else {
        String::new()
    };
    let money = spent
        .nanodollars
        .map(|nanodollars| format!(", ${:.4}", nanodollars as f64 / 1e9))
        .unwrap_or_default();
    let confidence = reasoning.confidence;
    format!(
        "{} · {} calls{remembered}, {tokens} tokens{money} · confidence {confidence:.2}",
        clean(model),
        spent.calls
    )
}
