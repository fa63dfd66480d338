//! English names of the members of the taxonomy `country`, which are codes of ISO 3166-1: sentences say `Italy`, not `IT`.

use stemma_reading::vocabulary::COUNTRIES;

/// The name of the country that a member means; none for members of other taxonomies.
pub(super) fn country_name(member: &str) -> Option<&'static str> {
    COUNTRIES.get(member.strip_prefix("country:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn countries_are_found_by_their_codes() {
        assert_eq!(country_name("country:IT"), Some("Italy"));
        assert_eq!(country_name("country:XX"), None);
        assert_eq!(country_name("acme:IT"), None);
    }
}
