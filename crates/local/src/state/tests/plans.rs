//! Calls about jobs cost the same however many are kept: no query of theirs reads a whole table.

use super::mk_store;
use crate::state::jobs::queries;

#[tokio::test]
async fn no_query_about_jobs_reads_a_whole_table() {
    let (_folder, store) = mk_store();
    for query in queries() {
        let plan = store.read(move |sql| {
            let mut explain = sql.prepare(&format!("EXPLAIN QUERY PLAN {query}"))?;
            let unbound = explain.parameter_count();
            let nothing = rusqlite::params_from_iter(vec![rusqlite::types::Null; unbound]);
            explain.query_map(nothing, |row| row.get::<_, String>("detail"))?.collect::<rusqlite::Result<Vec<_>>>()
        });
        let plan = plan.await.expect("explained");
        assert!(!plan.is_empty(), "{query}");
        for step in plan {
            assert!(!step.contains("SCAN") && !step.contains("TEMP B-TREE"), "{step}: {query}");
        }
    }
}
