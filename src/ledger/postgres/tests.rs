//! What needs no server: the texts of the statements.

use super::tuples::Shape;
