//! What needs no server: the texts of the statements.
