//! docs/RECEIVER.md, held against the two receivers of `examples/receiver`: one suite, SQLite and etcd. The receivers run
//! by themselves; no gateway stands in between.

mod contract;
mod edges;
mod load;
mod write;

/// Makes a test of its own of each of these stories over each store: `sqlite::story`, `etcd::story`. A story takes the
/// receiver, which knows nothing yet.
macro_rules! on_receivers {
    ($stories:tt) => {
        $crate::receiver::on_receivers!(@one sqlite Sqlite $stories);
        $crate::receiver::on_receivers!(@one etcd Etcd $stories);
    };
    (@one $store:ident $kind:ident [$($story:ident),+ $(,)?]) => {
        mod $store {
            use $crate::support::stores::receiver::{Kind, Receiver};

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    let test = concat!(module_path!(), "::", stringify!($story)).trim_start_matches("it::");
                    if let Some(receiver) = Receiver::start(Kind::$kind, test) {
                        super::$story(receiver).await;
                    }
                }
            )+
        }
    };
}
use on_receivers;
