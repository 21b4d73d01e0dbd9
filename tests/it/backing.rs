//! (tests of the client to upstreams arrive with their branch)
