//! Boxes and names of cover pages.

pub(super) fn ballot_box(text: &str) -> Option<bool> {
    match text.trim() {
        // A box, a capital O or an o of Wingdings.
        "\u{2610}" | "\u{25A1}" | "\u{A8}" | "\u{6F}" | "\u{F0A8}" | "\u{F06F}" => Some(false),
        // Check marks and crosses with and without a box, and those of Wingdings.
        "\u{2611}" | "\u{2612}" | "\u{2713}" | "\u{2714}" | "\u{2715}" | "\u{2716}"
        | "\u{2717}" | "\u{2718}" | "\u{D7}" | "x" | "X" | "\u{FE}" | "\u{FD}" | "\u{FC}"
        | "\u{FB}" | "\u{F0FE}" | "\u{F0FD}" => Some(true),
        _ => None,
    }
}

/// The code of an exchange by the words of its name. The longer names come first.
pub(super) fn exchange(text: &str) -> Option<String> {
    const EXCHANGES: [(&[&str], &str); 14] = [
        (&["nyse", "american"], "NYSEAMER"),
        (
            &["new", "york", "stock", "exchange", "american"],
            "NYSEAMER",
        ),
        (&["nyse", "arca"], "NYSEArca"),
        (&["nyse", "chicago"], "CHX"),
        (&["chicago", "stock", "exchange"], "CHX"),
        (&["nyse", "texas"], "CHX"),
        (&["nyse", "national"], "NYSENAT"),
        (&["nasdaq", "bx"], "BX"),
        (&["nasdaq", "phlx"], "PHLX"),
        (&["cboe", "bzx"], "CboeBZX"),
        (&["investors", "exchange"], "IEX"),
        (&["new", "york", "stock", "exchange"], "NYSE"),
        (&["nyse"], "NYSE"),
        (&["nasdaq"], "NASDAQ"),
    ];
    let text = text.to_lowercase();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).collect();
    EXCHANGES
        .iter()
        .find(|(names, _)| names.iter().all(|name| words.contains(name)))
        .map(|(_, code)| (*code).to_owned())
}

/// The category of a filer, as the DEI taxonomy writes it.
pub(super) fn filer_category(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase().replace('-', " ");
    let category = match text.trim_end_matches(" filer") {
        "large accelerated" => "Large Accelerated Filer",
        "accelerated" => "Accelerated Filer",
        "non accelerated" => "Non-accelerated Filer",
        _ => return None,
    };
    Some(category.to_owned())
}

/// The code of a state of the USA or a province of Canada.
pub(super) fn state(text: &str) -> Option<String> {
    const STATES: &str = "Alabama AL|Alaska AK|Arizona AZ|Arkansas AR|California CA|Colorado CO|Connecticut CT|\
        Delaware DE|District of Columbia DC|Florida FL|Georgia GA|Hawaii HI|Idaho ID|Illinois IL|Indiana IN|Iowa IA|\
        Kansas KS|Kentucky KY|Louisiana LA|Maine ME|Maryland MD|Massachusetts MA|Michigan MI|Minnesota MN|\
        Mississippi MS|Missouri MO|Montana MT|Nebraska NE|Nevada NV|New Hampshire NH|New Jersey NJ|New Mexico NM|\
        New York NY|North Carolina NC|North Dakota ND|Ohio OH|Oklahoma OK|Oregon OR|Pennsylvania PA|Puerto Rico PR|\
        Rhode Island RI|South Carolina SC|South Dakota SD|Tennessee TN|Texas TX|Utah UT|Vermont VT|Virginia VA|\
        Virgin Islands VI|Washington WA|West Virginia WV|Wisconsin WI|Wyoming WY|Guam GU|American Samoa AS|Alberta A0|\
        British Columbia A1|Manitoba A2|New Brunswick A3|Newfoundland A4|Nova Scotia A5|Ontario A6|\
        Prince Edward Island A7|Quebec A8|Saskatchewan A9|Yukon B0";
    let name = text.trim();
    let name = name
        .strip_prefix("The ")
        .or_else(|| name.strip_prefix("the "))
        .unwrap_or(name);
    let name = name
        .strip_prefix("State of ")
        .or_else(|| name.strip_prefix("Commonwealth of "))
        .unwrap_or(name);
    let mut states = STATES.split('|').filter_map(|state| state.rsplit_once(' '));
    states
        .find(|(state, _)| state.eq_ignore_ascii_case(name))
        .map(|(_, code)| code.to_owned())
}
