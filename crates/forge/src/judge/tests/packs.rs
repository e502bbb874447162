//! The commits of a pack, and the answer to a refused push.

use super::*;

/// Builds a pack of objects, each with its type and its content.
fn packed(objects: &[(u8, &[u8])]) -> Vec<u8> {
    let mut pack =
        [b"PACK".as_slice(), &2_u32.to_be_bytes(), &u32::try_from(objects.len()).unwrap().to_be_bytes()]
            .concat();
    for (kind, content) in objects {
        let mut size = content.len();
        let mut byte = kind << 4 | u8::try_from(size & 15).unwrap();
        size >>= 4;
        while size > 0 {
            pack.push(byte | 0x80);
            byte = u8::try_from(size & 0x7f).unwrap();
            size >>= 7;
        }
        pack.push(byte);
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        pack.extend(encoder.finish().unwrap());
    }
    pack.extend([0; 20]);
    pack
}

#[test]
fn commits_are_counted_and_a_continuation_is_told_from_a_replacement() {
    // `git hash-object -t commit --stdin --literally` of this text.
    let commit = format!("tree {OLD}\nparent {OLD}\n\nmessage\n");
    let id = "4e4089b3ae0480bacc52561e8aa033836db31b35";
    let pack = packed(&[(1, commit.as_bytes()), (2, b"a tree"), (3, &[b'x'; 5000])]);
    let push = |old: &str, new: &str, pack: &[u8]| {
        pushes(&[lines(&[&format!("{old} {new} refs/heads/main")]), pack.to_vec()].concat())
    };
    assert_eq!(push(OLD, id, &pack), "push 1 commit to `main` of me/site");
    let replaced = "push 1 commit to `main` (may drop commits that are there) of me/site";
    assert_eq!(push(NEW, id, &pack), replaced);
    assert_eq!(push(OLD, NEW, &pack), replaced);
    assert_eq!(push(NONE, id, &pack), "push 1 commit to `main` (new) of me/site");
    // The server refuses an invalid pack; here the number of commits is unknown.
    let unknown = "push to `main` (new) of me/site";
    for pack in [&pack[..pack.len() - 1], &pack[..40], b"PACK", &packed(&[(5, b"x")]), &packed(&[(6, b"x")])]
    {
        assert_eq!(push(NONE, id, pack), unknown);
    }
    let by_id = |base: &str| {
        let (from, to) = (b"a base that is here".as_slice(), b"a delta".as_slice());
        let ids: Vec<u8> =
            (0..20).map(|at| u8::from_str_radix(&base[2 * at..2 * at + 2], 16).unwrap()).collect();
        let mut pack = packed(&[(1, commit.as_bytes()), (3, from), (7, to)]);
        let at = pack.iter().rposition(|byte| *byte == 7 << 4 | 7).unwrap();
        let after = at + 1;
        pack.splice(after..after, ids);
        pack
    };
    assert_eq!(push(OLD, id, &by_id(NEW)), "push 1 commit to `main` of me/site");
    assert_eq!(push(OLD, id, &by_id(id)), "push 2 commits to `main` of me/site");
    let mut lie = pack.clone();
    lie[12] = 0x9f;
    assert_eq!(push(NONE, id, &lie), unknown);
    let mut huge = packed(&[]);
    huge[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(push(NONE, id, &huge), unknown);
    let bomb = packed(&[(3, &vec![0; 40 * 1024 * 1024])]);
    assert_eq!(push(NONE, id, &bomb), unknown);
}

#[test]
fn a_refusal_is_an_answer_of_git_for_every_ref() {
    let body = lines(&[
        &format!("{NONE} {NEW} refs/heads/x\0report-status side-band-64k"),
        &format!("{OLD} {NONE} refs/heads/y"),
    ]);
    let Meaning::Writing(action) = judge(&whole("POST", "/me/site/git-receive-pack", PUSHES, &body)) else {
        panic!()
    };
    let Action::Push(push) = *action else { panic!() };
    assert_eq!(
        push.commands.iter().map(|command| command.change).collect::<Vec<_>>(),
        [RefChange::Create, RefChange::Delete]
    );
    let (kind, answer) = push.refusal("ask\nfirst").unwrap();
    assert_eq!(kind, "application/x-git-receive-pack-result");
    assert_eq!(
        String::from_utf8(answer).unwrap(),
        "0019\u{2}handfast: ask first\n0067\u{1}000eunpack ok\n0028ng refs/heads/x refused by handfast\n\
         0028ng refs/heads/y refused by handfast\n00000000"
    );
    let silent = lines(&[&format!("{NONE} {NEW} refs/heads/x\0quiet")]);
    let Meaning::Writing(action) = judge(&whole("POST", "/me/site/git-receive-pack", PUSHES, &silent)) else {
        panic!()
    };
    assert!(matches!(*action, Action::Push(push) if push.refusal("x").is_none()));
}
