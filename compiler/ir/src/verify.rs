//! What must hold after every pass; see [`verify`].
