//! The one test binary.

#[cfg(test)]
mod compile_fail;
#[cfg(test)]
mod decision;
#[cfg(test)]
mod model;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod names;
#[cfg(test)]
mod support;
