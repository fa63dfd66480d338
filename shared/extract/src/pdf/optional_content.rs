//! Optional content: layers that the file's default configuration turns off (ISO 32000-2, 8.11).

use std::collections::HashSet;

use hayro_syntax::object::{Array, Dict, Name, ObjectIdentifier};

// Of one list; bounds hostile files.
const MAX_GROUPS: usize = 100_000;
// Deeper nested marked content keeps the state around it.
const MAX_OPEN: usize = 4_096;

/// The groups that are off.
#[derive(Default)]
pub(super) struct OptionalContent {
    off: HashSet<ObjectIdentifier>,
}

impl OptionalContent {
    pub(super) fn read(root: &Dict<'_>) -> Self {
        let Some(properties) = root.get::<Dict<'_>>("OCProperties") else {
            return Self::default();
        };
        let config = properties.get::<Dict<'_>>("D").unwrap_or_default();
        let mut off = HashSet::new();
        let base = config.get::<Name<'_>>("BaseState");
        if base.is_some_and(|state| state.as_ref() == b"OFF") {
            off.extend(groups(&properties, "OCGs"));
        }
        for group in groups(&config, "ON") {
            off.remove(&group);
        }
        off.extend(groups(&config, "OFF"));
        // Viewers also turn on what its usage says is to be viewed.
        let automatic = config.get::<Array<'_>>("AS").unwrap_or_default();
        for groups in automatic.iter::<Dict<'_>>().take(MAX_GROUPS) {
            let groups = groups.get::<Array<'_>>("OCGs").unwrap_or_default();
            let viewed = groups.iter::<Dict<'_>>().take(MAX_GROUPS).filter(is_viewed);
            for group in viewed.filter_map(|group| group.obj_id()) {
                off.remove(&group);
            }
        }
        Self { off }
    }

    /// Whether the group or the membership that `key` of `holder` names is off.
    pub(super) fn is_off(&self, holder: &Dict<'_>, key: &[u8]) -> bool {
        if self.off.is_empty() {
            return false;
        }
        let group = holder.get_ref(key);
        if group.is_some_and(|group| self.off.contains(&group.into())) {
            return true;
        }
        let dict = holder.get::<Dict<'_>>(key).unwrap_or_default();
        let kind = dict.get::<Name<'_>>("Type");
        kind.is_some_and(|kind| kind.as_ref() == b"OCMD") && self.is_membership_off(&dict)
    }

    fn is_membership_off(&self, membership: &Dict<'_>) -> bool {
        // Expressions take precedence, and are not evaluated.
        if membership.contains_key("VE") {
            return false;
        }
        let mut members = groups(membership, "OCGs").peekable();
        if members.peek().is_none() {
            return false;
        }
        let mut is_off = members.map(|group| self.off.contains(&group));
        let policy = membership.get::<Name<'_>>("P");
        match policy.as_deref() {
            Some(b"AllOn") => is_off.any(|off| off),
            Some(b"AnyOff") => !is_off.any(|off| off),
            Some(b"AllOff") => !is_off.all(|off| off),
            _ => is_off.all(|off| off),
        }
    }
}

fn is_viewed(group: &Dict<'_>) -> bool {
    let usage = group.get::<Dict<'_>>("Usage").unwrap_or_default();
    let view = usage.get::<Dict<'_>>("View").unwrap_or_default();
    let state = view.get::<Name<'_>>("ViewState");
    state.is_some_and(|state| state.as_ref() == b"ON")
}

// One group or a list of them.
fn groups<'a>(holder: &Dict<'a>, key: &str) -> impl Iterator<Item = ObjectIdentifier> + use<'a> {
    let list = holder.get::<Array<'a>>(key);
    let one = match list {
        None => holder.get_ref(key),
        Some(_) => None,
    };
    list.unwrap_or_default()
        .raw_iter()
        .filter_map(|group| group.as_obj_ref())
        .chain(one)
        .map(ObjectIdentifier::from)
        .take(MAX_GROUPS)
}

/// Which of the open sequences of marked content and forms are in a layer that is off.
#[derive(Default)]
pub(super) struct LayerStack {
    open: Vec<bool>,
    skipped: usize,
    off: usize,
}

impl LayerStack {
    pub(super) fn begin(&mut self, is_off: bool) {
        if self.open.len() < MAX_OPEN {
            self.open.push(is_off);
            self.off += usize::from(is_off);
        } else {
            self.skipped += 1;
        }
    }

    pub(super) fn end(&mut self) {
        if self.skipped > 0 {
            self.skipped -= 1;
        } else if self.open.pop() == Some(true) {
            self.off -= 1;
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.open.len() + self.skipped
    }

    /// Ends what a form opened and left open.
    pub(super) fn end_to(&mut self, depth: usize) {
        while self.depth() > depth {
            self.end();
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.off > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_end_with_what_opened_them() {
        let mut layers = LayerStack::default();
        layers.begin(false);
        layers.begin(true);
        layers.begin(false);
        assert!(layers.is_off());
        layers.end_to(1);
        assert!(!layers.is_off());
        (0..MAX_OPEN + 10).for_each(|_| layers.begin(true));
        layers.end_to(0);
        layers.end();
        assert!(!layers.is_off() && layers.depth() == 0);
    }
}
