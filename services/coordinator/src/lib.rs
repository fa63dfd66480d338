//! Submissions, admission, replay of flows, the sweep.
