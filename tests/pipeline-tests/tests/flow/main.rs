//! Tests of the complete flow. They are one program, because each program links the whole product again.

mod budget;
mod collection;
mod faults;
mod html_items;
mod incremental;
mod items;
mod labels;
mod model;
mod references;
mod sources;
mod telemetry;
mod text_items;
mod vision;
