use super::*;

#[test]
fn abbreviations_and_compounds_stay_whole() {
    for (text, expected) in [
        (
            "What drove 3M's R&D at year-end?",
            "what drove 3m r&d at yearend year end",
        ),
        ("$1,577 or 7.5% in U.S. dollars", "1577 or 7.5 in us dollar"),
        (
            "non-GAAP, FY22, FY 2022 and 10-K",
            "nongaap non gaap 2022 fy 2022 and 10k",
        ),
        ("cashflow; topline", "cash flow top line"),
        ("appendices, women's", "appendix woman"),
        ("the manage-\nment of", "the manag of"),
        ("ﬁnancial １２３", "financi 123"),
        ("it’s", "it"),
        ("..., !", ""),
    ] {
        assert_eq!(tokenize(text).join(" "), expected, "{text}");
    }
}

#[test]
fn unspaced_scripts_are_segmented() {
    let chinese = tokenize("营业收入增长了，2022年");
    assert!(
        chinese.contains(&"收入".to_owned()) && chinese.contains(&"2022".to_owned()),
        "{chinese:?}"
    );
    assert_eq!(tokenize("カネ"), ["カネ"]);
    assert_eq!(tokenize("매출액").len(), 2);
}

#[test]
fn words_report_their_byte_ranges() {
    let text = "R&D’s 营业收入, non-GAAP";
    for_each_word(text, |word, range| {
        let there = text[range].to_lowercase();
        assert!(
            there.contains(word) || there.replace('-', "").contains(word),
            "{word} in {there}"
        );
    });
}

#[test]
fn parts_of_a_tokenized_text_have_the_words_that_start_there() {
    let text = "Net sales of R&D\nnon-GAAP 1,577 5";
    let tokens = TokenizedText::new(text);
    assert_eq!(
        tokens.joined().split(SEPARATOR).collect::<Vec<_>>(),
        tokenize(text)
    );
    assert_eq!(tokens.len(), 9);
    let line = 17..text.len();
    assert_eq!(
        tokens.joined_in(&line).replace(SEPARATOR, " "),
        "nongaap non gaap 1577 5"
    );
    assert_eq!(tokens.content_words(&(0..16)), ["net", "sale", "r&d"]);
    assert_eq!(tokens.joined_in(&(4..4)), "");
    assert_eq!(TokenizedText::default().joined_in(&(0..9)), "");
}

#[test]
fn tokenizing_inside_a_visit_is_possible() {
    let mut words = Vec::new();
    for_each_word("hedging risks", |word, _| words.extend(tokenize(word)));
    assert_eq!(words, ["hedg", "risk"]);
}

#[test]
fn hostile_text_yields_no_words() {
    assert!(tokenize(&"x".repeat(10_000)).is_empty());
    assert!(tokenize(&"a-".repeat(10_000)).is_empty());
    assert!(tokenize("-\n-\n\u{AD}").is_empty());
}

#[test]
fn words_of_all_scripts_are_found_by_their_other_forms() {
    for (text, query) in [
        // Arabic: vowels, the stroke between letters, the article, alef and teh marbuta, numbers; Persian plurals.
        ("شَرِكَة", "الشركه"),
        ("الإيـــرادات", "ايراد"),
        ("بالشركات", "شركة"),
        ("ریسک‌ها", "ریسک"),
        ("سنة ٢٠٢٣", "2023"),
        ("١٬٢٣٤٫٥", "1,234.5"),
        // Hebrew: points, quotes of abbreviations.
        ("חֶבְרָה", "חברה"),
        ("בחו״ל", "בחו\"ל"),
        // Devanagari: marks inside words, endings, the dot of foreign sounds.
        ("कंपनियों", "कंपनी"),
        ("बाज़ार", "बाजार"),
        ("वित्तीय", "वित्तीय"),
        ("२०२३", "2023"),
        // Other Indic scripts.
        ("நிறுவனம்", "நிறுவனம்"),
        ("কোম্পানি", "কোম্পানি"),
        ("ක්\u{200D}රමය", "ක්රමය"),
        // Russian and Greek: endings, accents, `ё`.
        ("рисками", "риски"),
        ("учёт", "УЧЕТ"),
        ("κινδύνου", "ΚΙΝΔΥΝΟΙ"),
        // Latin: articles without a vowel, the Turkish dotted i, composed and decomposed letters, soft hyphens.
        ("dell'azienda", "azienda"),
        ("d’une", "une"),
        ("İSTANBUL", "istanbul"),
        ("socie\u{301}te\u{301}", "société"),
        ("ge\u{AD}winn", "Gewinn"),
        // Marks of direction.
        ("re\u{202E}ve\u{2066}nue\u{200F}", "revenue"),
    ] {
        let words = tokenize(text);
        let wanted = tokenize(query);
        assert!(
            !wanted.is_empty() && wanted.iter().all(|word| words.contains(word)),
            "{text} {words:?}, {query} {wanted:?}"
        );
    }
}

#[test]
fn words_without_spaces_are_found_inside_of_text() {
    for (text, found, absent) in [
        ("บริษัทมีความเสี่ยงด้านเครดิต", "ความเสี่ยง", "รายได้"),
        ("ບໍລິສັດມີຄວາມສ່ຽງ", "ຄວາມສ່ຽງ", "ລາຍໄດ້"),
        ("ក្រុមហ៊ុនមានហានិភ័យ", "ហានិភ័យ", "ចំណូល"),
        ("ကုမ္ပဏီတွင်အန္တရာယ်ရှိသည်", "အန္တရာယ်", "ဝင်ငွေ"),
    ] {
        let words = tokenize(text);
        let count = |query: &str| {
            let query = tokenize(query);
            let known = query.iter().filter(|word| words.contains(word)).count();
            (known, query.len())
        };
        let (known, all) = count(found);
        assert!(all > 1 && known == all, "{found} {known} of {all}");
        let (known, all) = count(absent);
        assert!(known * 2 < all, "{absent} {known} of {all}");
    }
    assert_eq!(tokenize("ปี ๒๕๖๖"), ["ปี", "2566"]);
}

#[test]
fn distinct_words_stay_distinct() {
    for (one, other) in [
        ("риски", "рост"),
        ("شركة", "مخاطر"),
        ("कंपनी", "जोखिम"),
        ("சொத்து", "சொந்த"),
        ("κίνδυνος", "κέρδος"),
        ("חברה", "סיכון"),
    ] {
        assert_ne!(tokenize(one), tokenize(other));
    }
}

#[test]
fn hostile_text_of_any_script_is_bounded() {
    assert!(tokenize(&format!("a{}", "\u{301}".repeat(100_000))).is_empty());
    let controls = "\u{202E}\u{2066}".repeat(10_000);
    assert_eq!(tokenize(&format!("Ac{controls}me plan")), ["acm", "plan"]);
    assert_eq!(tokenize(&format!("{controls} plan")), ["plan"]);
    let thai = "กข".repeat(200_000);
    assert_eq!(tokenize(&thai).len(), 399_999);
}

proptest::proptest! {
    #[test]
    fn no_text_panics_and_ranges_are_sound(text in ".{0,60}") {
        for_each_word(&text, |_, range| assert!(text.get(range).is_some()));
    }
}
