use http_body_util::BodyExt;
use rookery_needs::FakeBucket;

use super::*;

const TOKEN: &str = "aB3-_aB3-_aB3-_aB3-_";
const PATH: &str = "/bucket/some/aB/aB3-_aB3-_aB3-_aB3-_";

fn settings(bucket: &FakeBucket, access_key: &str) -> BucketSettings {
    let key = BucketKey { region: "us-east-1".into(), access_key: access_key.into(), secret_key: "a secret".into() };
    BucketSettings { url: format!("{}/some/", bucket.url()), key, trusted: None, redirects: false }
}

fn with<T>(test: impl AsyncFnOnce(UploadBucket, &FakeBucket) -> T) -> T {
    let fake = FakeBucket::start();
    let bucket = UploadBucket::new(settings(&fake, FakeBucket::ACCESS_KEY)).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test(bucket, &fake))
}

async fn put(bucket: &UploadBucket, size: u64, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = bucket.begin(TOKEN, size).await?;
    for part in parts {
        file.append(part.to_vec()).await?;
    }
    file.end().await
}

async fn get(bucket: &UploadBucket, start: u64, len: u64) -> Option<Vec<u8>> {
    let body = bucket.read(TOKEN, start, len).await.unwrap()?;
    Some(body.collect().await.unwrap().to_bytes().to_vec())
}

#[test]
fn a_bucket_keeps_what_was_ended_until_it_is_removed() {
    with(async |bucket, fake| {
        assert_eq!(get(&bucket, 0, 1).await, None);
        put(&bucket, 9, &[b"begin", b"", b"ning"]).await.unwrap();
        assert_eq!(fake.files().get(PATH).map(Vec::as_slice), Some(b"beginning".as_slice()));
        assert_eq!(get(&bucket, 0, 9).await.unwrap(), b"beginning");
        assert_eq!(get(&bucket, 5, 4).await.unwrap(), b"ning");
        bucket.remove(TOKEN).await.unwrap();
        bucket.remove(TOKEN).await.expect("removing what isn't there succeeds");
        assert!(fake.files().is_empty());
        assert_eq!(bucket.failures().0, 0);
    });
}

#[test]
fn a_file_that_is_not_whole_is_not_there() {
    with(async |bucket, fake| {
        let mut file = bucket.begin(TOKEN, 9).await.unwrap();
        file.append(b"begin".to_vec()).await.unwrap();
        drop(file);
        assert!(put(&bucket, 9, &[b"begin"]).await.is_err(), "less than was said");
        assert!(put(&bucket, 3, &[b"begin"]).await.is_err(), "more than was said");
        assert!(fake.files().is_empty());
    });
}

#[test]
fn a_refusal_says_why_and_counts() {
    with(async |bucket, fake| {
        fake.refuse(true);
        let error = put(&bucket, 5, &[b"begin"]).await.unwrap_err().to_string();
        assert!(error.contains("507 StorageFull"), "{error}");
        assert_eq!(bucket.failures().0, 1);
        let stranger = UploadBucket::new(settings(fake, "OTHER")).unwrap();
        let error = stranger.remove(TOKEN).await.unwrap_err().to_string();
        assert!(error.contains("403 InvalidAccessKeyId: correct `access_key`"), "{error}");
    });
}

#[test]
fn a_check_leaves_nothing() {
    let fake = FakeBucket::start();
    UploadBucket::new(settings(&fake, FakeBucket::ACCESS_KEY)).unwrap().probe().unwrap();
    assert!(fake.files().is_empty());
    assert!(UploadBucket::new(settings(&fake, "OTHER")).unwrap().probe().unwrap_err().contains("access_key"));
    let settings = settings(&fake, FakeBucket::ACCESS_KEY);
    drop(fake);
    // The port is closed when the last connection has ended.
    let nowhere = BucketSettings { url: "http://127.0.0.1:1/bucket".into(), ..settings };
    assert!(UploadBucket::new(nowhere).unwrap().probe().unwrap_err().contains("can't be reached"));
}

#[test]
fn clients_are_sent_on_where_the_operator_wants_it() {
    with(async |bucket, fake| {
        let shown = ShownFile {
            content_type: "image/png",
            disposition: "inline; filename*=UTF-8''a.png",
            cache_control: "private",
        };
        assert_eq!(bucket.address(TOKEN, shown), None);
        let sends = BucketSettings { redirects: true, ..settings(fake, FakeBucket::ACCESS_KEY) };
        let address = UploadBucket::new(sends).unwrap().address(TOKEN, shown).unwrap();
        assert!(address.starts_with(&format!("{}/some/aB/{TOKEN}?X-Amz-Algorithm=", fake.url())), "{address}");
        assert!(
            address.contains("response-content-disposition=inline%3B%20filename%2A%3DUTF-8%27%27a.png"),
            "{address}"
        );
    });
}

#[test]
fn addresses_of_buckets_are_plain() {
    for (text, is_one) in [
        ("https://s3.eu.example.org/files", true),
        ("https://files.s3.eu.example.org", true),
        ("http://[::1]:9000/files/some", true),
        ("https://key:secret@s3.example.org/files", false),
        ("https://s3.example.org/my files", false),
        ("https://s3.example.org/files?x=1", false),
        ("s3://files", false),
        ("https:///files", false),
        ("", false),
    ] {
        assert_eq!(is_address(text), is_one, "{text}");
    }
}
