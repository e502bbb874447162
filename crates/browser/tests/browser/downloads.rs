//! Downloads: those that are asked for, and those that pages begin.

use std::time::Duration;

use browser::{BrowserError, DownloadEnd};

use crate::harness::{LIMIT, button, click, run};
use crate::server::Answer;

fn file(body: &[u8]) -> Answer {
    let headers = vec![("Content-Type", "text/plain; charset=utf-8".to_owned())];
    Answer { body: body.to_vec(), headers, ..Answer::default() }
}

#[test]
fn a_document_is_downloaded_with_the_cookies_of_the_session() {
    run(async |ground| {
        let folder = tempfile::tempdir().unwrap();
        ground.open("<script>document.cookie = 'key=value; path=/'</script>").await;
        let mut answer = file(b"content");
        answer.headers.push(("Content-Disposition", "inline; filename=\"report.txt\"".to_owned()));
        let url = ground.server.answer(answer);
        let from = ground.server.redirect(&url);
        let download = ground.session.download(&from, folder.path(), 100, LIMIT).await.unwrap();
        assert_eq!(std::fs::read(&download.path).unwrap(), b"content");
        assert_eq!(download.path.parent().unwrap(), folder.path());
        assert_eq!((download.suggested_name.as_str(), download.bytes), ("report.txt", 7));
        assert_eq!(download.mime, "text/plain");
        assert!(ground.server.asked(&url).await.contains("key=value"));
        // The page of the download is no tab.
        assert_eq!(ground.session.tabs().await.len(), 1);
    });
}

#[test]
fn a_download_fails_with_its_reason_and_leaves_no_file() {
    run(async |ground| {
        let folder = tempfile::tempdir().unwrap();
        let get = async |url: &str, most: u64, limit: Duration| {
            ground.session.download(url, folder.path(), most, limit).await.unwrap_err()
        };
        let missing = get(&ground.server.url("/missing"), 100, LIMIT).await;
        assert!(matches!(missing, BrowserError::DownloadStatus { status: 404, .. }), "{missing}");
        let large = ground.server.answer(file(&[0; 5000]));
        let large = get(&large, 4999, LIMIT).await;
        assert!(matches!(large, BrowserError::DownloadTooLarge { limit: 4999, .. }), "{large}");
        let refused = get("file:///etc/passwd", 100, LIMIT).await;
        assert!(matches!(refused, BrowserError::Address { .. }), "{refused}");
        let to_file = get(&ground.server.redirect("file:///etc/passwd"), 100, LIMIT).await;
        assert!(matches!(to_file, BrowserError::DownloadFailed { .. }), "{to_file}");
        let (never, _gate) = ground.server.gated("");
        let never = get(&never, 100, Duration::from_millis(800)).await;
        assert!(matches!(never, BrowserError::DownloadFailed { .. }), "{never}");
        let endless = ground.server.answer(Answer { stated_length: Some(100), ..file(b"part") });
        let endless = get(&endless, 100, Duration::from_millis(1500)).await;
        assert!(matches!(endless, BrowserError::DownloadFailed { .. }), "{endless}");
        // The last download shows that the browser has gone on.
        let good = ground.server.answer(file(b"good"));
        let good = ground.session.download(&good, folder.path(), 100, LIMIT).await.unwrap();
        let complete: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(complete.contains(&good.path));
        assert!(complete.iter().all(|path| *path == good.path || path.extension().is_some()), "{complete:?}");
    });
}

#[test]
fn a_download_by_a_page_goes_to_the_folder_and_into_the_report() {
    run(async |ground| {
        let folder = tempfile::tempdir().unwrap();
        let mut answer = file(b"from the page");
        answer.headers.push(("Content-Disposition", "attachment; filename=page.txt".to_owned()));
        let url = ground.server.answer(answer);
        let tab = ground.open(&button(&format!("location = '{url}'"))).await;
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        tab.settle(&action, LIMIT).await;
        // Without a folder nothing is kept.
        let report = tab.report(&action);
        assert_eq!(report.downloads.len(), 1, "{report:?}");
        assert!(report.downloads[0].path.is_none());
        ground.session.set_download_folder(folder.path(), 1000).await.unwrap();
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        loop {
            tab.settle(&action, LIMIT).await;
            let report = tab.report(&action);
            let Some(download) = report.downloads.first() else { continue };
            if download.state == DownloadEnd::InProgress {
                continue;
            }
            assert_eq!(
                (download.state, download.suggested_name.as_str()),
                (DownloadEnd::Completed, "page.txt")
            );
            assert_eq!(std::fs::read(download.path.as_ref().unwrap()).unwrap(), b"from the page");
            assert!(report.navigation.is_none(), "{report:?}");
            break;
        }
    });
}

#[test]
fn a_download_by_a_page_above_the_limit_is_cancelled() {
    run(async |ground| {
        let folder = tempfile::tempdir().unwrap();
        ground.session.set_download_folder(folder.path(), 100).await.unwrap();
        let mut answer = file(&[b'x'; 1000]);
        answer.headers.push(("Content-Disposition", "attachment".to_owned()));
        let url = ground.server.answer(answer);
        let tab = ground.open(&button(&format!("location = '{url}'"))).await;
        let action = tab.begin_action().await.unwrap();
        click(&tab).await;
        loop {
            tab.settle(&action, LIMIT).await;
            match tab.report(&action).downloads.first().map(|download| download.state) {
                None | Some(DownloadEnd::InProgress) => {}
                state => break assert_eq!(state, Some(DownloadEnd::TooLarge)),
            }
        }
    });
}
