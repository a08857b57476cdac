//! The interpreter and the verifier, on functions built by hand.
//!
//! `kernels` builds them; every other module checks one claim: results against plain loops in `f64`
//! (`tile`), the same bits once threads hold the tiles (`layout`), the same bits through shared memory,
//! TMA and wgmma (`sm90`), the same bits when roles share the work (`roles`), and that each deliberate mistake is noticed (`mistakes`, `store`, `verifier`).

mod kernels;
mod layout;
mod mistakes;
mod roles;
mod sm90;
mod store;
mod tile;
mod verifier;
