//! What was found by feeding, each told by its name.
