//! WebDAV: plain files below a folder, with a login and a password.

use std::collections::HashSet;
use std::sync::Arc;

use oscar_model::secret::Secret;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Method, RequestBuilder, Url};
use tokio::sync::Mutex;

use crate::http::{Transport, Trouble, Trust};
use crate::journal::Notes;
use crate::names::check_key;
use crate::s3::answered;
use crate::slice::Slice;

/// What need not be escaped in a part of a path.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(crate) struct WebdavStore {
    pub(crate) address: Url,
    pub(crate) trust: Trust,
    pub(crate) login: String,
    pub(crate) password: Secret,
    pub(crate) transport: Arc<Transport>,
    /// Folders that are known to be there.
    pub(crate) folders: Mutex<HashSet<String>>,
}

impl WebdavStore {
    pub(crate) fn get(&self, path: &str) -> Result<RequestBuilder, Trouble> {
        self.request(Method::GET, path)
    }

    pub(crate) async fn put(&self, notes: &Notes, path: &str, data: &Slice) -> Result<(), Trouble> {
        self.make_folders(notes, path).await?;
        let stored = self.transport.retry(notes, format!("Storing {path}"), |_| async {
            let request = self.request(Method::PUT, path)?.header(CONTENT_LENGTH, data.len());
            answered(request.timeout(self.transport.patience(data.len())).body(data.body())).await
        });
        stored.await.map(drop)
    }

    /// Makes the folders above a file that are not there, from the top.
    async fn make_folders(&self, notes: &Notes, path: &str) -> Result<(), Trouble> {
        let mut known = self.folders.lock().await;
        for (slash, _) in path.trim_matches('/').match_indices('/') {
            let folder = &path.trim_matches('/')[..slash];
            if known.contains(folder) {
                continue;
            }
            let method = Method::from_bytes(b"MKCOL").map_err(|_| Trouble::last("MKCOL is no method"))?;
            let made = self.transport.retry(notes, format!("Making the folder {folder}"), |_| async {
                answered(self.request(method.clone(), folder)?).await
            });
            match made.await {
                Ok(_) => {}
                // It is there already (405, from some servers a redirect or a conflict with
                // itself), or it may not be made: then storing the file will tell.
                Err(trouble) if trouble.status.is_some() && !trouble.again => {}
                Err(trouble) => return Err(trouble),
            }
            known.insert(folder.to_owned());
        }
        Ok(())
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, Trouble> {
        if let Some(wrong) = check_key(path) {
            return Err(Trouble::last(wrong));
        }
        let parts = path.split('/').filter(|part| !part.is_empty());
        let escaped: Vec<String> = parts.map(|part| utf8_percent_encode(part, PART).to_string()).collect();
        let mut url = self.address.clone();
        url.set_path(&format!("{}/{}", url.path().trim_end_matches('/'), escaped.join("/")));
        let client = self.transport.client(self.trust).map_err(Trouble::last)?;
        Ok(client.request(method, url).basic_auth(&self.login, Some(self.password.expose())))
    }
}
