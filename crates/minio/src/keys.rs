//! Keys of users, and keys of jobs that open little and end soon.

use std::time::{Duration, SystemTime};

use oscar_engine::ports::StoreError;
use oscar_engine::ports::buckets::{Grant, Keys, STAGING_BUCKET};
use oscar_model::identity::Subject;
use oscar_model::secret::Secret;
use rusqlite::OptionalExtension as _;

use crate::policy;
use crate::s3::time_of;
use crate::store::Inner;

/// MinIO takes no account that ends within a quarter of an hour; a minute of it is for clocks.
const SHORTEST: Duration = Duration::from_mins(16);
/// And none that lasts for more than a year.
const LONGEST: Duration = Duration::from_hours(364 * 24);

impl Inner {
    /// The user's keys, made at the first call. With the turn taken.
    pub(crate) async fn ensure_user(&self, subject: &Subject) -> Result<Keys, StoreError> {
        let name = subject.as_str();
        self.check_user(name)?;
        let kept = self.kept_user(name).await?.and_then(|(sealed, made)| Some((self.opened(name, &sealed)?, made)));
        let (keys, made) = if let Some(kept) = kept {
            kept
        } else {
            let secret = self.random_text(40);
            let sealed = self.seal.seal(secret.as_bytes());
            let sealed = sealed.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            let row = (name.to_owned(), sealed);
            // One that is there was sealed with a key that the operator gave up.
            let insert = "INSERT INTO users (subject, sealed, made) VALUES (?1, ?2, 0)
                ON CONFLICT (subject) DO UPDATE SET sealed = excluded.sealed, made = 0";
            self.ledger.change(move |sql| sql.execute(insert, row)).await?;
            (Keys { access_key: name.to_owned(), secret_key: Secret::new(secret) }, false)
        };
        if !made {
            self.make_user(subject, &keys).await?;
        }
        Ok(keys)
    }

    /// Without a turn and without a call, when there is nothing to make.
    pub(crate) async fn made_user(&self, subject: &Subject) -> Result<Option<Keys>, StoreError> {
        match self.kept_user(subject.as_str()).await? {
            Some((sealed, true)) => Ok(self.opened(subject.as_str(), &sealed)),
            _ => Ok(None),
        }
    }

    async fn kept_user(&self, name: &str) -> Result<Option<(Vec<u8>, bool)>, StoreError> {
        let name = name.to_owned();
        self.ledger
            .change(move |sql| {
                let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
                sql.query_row("SELECT sealed, made FROM users WHERE subject = ?1", [name], row).optional()
            })
            .await
    }

    /// None when it was sealed with another key.
    fn opened(&self, name: &str, sealed: &[u8]) -> Option<Keys> {
        let secret = String::from_utf8(self.seal.open(sealed).ok()?).ok()?;
        Some(Keys { access_key: name.to_owned(), secret_key: Secret::new(secret) })
    }

    async fn make_user(&self, subject: &Subject, keys: &Keys) -> Result<(), StoreError> {
        let name = subject.as_str();
        let all = self.all().await?;
        // Else a bucket's policy and a user's would be one.
        let clash =
            all.get(name).is_some_and(|bucket| bucket.visibility == oscar_model::service::Visibility::Restricted);
        if clash {
            return Err(StoreError::Forbidden(format!("'{name}' is the name of a restricted bucket")));
        }
        self.admin.put_user(name, &keys.secret_key).await?;
        self.admin.change_group(policy::EVERYBODY, &[name], false).await?;
        self.settle_owner(subject, &all).await?;
        let name = name.to_owned();
        self.ledger.change(move |sql| sql.execute("UPDATE users SET made = 1 WHERE subject = ?1", [name])).await?;
        Ok(())
    }

    /// Names that MinIO cannot take, and those that mean something else there.
    pub(crate) fn check_user(&self, name: &str) -> Result<(), StoreError> {
        let refused = |why: &str| Err(StoreError::Forbidden(format!("'{name}' cannot be a user of MinIO: {why}")));
        if name == self.root.access_key || !policy::is_free_name(name) {
            return refused("it is the name of something else there");
        }
        if name.chars().count() < 3 || name.contains(['=', ',']) || name.trim() != name {
            return refused("at least three characters are needed, no '=' or ',', and no blank at either end");
        }
        Ok(())
    }

    /// A restricted bucket lends its name to a group and a policy: they must be free.
    pub(crate) async fn check_group(&self, bucket: &str) -> Result<(), StoreError> {
        if policy::is_free_name(bucket) && self.kept_user(bucket).await?.is_none() {
            return Ok(());
        }
        Err(StoreError::Forbidden(format!(
            "a bucket named '{bucket}' cannot be restricted: the name means something else"
        )))
    }

    pub(crate) async fn make_scoped_key(&self, scope: &[Grant], expires: SystemTime) -> Result<Keys, StoreError> {
        if scope.iter().any(|grant| grant.bucket == STAGING_BUCKET) {
            self.ensure_staging().await?;
        }
        let now = self.clock.now();
        let lasts = expires.duration_since(now).unwrap_or_default();
        let keys = Keys {
            access_key: format!("{JOB_KEYS}{}", self.random_text(15)),
            secret_key: Secret::new(self.random_text(40)),
        };
        if lasts < SHORTEST {
            let until = self.now() + i64::try_from(lasts.as_millis()).unwrap_or(i64::MAX);
            let row = (keys.access_key.clone(), until);
            // Before it exists: a crash must not leave one that lasts longer than was asked for.
            self.ledger
                .change(move |sql| sql.execute("INSERT INTO short_keys (access_key, expires) VALUES (?1, ?2)", row))
                .await?;
        }
        let until = now + lasts.clamp(SHORTEST, LONGEST);
        self.admin.add_service_account(&keys, &policy::of_grants(scope), until).await?;
        if lasts < SHORTEST {
            self.short_key.notify_one();
        }
        Ok(keys)
    }

    pub(crate) async fn revoke_key(&self, access_key: &str) -> Result<(), StoreError> {
        // Others are not ours to remove.
        if access_key.starts_with(JOB_KEYS) {
            self.admin.remove_service_account(access_key).await?;
            let access_key = access_key.to_owned();
            self.ledger
                .change(move |sql| sql.execute("DELETE FROM short_keys WHERE access_key = ?1", [access_key]))
                .await?;
        }
        Ok(())
    }

    /// Removes keys that were meant to end earlier than MinIO can say. When the next one ends.
    pub(crate) async fn expire_keys(&self) -> Result<Option<SystemTime>, StoreError> {
        let now = self.now();
        let (over, next) = self
            .ledger
            .change(move |sql| {
                let mut over = sql.prepare("SELECT access_key FROM short_keys WHERE expires <= ?1")?;
                let over: Vec<String> = over.query_map([now], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
                let next: Option<i64> =
                    sql.query_row("SELECT min(expires) FROM short_keys WHERE expires > ?1", [now], |row| row.get(0))?;
                Ok((over, next))
            })
            .await?;
        for access_key in over {
            self.revoke_key(&access_key).await?;
        }
        Ok(next.map(time_of))
    }
}

/// How the names of jobs' keys begin.
pub(crate) const JOB_KEYS: &str = "OSCAR";
