//! Machine code on disk, so that ptxas compiles each kernel once. (The driver has a cache of its own.)
//!
//! A file is named by the digest of everything that decides its contents, starts with a digest of the rest,
//! and is written under another name first, so a reader sees all of it or nothing. Whatever cannot be read
//! or does not match is treated as absent.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Changes when the layout of the files does.
const MAGIC: &[u8; 8] = b"flashc\x001";

/// Where machine code is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// The user's cache directory, or `FLASHC_CACHE` if that is set (to a directory, or to nothing: off).
    #[default]
    User,
    /// This directory.
    Directory(PathBuf),
    /// Nowhere.
    Off,
}

impl Cache {
    /// The directory, unless the cache is off or there is none.
    pub fn directory(&self) -> Option<PathBuf> {
        match self {
            Cache::Off => None,
            Cache::Directory(d) => Some(d.clone()),
            Cache::User => match std::env::var_os("FLASHC_CACHE") {
                Some(d) if d.is_empty() => None,
                Some(d) => Some(PathBuf::from(d)),
                None => directories::ProjectDirs::from("", "", "flashc").map(|p| p.cache_dir().join("cubin")),
            },
        }
    }

    /// What is kept under a key.
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let bytes = fs::read(file(&self.directory()?, key)).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (digest, body) = rest.split_at_checked(blake3::OUT_LEN)?;
        (blake3::hash(body).as_bytes() == digest && !body.is_empty()).then(|| body.to_vec())
    }

    /// Keeps bytes under a key, if it can: a full disk or a read-only home is no reason to fail.
    pub(crate) fn put(&self, key: &str, body: &[u8]) {
        if let Some(directory) = self.directory() {
            let _ = store(&directory, key, body);
        }
    }
}

/// The key of machine code: a digest of all that it depends on.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}

fn file(directory: &Path, key: &str) -> PathBuf {
    directory.join(format!("{key}.cubin"))
}

fn store(directory: &Path, key: &str, body: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    let mut temporary = tempfile::NamedTempFile::new_in(directory)?;
    temporary.write_all(MAGIC)?;
    temporary.write_all(blake3::hash(body).as_bytes())?;
    temporary.write_all(body)?;
    temporary.persist(file(directory, key)).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_and_gives_back() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::Directory(dir.path().join("deep/er"));
        let k = key(&[b"ptx", b"13.0"]);
        assert_eq!(cache.get(&k), None);
        cache.put(&k, b"machine code");
        assert_eq!(cache.get(&k).as_deref(), Some(&b"machine code"[..]));
        cache.put(&k, b"other");
        assert_eq!(cache.get(&k).as_deref(), Some(&b"other"[..]));
        assert_eq!(fs::read_dir(dir.path().join("deep/er")).unwrap().count(), 1);
    }

    #[test]
    fn corrupt_entries_are_absent() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::Directory(dir.path().into());
        cache.put("k", b"machine code");
        let path = file(dir.path(), "k");
        let good = fs::read(&path).unwrap();
        for cut in [0, 3, 8, 20, good.len() - 1] {
            fs::write(&path, &good[..cut]).unwrap();
            assert_eq!(cache.get("k"), None, "cut to {cut} bytes");
        }
        for at in [0, 8, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert_eq!(cache.get("k"), None, "bit flipped in byte {at}");
        }
        fs::write(&path, &good).unwrap();
        assert!(cache.get("k").is_some());
    }

    #[test]
    fn off_and_unwritable_do_nothing() {
        Cache::Off.put("k", b"x");
        assert_eq!(Cache::Off.get("k"), None);
        let dir = tempfile::tempdir().unwrap();
        let occupied = dir.path().join("file");
        fs::write(&occupied, b"").unwrap();
        let cache = Cache::Directory(occupied);
        cache.put("k", b"x");
        assert_eq!(cache.get("k"), None);
    }

    #[test]
    fn keys_depend_on_every_part_and_where_it_ends() {
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_ne!(key(&[b"a"]), key(&[b"a", b""]));
    }
}
