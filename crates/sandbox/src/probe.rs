//! stub
/// x
pub struct Probe;
/// x
pub fn probe() -> Vec<Probe> {
    Vec::new()
}
