//! Looking for uploads that nobody told of, and other things that have to be done now and then.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::Buckets as _;

use crate::inbox::{self, Arrived, Record, Watched};
use crate::notices::outermost;
use crate::s3::listed_millis;
use crate::store::{Inner, MinioStore};
use crate::xml::Version;

/// Between two looks at what the webhook should have told.
const LOOK: Duration = Duration::from_mins(10);
/// The same while there is no webhook.
const LOOK_UNHEARD: Duration = Duration::from_secs(20);
/// How far each look reaches back behind the last one: what was being written then, and clocks of
/// a store's machines that differ.
const OVERLAP: i64 = 15 * 60 * 1000;
/// How long it is remembered what was told and moved.
const MEMORY: i64 = 7 * 24 * 3600 * 1000;

impl MinioStore {
    /// Looks after the store until the process ends.
    pub async fn keep(&self) {
        let inner = &self.inner;
        // Nobody may ask anything of it for hours.
        if let Err(error) = self.webhook_state().await {
            tracing::warn!("the object store cannot be used: {error}; `oscar doctor` says more");
        }
        let mut look_at = inner.clock.now();
        loop {
            let now = inner.clock.now();
            if now >= look_at {
                let looked = self.tick_catch_up().await;
                if let Err(error) = looked {
                    tracing::warn!("uploads cannot be looked for: {error}");
                }
                let pause = if inner.unheard.load(Ordering::Relaxed) { LOOK_UNHEARD } else { LOOK };
                look_at = inner.clock.now() + pause;
            }
            let key_ends = match inner.expire_keys().await {
                Ok(next) => next,
                Err(error) => {
                    tracing::warn!("keys that are over cannot be removed: {error}");
                    Some(inner.clock.now() + Duration::from_secs(1))
                }
            };
            let next = key_ends.map_or(look_at, |ends| ends.min(look_at));
            let pause = next.duration_since(inner.clock.now()).unwrap_or_default();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = inner.short_key.notified() => {}
            }
        }
    }

    /// Finds uploads that the webhook did not tell of, and finishes what a crash cut off.
    pub async fn tick_catch_up(&self) -> Result<(), StoreError> {
        self.inner.forget_known();
        self.finish_changes().await?;
        let watched = self.inner.ledger.change(inbox::watched).await?;
        let mut buckets: Vec<&str> = watched.iter().map(|one| one.bucket.as_str()).collect();
        buckets.dedup();
        for bucket in buckets {
            let of_bucket = || watched.iter().filter(|one| one.bucket == bucket);
            self.retry_notices(bucket).await?;
            for prefix in outermost(of_bucket().map(|one| one.prefix.clone()).collect()) {
                let since = of_bucket().filter(|one| one.prefix.starts_with(&prefix)).map(|one| one.since).min();
                let place = Watched { bucket: bucket.to_owned(), prefix, since: since.unwrap_or_default() };
                self.inner.look_below(&place).await?;
            }
        }
        let before = self.inner.now() - MEMORY;
        self.inner.ledger.change(move |sql| inbox::forget_old(sql, before)).await
    }

    /// Keys that were meant to end by now. When the next one does.
    pub async fn tick_keys(&self) -> Result<Option<SystemTime>, StoreError> {
        self.inner.expire_keys().await
    }

    /// The operator may have configured the webhook meanwhile, or somebody may have replaced what
    /// a bucket tells.
    async fn retry_notices(&self, bucket: &str) -> Result<(), StoreError> {
        let _turn = self.inner.turn.lock().await;
        match self.inner.settle_notices(bucket).await {
            Err(StoreError::NotFound) => Ok(()),
            other => other,
        }
    }

    /// Buckets whose rights were being changed when a manager ended.
    async fn finish_changes(&self) -> Result<(), StoreError> {
        let open: Vec<(String, String)> = self
            .inner
            .ledger
            .change(|sql| {
                let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                sql.prepare("SELECT bucket, owner FROM changing")?.query_map((), row)?.collect()
            })
            .await?;
        for (name, owner) in open {
            let _turn = self.inner.turn.lock().await;
            match self.get(&name).await? {
                Some(bucket) if bucket.owner.as_str() == owner => self.inner.settle_rights(&bucket).await?,
                // Nobody's name is on it yet: whoever asks for it again gets it.
                Some(_) => continue,
                None => {}
            }
            self.inner.change_over(&name).await?;
        }
        Ok(())
    }
}

impl Inner {
    async fn look_below(&self, place: &Watched) -> Result<(), StoreError> {
        let (mut from, mut begun) = (None, None);
        loop {
            let page = match self.wire.versions(&place.bucket, &place.prefix, from.as_ref()).await {
                Ok(page) => page,
                Err(trouble) if trouble.is_missing() => return Ok(()),
                Err(trouble) => return Err(trouble.into()),
            };
            begun = begun.or(page.time);
            let recent = page.versions.iter().map(|version| found(&place.bucket, version));
            let recent: Vec<Arrived> = recent.filter(|one| one.millis >= place.since && !one.is_folder()).collect();
            if !recent.is_empty() {
                let fresh = self.ledger.change(move |sql| inbox::unknown(sql, recent)).await?;
                self.tell_found(fresh).await?;
            }
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        // Without a time of the store's own nothing is known of what its times mean.
        let Some(begun) = begun else { return Ok(()) };
        let place = place.clone();
        self.ledger.change(move |sql| inbox::looked_at(sql, &place, begun - OVERLAP)).await
    }

    async fn tell_found(&self, fresh: Vec<Arrived>) -> Result<(), StoreError> {
        let mut told = Vec::new();
        for mut one in fresh {
            let version = one.version_id.clone().unwrap_or_default();
            let head = self.wire.head_version(&one.bucket, &one.key, &version).await?;
            // What went or was replaced meanwhile is told as what it is next time.
            let Some(head) = head.filter(|head| head.etag == one.record.etag) else { continue };
            one.record.content_type = head.content_type();
            one.record.metadata = head.metadata;
            told.push(one);
        }
        if !told.is_empty() {
            tracing::info!(uploads = told.len(), "found uploads that the object store has not told of");
        }
        self.take(told).await
    }
}

fn found(bucket: &str, version: &Version) -> Arrived {
    let millis = listed_millis(&version.last_modified);
    let named = Some(version.id.clone()).filter(|name| !matches!(name.as_str(), "" | "null"));
    Arrived {
        bucket: bucket.to_owned(),
        key: version.key.clone(),
        millis,
        sequencer: None,
        version_id: named,
        mark: None,
        record: Record { bytes: version.size, etag: version.etag.clone(), millis, ..Record::default() },
    }
}
