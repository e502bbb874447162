//! A command that passes because it only reads, on a host that refuses namespaces.

use super::Refusing;
use crate::harness::unread;
use crate::security::reading;

#[test]
fn what_a_reading_command_runs_changes_nothing() {
    let own = Refusing::new(&reading::files());
    reading::make_repository(&own.fixture);
    own.give();
    let result = own.call(reading::LINE);
    assert_eq!(result["meta"]["sandbox"][0], "degraded:landlock", "{result:#}");
    reading::assert_ran_as_reader(&result);
    assert_eq!(reading::left(&own.fixture), Vec::<&str>::new());
    // Calls on a file that is open for reading, or on its folder, change nothing either.
    let script = "import os, sys\n\
        def attempt(name, act):\n    try:\n        act(); print(name, 'done', file=sys.stderr)\n    except OSError: pass\n\
        own = os.open('../plain', os.O_RDONLY)\n\
        attempt('fchmod', lambda: os.fchmod(own, 0o640))\n\
        attempt('futimens', lambda: os.utime(own, (1, 1)))\n\
        attempt('folder', lambda: os.chmod('..', 0o700))\n\
        import fcntl, struct\n\
        attempt('flags', lambda: fcntl.ioctl(own, 0x40086602, struct.pack('l', 0x80)))\n\
        attempt('link', lambda: os.link('../plain', '../other'))\n\
        attempt('truncate', lambda: os.truncate('../plain', 0))\n\
        print('the monitor ran', file=sys.stderr)\n";
    own.fixture.write("monitor.py", script);
    own.fixture.write("monitor", "python3 ../monitor.py\n");
    own.give();
    let result = own.call(reading::LINE);
    reading::assert_ran_as_reader(&result);
    assert!(!result["data"]["stderr"].as_str().unwrap().contains("done"), "{result:#}");
    assert_eq!(own.fixture.read("plain"), "plain\n");
    // The control: other commands change the workspace.
    let result = own.call(&unread(reading::LINE));
    let told = result["data"]["stderr"].as_str().unwrap();
    for name in ["fchmod", "futimens", "folder", "flags", "link", "truncate"] {
        assert!(told.contains(&format!("{name} done")), "{told}");
    }
    own.fixture.write("monitor", reading::files()[0].1);
    own.give();
    own.call(&unread(reading::LINE));
    assert!(reading::left(&own.fixture).contains(&"a new file"));
}
