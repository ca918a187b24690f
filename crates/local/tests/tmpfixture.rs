use oscar_engine::ports::journal::Journal as _;
use oscar_engine::testing::conformance_federation::mk_federation;
use oscar_local::{LocalStore, Options};
#[tokio::test(flavor = "multi_thread")]
async fn print_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = LocalStore::open(folder.path(), Options { key: Some([7; 32]), ..Options::default() }).unwrap();
    store.put_federation(&mk_federation("fed", "cowsay")).await.unwrap();
    store.close().await.unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("oscar.db")).unwrap();
    let (a, b, c): (String, String, Vec<u8>) = connection.query_row("SELECT federation_id, service, sealed FROM federations", (), |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).unwrap();
    println!("ROW {a} {b} {}", c.iter().map(|b| format!("{b:02X}")).collect::<String>());
}
