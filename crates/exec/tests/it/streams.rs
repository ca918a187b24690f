//! What goes in and what comes out.

use oscar_exec::Ended;
use tokio::sync::mpsc;

use crate::bench::on_each;

on_each! {
    async fn both_streams_come_out_in_their_order(bench) {
        let mut bench = bench;
        let result = bench.script("echo 1; echo 2 >&2; echo 3; echo 4 >&2").go().await;
        assert_eq!(result.said, "1\n2\n3\n4\n");
    }

    async fn a_hundred_megabytes_of_output_arrive_in_small_pieces(bench) {
        let mut bench = bench;
        bench.script("head -c 104857600 /dev/zero");
        let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(4);
        let counting = tokio::spawn(async move {
            let (mut sum, mut largest) = (0, 0);
            while let Some(piece) = receiver.recv().await {
                sum += piece.len();
                largest = largest.max(piece.len());
            }
            (sum, largest)
        });
        let ended = bench.executor.run(&bench.run, None, sender, std::future::pending()).await.expect("it runs");
        let (sum, largest) = counting.await.expect("it was counted");
        assert_eq!((ended, sum), (Ended::Code(0), 104_857_600));
        // At most four wait in the channel and one on each side of it.
        assert!(largest <= 65536, "a piece of {largest} bytes");
    }

    async fn nobody_listening_does_not_stop_a_script(bench) {
        let mut bench = bench;
        bench.script("head -c 1000000 /dev/zero; exit 4");
        let (sender, receiver) = mpsc::channel(1);
        drop(receiver);
        let ended = bench.executor.run(&bench.run, None, sender, std::future::pending()).await.expect("it runs");
        assert_eq!(ended, Ended::Code(4));
    }

    async fn ten_megabytes_of_input_are_read(bench) {
        let mut bench = bench;
        bench.script("wc -c");
        let stdin = Box::new(std::io::Cursor::new(vec![b'x'; 10 * 1024 * 1024]));
        let result = bench.go_with(Some(stdin), std::future::pending()).await;
        assert_eq!((result.ended(), result.said.trim()), (Ended::Code(0), "10485760"));
    }

    async fn input_that_is_not_read_is_no_failure(bench) {
        let mut bench = bench;
        bench.script("exit 0");
        let stdin = Box::new(std::io::Cursor::new(vec![b'x'; 10 * 1024 * 1024]));
        assert_eq!(bench.go_with(Some(stdin), std::future::pending()).await.ended(), Ended::Code(0));
        assert_eq!(bench.script("cat; echo end").go().await.said, "end\n");
    }

    async fn files_with_odd_names_are_read_and_written(bench) {
        let mut bench = bench;
        let odd = "a b'c\"d\\e$f`g;h*ü\n-i";
        std::fs::write(bench.run.input_dir.join(odd), "content").expect("a file");
        bench.run.env.insert("NAME".to_owned(), odd.to_owned());
        let paths = bench.executor.paths(&bench.run);
        bench.script(&format!("cat '{}'/\"$NAME\" > '{}'/\"$NAME\"", paths.input.display(), paths.output.display()));
        let result = bench.go().await;
        assert_eq!(result.ended(), Ended::Code(0), "{}", result.said);
        assert_eq!(std::fs::read_to_string(bench.output(odd)).expect("it was written"), "content");
    }

    async fn folders_with_odd_names_are_shown(bench) {
        let mut bench = bench;
        for (name, folder) in [("in put: $(x)", &mut bench.run.input_dir), ("out'put, \"y\"", &mut bench.run.output_dir)] {
            *folder = bench.folder.path().join(name);
            std::fs::create_dir(&*folder).expect("a folder");
        }
        std::fs::write(bench.run.input_dir.join("file"), "content").expect("a file");
        let paths = bench.executor.paths(&bench.run);
        bench.run.env.insert("IN".to_owned(), paths.input.display().to_string());
        bench.run.env.insert("OUT".to_owned(), paths.output.display().to_string());
        let result = bench.script("cp \"$IN/file\" \"$OUT/copy\"").go().await;
        assert_eq!(result.ended(), Ended::Code(0), "{}", result.said);
        assert_eq!(std::fs::read_to_string(bench.output("copy")).expect("it was written"), "content");
    }
}
