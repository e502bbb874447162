//! Attempts of a call that must fail, tried on the whole binary. Each test carries a control that
//! shows that the attempt itself works.

mod approvals;
mod browser;
mod bubblewrap;
mod cell;
mod databases;
mod degraded;
mod denied_files;
mod denied_programs;
mod edges;
mod fuzzed_requests;
mod git_canaries;
mod homes;
mod hostile_lines;
mod hosts;
mod http_door;
mod identity;
mod isolation;
mod limits;
mod mcp_servers;
mod multiplexed;
mod ordinary_user;
mod own_files;
pub(crate) mod placeholders;
mod protected_files;
mod reach;
pub(crate) mod reading;
mod scripts;
mod search_path;
mod secrets;
mod sessions;
mod toolchains;
mod waiting_cells;
