//! Masks for pictures.

use crate::harness::run;
use crate::page::open;

#[test]
fn secret_fields_and_held_values_have_boxes() {
    run(async |ground| {
        let inner = ground.server.page("<!doctype html><body style='margin:0'><input type=password style='position:absolute;left:10px;top:10px'>");
        let page = open(
            &ground,
            &format!("<body style='margin:0'><input type=password style='position:absolute;left:10px;top:20px;width:100px;height:30px;box-sizing:border-box'><input value='key-s3cret-1'><input value=plain><p>Your key: s3cret</p><iframe src='{inner}' style='position:absolute;left:300px;top:300px;border:0'></iframe>"),
        )
        .await;
        let masks = page.masks(&["s3cret", ""]).await.unwrap();
        assert!(masks.is_complete);
        assert_eq!(masks.areas.len(), 4, "{masks:?}");
        let first = masks.areas[0];
        assert_eq!((first.x, first.y, first.width, first.height), (10.0, 20.0, 100.0, 30.0));
        let inner = masks.areas[3];
        assert_eq!((inner.x, inner.y), (310.0, 310.0));
        assert_eq!(page.masks(&[]).await.unwrap().areas.len(), 2);
    });
}
