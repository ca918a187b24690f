//! Which buckets tell of uploads, and what becomes of what they tell.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{JOB_METADATA, Notices, ObjectEvent, Uploads};
use oscar_model::identity::Owner;

use crate::error::Trouble;
use crate::inbox::{self, Arrived};
use crate::keys::JOB_KEYS;
use crate::moves::STAGED_METADATA;
use crate::owners::check_bucket;
use crate::store::{Inner, MinioStore};
use crate::webhook;
use crate::xml::{Filter, FilterKey, FilterRule, Notifications, QueueNotice};

const CREATIONS: &str = "s3:ObjectCreated:*";

#[async_trait]
impl Notices for MinioStore {
    fn is_from_store(&self, token: &str) -> bool {
        self.inner.webhook.token.matches(token)
    }

    async fn take(&self, body: &[u8]) -> Result<(), StoreError> {
        let Some(told) = webhook::parse(body) else {
            // Refusing it would make the store send it again for ever, and nothing after it.
            tracing::warn!(bytes = body.len(), "the object store told something that is no event");
            return Ok(());
        };
        self.inner.take(told).await
    }
}

#[async_trait]
impl Uploads for MinioStore {
    async fn next(&self, limit: usize) -> Result<Vec<ObjectEvent>, StoreError> {
        self.inner.ledger.change(move |sql| inbox::oldest(sql, limit)).await
    }

    async fn settle(&self, ids: &[u64]) -> Result<(), StoreError> {
        let ids = ids.to_vec();
        self.inner.ledger.change(move |sql| inbox::settle(sql, &ids)).await
    }

    async fn arrival(&self) {
        self.inner.arrivals.notified().await;
    }
}

impl Inner {
    /// Remembers what arrived; it is on disk afterwards.
    pub(crate) async fn take(&self, told: Vec<Arrived>) -> Result<(), StoreError> {
        let mut all = Vec::with_capacity(told.len());
        let is_upload = |arrived: &Arrived| !arrived.is_folder() && check_bucket(&arrived.bucket).is_ok();
        for arrived in told.into_iter().filter(is_upload) {
            all.push(self.attributed(arrived).await?);
        }
        if all.is_empty() {
            return Ok(());
        }
        let now = self.now();
        let is_new = self
            .ledger
            .change(move |sql| all.iter().try_fold(false, |is_new, one| Ok(is_new | inbox::note(sql, one, now)?)))
            .await?;
        if is_new {
            self.arrivals.notify_one();
        }
        Ok(())
    }

    /// What a job leaves belongs to the owner of the place where it leaves it, and so does what
    /// was found without a word about who put it there.
    async fn attributed(&self, mut arrived: Arrived) -> Result<Arrived, StoreError> {
        let metadata = &arrived.record.metadata;
        let is_ours = arrived.record.principal == self.root.access_key || arrived.record.principal.is_empty();
        if let (true, Some(job), Some(staged)) = (is_ours, metadata.get(JOB_METADATA), metadata.get(STAGED_METADATA)) {
            arrived.mark = Some(format!("{job}\n{staged}"));
            arrived.record.source_ip.clear();
        }
        let by_job = arrived.record.principal.starts_with(JOB_KEYS);
        if let (true, Some(job)) = (by_job, metadata.get(JOB_METADATA)) {
            // An attempt that is repeated writes it again.
            arrived.mark = Some(job.clone());
        }
        if arrived.mark.is_some() || by_job || arrived.record.principal.is_empty() {
            let known = self.known().get(&arrived.bucket).map(|bucket| bucket.owner.clone());
            let owner = match known {
                Some(owner) => Some(owner),
                None => self.describe(&arrived.bucket).await?.map(|bucket| bucket.owner),
            };
            arrived.record.principal = match owner {
                Some(Owner::User(subject)) => subject.as_str().to_owned(),
                Some(Owner::Admin) | None => self.root.access_key.clone(),
            };
        }
        Ok(arrived)
    }

    /// Makes a bucket tell of what somebody waits for, and of nothing else. Notices of others stay.
    /// With the turn taken.
    pub(crate) async fn settle_notices(&self, bucket: &str) -> Result<(), StoreError> {
        let name = bucket.to_owned();
        let watched = self.ledger.change(inbox::watched).await?;
        let prefixes = outermost(watched.into_iter().filter(|one| one.bucket == name).map(|one| one.prefix).collect());
        let present = self.wire.notifications(bucket).await?;
        let wanted = self.wanted(&present, &prefixes);
        let told = async {
            if same_notices(&present, &wanted) { Ok(()) } else { self.wire.set_notifications(bucket, &wanted).await }
        };
        match told.await {
            Ok(()) => {
                self.unheard.store(false, Ordering::Relaxed);
                Ok(())
            }
            Err(trouble) if trouble.is("InvalidArgument") => {
                self.warn_of_silence(bucket, &trouble);
                Ok(())
            }
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// A service is accepted all the same: uploads are found by looking, only later.
    fn warn_of_silence(&self, bucket: &str, trouble: &Trouble) {
        if self.unheard.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            bucket,
            webhook = self.webhook.name,
            cause = trouble.cause,
            "the object store has no such webhook: uploads are looked for now and then; `oscar doctor` says how to set it"
        );
    }

    fn is_ours(&self, notice: &QueueNotice) -> bool {
        notice.queue.ends_with(&format!(":{}:webhook", self.webhook.name))
    }

    fn wanted(&self, present: &Notifications, prefixes: &[String]) -> Notifications {
        let others = present.queues.iter().filter(|notice| !self.is_ours(notice)).cloned();
        let ours = prefixes.iter().map(|prefix| {
            let rules = vec![FilterRule { name: "prefix".to_owned(), value: prefix.clone() }];
            QueueNotice {
                id: String::new(),
                filter: (!prefix.is_empty()).then_some(Filter { key: FilterKey { rules } }),
                events: vec![CREATIONS.to_owned()],
                queue: format!("arn:minio:sqs::{}:webhook", self.webhook.name),
            }
        });
        Notifications { queues: others.chain(ours).collect() }
    }
}

/// The store refuses a prefix below another one; the outer one tells of both.
pub(crate) fn outermost(mut prefixes: Vec<String>) -> Vec<String> {
    prefixes.sort();
    prefixes.dedup();
    let mut kept: Vec<String> = Vec::new();
    for prefix in prefixes {
        if !kept.iter().any(|outer| prefix.starts_with(outer.as_str())) {
            kept.push(prefix);
        }
    }
    kept
}

/// The store completes regions and ids as it likes, and splits up what stands for several events.
fn same_notices(present: &Notifications, wanted: &Notifications) -> bool {
    let essence = |notices: &Notifications| -> std::collections::BTreeSet<(String, String)> {
        let all = notices.queues.iter().map(|notice| {
            let target: Vec<&str> = notice.queue.rsplit(':').take(2).collect();
            let rules = notice.filter.iter().flat_map(|filter| &filter.key.rules);
            (target.join(":"), rules.map(|rule| format!("{}={};", rule.name, rule.value)).collect())
        });
        all.collect()
    };
    present.queues.len() == wanted.queues.len() && essence(present) == essence(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outermost_prefixes_are_asked_for() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(outermost(texts(&["in/deep/", "out/", "in/", "in/"])), texts(&["in/", "out/"]));
        assert_eq!(outermost(texts(&["in/", ""])), texts(&[""]));
        assert!(outermost(vec![]).is_empty());
    }
}
