//! `stemma describe`: what the figures of a page show, as a model reads them from its picture.

use stemma_archive::DescribedPage;
use stemma_store::Env;

use crate::commands::open::open;
use crate::context::Context;
use crate::cost::{money_from_nanos, nanodollars, some_dollars};
use crate::error::{CommandError, Exit};
use crate::model_clients;
use crate::output::{Output, clean};
use crate::table::{counted, thousands};

/// Describe the charts and other figures of a page, as a model sees them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The image of the page goes to the model of vision.model. Nothing checks what the model says; a value
with ~ is read off an axis. A page is described once; the same page again costs nothing.

Examples:
  stemma describe 3M_2022_10K#p=5
  stemma describe 3M_2022_10K#p=5 --budget 0.02 --json

Exit codes: 0 described · 1 no figures on the page · 2 usage or error.")]
pub struct DescribeArgs {
    /// One page: 3M_2022_10K#p=5.
    #[arg(value_name = "LOCATOR")]
    locator: String,
    /// Cost limit in dollars: `0.05` or `$0.05`. Needs model.prices.
    #[arg(long, value_name = "USD", value_parser = some_dollars)]
    budget: Option<f64>,
}

pub async fn run(args: DescribeArgs, context: &Context) -> Result<Exit, CommandError> {
    let env = Env::system();
    let limiter = context.config()?.servers.limiter(&env)?;
    let vision = model_clients::vision(context, &env, &limiter, "cli")?;
    let vision = vision.ok_or_else(stemma_archive::Vision::not_configured)?;
    let reader = open(context).await?;
    let (listed, page) = reader.one_page(&args.locator)?;
    let budget = args.budget.map(nanodollars);
    let described = vision.describe(&reader, &listed, page, budget).await?;
    let output = &context.output;
    output.show(&described, || show(&described, output));
    output.note(&output.dim(&footer(&described)));
    Ok(Exit::nothing_if(described.figures.is_empty()))
}

fn show(described: &DescribedPage, output: &Output) {
    if described.figures.is_empty() {
        output.line("from the image: no figures on the page");
    }
    for figure in &described.figures {
        let title = match figure.title.as_str() {
            "" => "(no title)",
            title => title,
        };
        let title = output.bold(&clean(title));
        output.line(&format!("{title} · {}", clean(&figure.kind)));
        output.line(&format!("  from the image: {}", clean(&figure.shows)));
        for value in &figure.values {
            let label = clean(&value.label);
            output.line(&format!(
                "  from the image: {label} = {}",
                clean(&value.value)
            ));
        }
    }
}

// `3M_2022_10K#p=5 · gpt-x · 1 call · 3,120 tokens · $0.004`.
fn footer(described: &DescribedPage) -> String {
    let usage = &described.usage;
    let mut parts = vec![clean(&described.locator), clean(&described.model)];
    if described.cached {
        parts.push("described before, 0 calls".into());
    } else {
        parts.push(counted(usage.calls, "call"));
        let tokens = thousands(usage.prompt_tokens + usage.output_tokens);
        parts.push(format!("{tokens} tokens"));
        parts.extend(usage.nanodollars.map(money_from_nanos));
    }
    parts.join(" · ")
}
