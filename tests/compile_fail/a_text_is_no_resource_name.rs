//! A text is no name until it was parsed, and a namespace or a target is no resource.

use fencegate::domain::resource::{Namespace, ResourceName, Target};

fn fence(_: &ResourceName) {}

fn main() {
    fence("statements/account-42");
    fence(&String::from("statements/account-42"));
    let _ = ResourceName("statements//account-42".into());
    if let (Ok(namespace), Ok(target)) = (Namespace::parse("statements"), Target::parse("a")) {
        fence(&namespace);
        fence(&target);
    }
}
