//! What a script cannot see or do.

use std::io::Read;
use std::net::TcpListener;

use oscar_exec::{Ended, ExecError, Kind, Network};

use crate::bench::on_each;

/// A variable that every test of cargo has, and no script should.
const PLANTED: &str = "CARGO_MANIFEST_DIR";

/// Connects from whatever tools are inside, and says something.
fn connect_to(port: u16) -> String {
    format!(
        "if [ -x /bin/busybox ]; then echo hello | busybox nc 127.0.0.1 {port}; else exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo hello >&3'; fi"
    )
}

on_each! {
    async fn the_environment_is_what_was_given_and_nothing_else(bench) {
        let mut bench = bench;
        let value = "a 'b' \"c\" $d `e` \\f\n=g\n";
        bench.run.env.insert("GIVEN".to_owned(), value.to_owned());
        let result = bench.script("env | sed 's/=.*//' | sort | tr '\\n' ' '; echo; echo; printf %s \"$GIVEN\"").go().await;
        let (names, given) = result.said.split_once("\n\n").expect("two parts");
        assert_eq!(given, value);
        // The last four are made by shells, the ones before by engines; two are lines of the value.
        let known = ["GIVEN", "PATH", "HOME", "LANG", "OSCAR_RUN_MARK", "HOSTNAME", "TERM", "container", "PWD", "OLDPWD", "SHLVL", "_", ""];
        for name in names.split(' ') {
            assert!(known.contains(&name), "{name:?} in {names:?}");
        }
    }

    async fn the_environment_of_whoever_started_it_is_out_of_sight(bench) {
        let mut bench = bench;
        assert!(std::env::var_os(PLANTED).is_some());
        // Without namespaces and without another user there is nothing that could hide it.
        if bench.is_plain && !rustix::process::geteuid().is_root() {
            return;
        }
        let result = bench.script("cat /proc/*/environ /proc/[0-9]*/task/*/environ 2>/dev/null; env; set; true").go().await;
        assert_eq!(result.ended(), Ended::Code(0));
        assert!(!result.said.contains(PLANTED), "{}", result.said);
    }

    async fn files_of_the_machine_and_of_the_manager_cannot_be_read(bench) {
        let mut bench = bench;
        if bench.is_plain && !rustix::process::geteuid().is_root() {
            return;
        }
        let manager = bench.folder.path().join("manager");
        bench.run.env.insert("MANAGER".to_owned(), manager.display().to_string());
        let script = "cat /etc/shadow /etc/gshadow /proc/1/root/etc/shadow \"$MANAGER/secret.key\" \"/proc/1/root$MANAGER/secret.key\"
            ls \"$MANAGER\"; echo x > \"$MANAGER/new\"; true";
        let result = bench.script(script).go().await;
        assert_eq!(result.ended(), Ended::Code(0));
        assert!(!result.said.contains("root:") && !result.said.contains("planted-in-a-file"), "{}", result.said);
        assert!(!result.said.contains("\nsecret.key"), "{}", result.said);
        assert!(!manager.join("new").exists());
    }

    async fn a_script_is_no_root_and_cannot_become_it(bench) {
        let mut bench = bench;
        let result = bench.script("grep -E '^(CapEff|CapBnd|NoNewPrivs|Uid)' /proc/self/status").go().await;
        let said = result.said.replace('\t', " ");
        for line in ["CapEff: 0000000000000000", "NoNewPrivs: 1"] {
            assert!(said.contains(line), "{line}: {said}");
        }
        if rustix::process::geteuid().is_root() {
            assert!(said.contains("Uid: 65534 65534 65534 65534"), "{said}");
            assert!(said.contains("CapBnd: 0000000000000000"), "{said}");
        }
    }

    async fn files_that_a_script_writes_do_not_belong_to_root(bench) {
        use std::os::unix::fs::MetadataExt;
        let mut bench = bench;
        let output = bench.output_inside();
        assert_eq!(bench.script(&format!(": > {output}/file")).go().await.ended(), Ended::Code(0));
        let owner = std::fs::metadata(bench.output("file")).expect("the file").uid();
        let expected = if rustix::process::geteuid().is_root() { 65534 } else { rustix::process::geteuid().as_raw() };
        assert_eq!(owner, expected);
    }

    async fn no_descriptor_but_the_three_is_open(bench) {
        let mut bench = bench;
        // The list itself is open while it is made; what was inherited points to nothing.
        let result = bench.script("for d in /proc/self/fd/*; do echo \"${d##*/} $(readlink \"$d\")\"; done").go().await;
        for line in result.said.lines() {
            let (number, target) = line.split_once(' ').expect("a number and a target");
            let harmless = number.parse::<u32>().is_ok_and(|number| number <= 2)
                || ["/dev/null", ""].contains(&target)
                || target.ends_with("script.sh")
                || target.starts_with("/proc/");
            assert!(harmless, "{}", result.said);
        }
    }

    async fn what_is_given_to_read_cannot_be_changed(bench) {
        let mut bench = bench;
        if bench.is_plain {
            return;
        }
        std::fs::write(bench.run.input_dir.join("file"), "as it was").expect("a file");
        let input = bench.executor.paths(&bench.run).input.display().to_string();
        let result = bench.script(&format!("echo changed > {input}/file; echo new > {input}/new; rm -f {input}/file; true")).go().await;
        assert_eq!(result.ended(), Ended::Code(0));
        assert_eq!(std::fs::read_to_string(bench.run.input_dir.join("file")).expect("it is there"), "as it was");
        assert!(!bench.run.input_dir.join("new").exists());
    }

    async fn the_system_cannot_be_changed_and_the_own_folder_for_temporary_files_can(bench) {
        let mut bench = bench;
        let temporary = bench.executor.paths(&bench.run).temporary.display().to_string();
        let name = bench.folder.path().file_name().expect("a name").to_string_lossy().into_owned();
        let script = format!(
            "for folder in / /usr /usr/bin /etc /bin /oscar; do echo x 2>/dev/null > $folder/{name} && echo wrote to $folder; done; echo x > {temporary}/{name} && echo kept"
        );
        let result = bench.script(&script).go().await;
        let said: Vec<&str> = result.said.lines().filter(|line| line.starts_with("wrote") || *line == "kept").collect();
        assert_eq!(said, ["kept"], "{}", result.said);
        assert!(!std::path::Path::new("/tmp").join(&name).join(&name).exists());
    }

    async fn without_network_nothing_is_reached_and_with_it_loopback_is(bench) {
        let mut bench = bench;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let heard = std::thread::spawn(move || {
            let mut said = [0; 5];
            listener.accept().expect("it connected").0.read_exact(&mut said).expect("it spoke");
            (said, listener)
        });
        let result = bench.script(&connect_to(port)).go().await;
        assert_eq!(result.ended(), Ended::Code(0), "{}", result.said);
        let (said, listener) = heard.join().expect("it was heard");
        assert_eq!(&said, b"hello");

        bench.run.network = Network::None;
        let result = bench.go().await;
        if bench.is_plain {
            let error = result.ended.expect_err("this cannot be promised");
            assert!(matches!(error, ExecError::Unfit(_)) && error.to_string().contains("no network"), "{error}");
            return;
        }
        assert_ne!(result.ended(), Ended::Code(0), "{}", result.said);
        listener.set_nonblocking(true).expect("not to wait");
        assert!(listener.accept().is_err());
    }

    async fn other_processes_are_out_of_sight(bench) {
        let mut bench = bench;
        if bench.is_plain {
            return;
        }
        let result = bench.script("echo /proc/[0-9]*").go().await;
        assert!(result.said.split_whitespace().count() < 12, "{}", result.said);
    }

    async fn dangerous_calls_are_refused(bench) {
        let mut bench = bench;
        if bench.kind == Kind::Process {
            return;
        }
        let script = "grep Seccomp: /proc/self/status | tr '\\t' ' '
            unshare -U true && echo made a user namespace; unshare -m true && echo made a mount namespace
            mount -t tmpfs x /tmp && echo mounted; chroot / true && echo changed root; dmesg >/dev/null && echo read the log
            echo x > /proc/sys/kernel/core_pattern && echo changed the kernel; true";
        let result = bench.script(script).go().await;
        assert!(result.said.contains("Seccomp: 2"), "{}", result.said);
        // Engines have filters of their own, and leave user namespaces to the kernel.
        let user_namespace = if bench.kind == Kind::Bubblewrap { "made a user" } else { "made a mount" };
        for done in [user_namespace, "made a mount", "mounted\n", "changed", "read the log"] {
            assert!(!result.said.contains(done), "{done}: {}", result.said);
        }
    }
}
