//! Tests of the encoding and decoding of requests.

use super::*;

fn encoded(standard: Standard) -> Vec<u8> {
    let at = || Place::new(Path::new("/a/b")).unwrap();
    let mount = |source| {
        let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
        let (required, make_point) = (true, false);
        Step::Mount(Mount {
            source,
            at: at(),
            kind: Kind::Folder,
            attributes,
            required,
            make_point,
            tree: -1,
        })
    };
    let steps = [
        mount(Source::Host(c"/h".to_owned())),
        mount(Source::Handed(71)),
        mount(Source::Inside(c"/i".to_owned())),
        mount(Source::Memory { size: c"1m".to_owned(), mode: c"0755".to_owned() }),
        mount(Source::Processes),
        mount(Source::Terminals),
        mount(Source::Overlay { upper: c"/u".to_owned(), work: c"/w".to_owned() }),
        Step::Link { at: at(), text: c"t".to_owned() },
        Step::File { at: at(), content: b"x\0y".to_vec(), mode: 0o600 },
        Step::Folder { at: at(), mode: 0o755 },
        Step::Folders { at: at(), names: vec![c"n".to_owned(), c"m".to_owned()] },
        Step::Placeholder {
            at: at(),
            placeholder: Placeholder {
                folder: c"/a".to_owned(),
                made_as: c".b".to_owned(),
                upper: c"/u/.b".to_owned(),
                mark: c"user.m".to_owned(),
                content: b"c\0d".to_vec(),
                mode: 0o444,
            },
        },
        Step::Seal { at: at() },
        Step::Setting { at: at(), value: c"0".to_owned() },
        Step::Check { at: at(), is: ExpectedEntry::Hidden },
        Step::Check { at: at(), is: ExpectedEntry::Same { device: 1, inode: 2, read_only: true } },
    ];
    let strings = || StringArray::new(vec![c"one".to_owned(), c"".to_owned()]);
    let start = Start {
        working_directory: c"/w".to_owned(),
        candidates: vec![c"/bin/x".to_owned()],
        arguments: strings(),
        environment: strings(),
        bounds: Resource::ALL.map(|resource| Bound { resource, soft: 1, hard: 2 }).into(),
        processors: vec![3, 4],
        announced: true,
        hands_over: true,
    };
    encode(&steps, &[(c"/r".to_owned(), 7)], &RequestPart::Call { start: &start, standard }, &[70, 71])
}

const OUTPUTS: Standard = Standard::Outputs { stdout: 5, stderr: 6 };

#[test]
fn a_request_that_was_decoded_says_what_was_encoded() {
    let request = Request::decode(&encoded(OUTPUTS), &[5, 6, 7, 8]).unwrap();
    let Request { steps, rules, part: RequestPart::Call { start, standard } } = request else { panic!() };
    assert!(standard == OUTPUTS && start.announced);
    let handed = |step: &Step| match step {
        Step::Mount(Mount { source: Source::Handed(tree), .. }) => Some(*tree),
        _ => None,
    };
    assert_eq!(steps.iter().find_map(handed), Some(8), "the second tree is the fourth descriptor");
    // Encoding again with the tree under its old number must return equal bytes.
    let part = RequestPart::Call { start: &start, standard };
    assert_eq!(encode(&steps, &rules, &part, &[7, 8]), encoded(OUTPUTS));
    for (standard, descriptors) in [
        (Standard::Pipes { input: 5, output: 6 }, &[5, 6, 7, 8][..]),
        (Standard::Terminal(TerminalSize { columns: 132, rows: 43 }), &[7, 8]),
        (Standard::GivenTerminal(5), &[5, 7, 8]),
    ] {
        let request = Request::decode(&encoded(standard), descriptors).unwrap();
        assert!(matches!(request.part, RequestPart::Call { standard: decoded, .. } if decoded == standard));
        assert_eq!(request.steps.iter().find_map(handed), Some(8));
    }
    for ahead in [true, false] {
        let bytes = encode(&steps, &rules, &RequestPart::Ahead { finish: ahead }, &[7, 8]);
        let request = Request::decode(&bytes, &[5, 6]).unwrap();
        assert!(matches!(request.part, RequestPart::Ahead { finish } if finish == ahead));
        assert_eq!(request.steps.iter().find_map(handed), Some(6), "all descriptors are trees");
    }
}

#[test]
fn a_request_that_is_cut_short_or_goes_on_is_refused() {
    let whole = encoded(OUTPUTS);
    let decode = |bytes: &[u8]| Request::decode(bytes, &[5, 6, 7, 8]);
    assert!(decode(&whole).is_some());
    assert!((0..whole.len()).all(|length| decode(&whole[..length]).is_none()));
    assert!(decode(&[&whole[..], b"x"].concat()).is_none());
    assert!(Request::decode(&whole, &[5, 6, 7]).is_none(), "a tree is missing");
}
