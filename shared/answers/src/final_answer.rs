//! Which claims a final answer rests on, and whether they prove it.

use std::collections::BTreeSet;

use stemma_reading::numbers::{Money, NumberMention};

use super::answer::{Claim, FinalAnswer};
use super::statement::Statement;
use super::statement_words::is_neutral;
use super::verify_claim::has_words_of;

/// The final answer with the claims that it rests on. A figure rests on the claim that states it for the same period; a judgement, and an answer
/// in words, on all claims. It is verified if all of these are, and they say it: no code can tell whether "Yes" follows from them.
pub(super) fn with_claims(stated: FinalAnswer, claims: &[Claim]) -> FinalAnswer {
    let text = stated.figure();
    let answer = Statement::new(&text);
    let is_judgement = answer.figures.is_empty() || !stated.criterion.is_empty();
    let carriers: Vec<Option<&Claim>> = (0..answer.figures.len())
        .map(|figure| carrier(&answer, figure, claims))
        .collect();
    let has_figures = carriers
        .iter()
        .all(|carrier| carrier.is_some_and(|claim| claim.verified));
    let mut rests_on: Vec<&Claim> = carriers.into_iter().flatten().collect();
    if is_judgement {
        rests_on = claims.iter().collect();
    }
    rests_on.sort_by_key(|claim| claims.iter().position(|one| one.id == claim.id));
    rests_on.dedup_by_key(|claim| claim.id.as_str());
    let all_verified = rests_on.iter().all(|claim| claim.verified);
    let claimed_years: BTreeSet<i32> = rests_on
        .iter()
        .flat_map(|claim| Statement::new(&claim.text).years())
        .collect();
    let texts: Vec<&str> = rests_on.iter().map(|claim| claim.text.as_str()).collect();
    FinalAnswer {
        verified: has_figures
            && all_verified
            && !rests_on.is_empty()
            && is_stated_by(&answer, &texts.join("\n"))
            && answer.years().is_subset(&claimed_years),
        claims: rests_on.iter().map(|claim| claim.id.clone()).collect(),
        ..stated
    }
}

// Whether the words of an answer are those of its claims, as far as they tell more than its figures.
fn is_stated_by(answer: &Statement<'_>, claims: &str) -> bool {
    let words = answer.words();
    let own: Vec<String> = words.into_iter().filter(|word| !is_neutral(word)).collect();
    (!own.is_empty() || !answer.figures.is_empty()) && has_words_of(answer.text, &own, claims)
}

// The claim that states a figure of the answer, a verified one first.
fn carrier<'c>(answer: &Statement<'_>, figure: usize, claims: &'c [Claim]) -> Option<&'c Claim> {
    let verified = claims.iter().filter(|claim| claim.verified);
    verified.chain(claims).find(|claim| {
        let claimed = Statement::new(&claim.text);
        (0..claimed.figures.len()).any(|other| is_same(answer, figure, &claimed, other))
    })
}

// Whether two figures have the same value, unit, sign and period.
fn is_same(answer: &Statement<'_>, figure: usize, claim: &Statement<'_>, other: usize) -> bool {
    let number: &NumberMention = &answer.figures[figure];
    let claimed = &claim.figures[other];
    let is_equal = number.is_supported_by_cell(claimed, &[], &Money::new(claim.text));
    let same_period = match (answer.period_of(figure), claim.period_of(other)) {
        (Some(period), Some(claimed)) => period.agrees_with(&claimed),
        (Some(period), None) => period.is_empty(),
        (None, _) => true,
    };
    is_equal && number.is_negative() == claimed.is_negative() && same_period
}

#[cfg(test)]
mod tests {
    use super::*;

    // Value, unit and period of an answer over claims, of which those with an exclamation mark are verified; whether it is, and by which.
    fn support(parts: [&str; 3], criterion: &str, claims: &[&str]) -> (bool, String) {
        let claims: Vec<Claim> = (1..)
            .zip(claims)
            .map(|(at, text)| Claim {
                id: format!("c{at}"),
                text: text.trim_end_matches('!').into(),
                citations: Vec::new(),
                verified: text.ends_with('!'),
                computation: None,
                reason: None,
                unsupported_numbers: Vec::new(),
                by_sight: Vec::new(),
            })
            .collect();
        let [value, unit, period] = parts.map(str::to_owned);
        let stated = FinalAnswer {
            value,
            unit,
            period,
            criterion: criterion.into(),
            ..FinalAnswer::default()
        };
        let answer = with_claims(stated, &claims);
        (answer.verified, answer.claims.join(" "))
    }

    #[test]
    fn a_figure_rests_on_the_claim_that_states_it() {
        let capex = "Capex was $1,749 million in 2022.!";
        let before = "Capex was $1,603 million in 2021.!";
        let cause = "It rose because of new plants.";
        for (parts, claims, expected) in [
            (
                ["1,749", "$ million", "2022"],
                vec![capex, cause],
                (true, "c1"),
            ),
            (
                ["1.7", "$ billion", "FY2022"],
                vec![before, capex],
                (true, "c2"),
            ),
            // Another value, scale, unit, sign or period.
            (["1,750", "$ million", "2022"], vec![capex], (false, "")),
            (["1,749", "$ billion", "2022"], vec![capex], (false, "")),
            (["1,749", "%", "2022"], vec![capex], (false, "")),
            (["-1,749", "$ million", "2022"], vec![capex], (false, "")),
            (
                ["1,749", "$ million", "2021"],
                vec![capex, before],
                (false, ""),
            ),
            (
                ["1,749", "$ million", "FY2021"],
                vec![capex, before],
                (false, ""),
            ),
            (
                ["1,749", "$ million", "Q2 2022"],
                vec!["Capex was $1,749 million in Q1 2022.!"],
                (false, ""),
            ),
            // Several figures need a claim each.
            (
                ["$1,749 million in 2022 and $1,603 million in 2021", "", ""],
                vec![before, capex],
                (true, "c1 c2"),
            ),
            (
                ["$1,749 million in 2021 and $1,603 million in 2022", "", ""],
                vec![before, capex],
                (false, ""),
            ),
            (
                ["$1,749 million in 2022 and $1,603 million in 2021", "", ""],
                vec![capex],
                (false, "c1"),
            ),
            // The claim is not verified.
            (
                ["1,749", "$ million", "2022"],
                vec!["Capex was $1,749 million in 2022.", before],
                (false, "c1"),
            ),
            (
                ["1,749", "$ million", "2022"],
                vec!["Capex was $1,749 million in 2022.", capex],
                (true, "c2"),
            ),
        ] {
            let found = support(parts, "", &claims);
            assert_eq!(
                (found.0, found.1.as_str()),
                expected,
                "{parts:?} {claims:?}"
            );
        }
    }

    #[test]
    fn judgements_and_words_rest_on_all_claims() {
        let margin = "The operating margin was 12.3% in 2022.!";
        let debt = "Debt was $5 million in 2022.!";
        let loss = "Acme had a net loss of $5 million in 2022.!";
        let fall = "Sales fell 5% in 2022.!";
        for (parts, criterion, claims, expected) in [
            (
                ["Yes", "", ""],
                "operating margin above 10%",
                vec![margin, debt],
                (false, "c1 c2"),
            ),
            (
                ["Yes", "", ""],
                "",
                vec![margin, "Debt is low."],
                (false, "c1 c2"),
            ),
            (
                ["Yes, 12.3%", "", "2022"],
                "margin above 10%",
                vec![margin, "Debt is low."],
                (false, "c1 c2"),
            ),
            (
                ["Yes, 12.3%", "", "2022"],
                "margin above 10%",
                vec![margin, debt],
                (false, "c1 c2"),
            ),
            (
                ["12.3%", "", "FY2022"],
                "margin above 10%",
                vec![margin, debt],
                (true, "c1 c2"),
            ),
            (
                ["No, it was profitable", "", ""],
                "",
                vec![loss],
                (false, "c1"),
            ),
            (["A net loss", "", "2022"], "", vec![loss], (true, "c1")),
            (["No net loss", "", "2022"], "", vec![loss], (false, "c1")),
            (["Sales rose 5%", "", ""], "", vec![fall], (false, "c1")),
            (["Sales fell 5%", "", ""], "", vec![fall], (true, "c1")),
            (["Costs: 5%", "", ""], "", vec![fall], (false, "c1")),
            (["Yes", "", "FY2023"], "", vec![margin], (false, "c1")),
            (["FY2021", "", ""], "", vec![margin], (false, "c1")),
            (["Yes", "", ""], "", vec![], (false, "")),
        ] {
            let found = support(parts, criterion, &claims);
            assert_eq!(
                (found.0, found.1.as_str()),
                expected,
                "{parts:?} {claims:?}"
            );
        }
    }
}
