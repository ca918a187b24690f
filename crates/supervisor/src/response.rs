//! The answer of a synchronous call: the one output file, all of them, or what was printed.

use std::fs::File;
use std::io::{BufWriter, Read, Seek as _, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use tokio::io::AsyncWriteExt as _;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::journal::OutputSink;
use crate::output::{self, Produced};
use crate::report::{Complaint, Response, ResponseKind};

/// Passes on what a script prints, and keeps the beginning of it in a file.
pub(crate) struct Capture<'a> {
    sink: &'a mut dyn OutputSink,
    file: Option<tokio::fs::File>,
    room: u64,
    pub(crate) cut: bool,
}

impl<'a> Capture<'a> {
    pub(crate) fn new(sink: &'a mut dyn OutputSink, file: Option<tokio::fs::File>, room: u64) -> Self {
        Self { sink, file, room, cut: false }
    }

    pub(crate) async fn finish(mut self) -> bool {
        if let Some(file) = &mut self.file
            && file.flush().await.is_err()
        {
            self.cut = true;
        }
        self.cut
    }
}

#[async_trait]
impl OutputSink for Capture<'_> {
    async fn write(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file {
            let count = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
            self.room -= count as u64;
            let kept = file.write_all(&bytes[..count]).await.is_ok();
            if !kept || count < bytes.len() {
                self.cut = true;
                self.file = None;
            }
        }
        self.sink.write(bytes).await;
    }
}

/// Base64 of the output files: of the file itself when it is one, of an archive otherwise.
pub(crate) fn of_files(folder: &Path, files: &[Produced], target: PathBuf, most: u64) -> Result<Response, Complaint> {
    let kind = if files.len() == 1 { ResponseKind::File } else { ResponseKind::Archive };
    let mut source = match files {
        [file] => output::open(folder, file)?.0,
        files => archive(folder, files, &target.with_extension("zip"))?,
    };
    let length = source.metadata().map_err(unwritable)?.len();
    let bytes = length.div_ceil(3).saturating_mul(4);
    if bytes > most {
        let sentence =
            format!("The output files are too large for an answer: {bytes} bytes, where {most} are allowed.");
        return Err(sentence.into());
    }
    let encoded = (|| {
        let mut encoder = EncoderWriter::new(BufWriter::new(File::create(&target)?), &STANDARD);
        std::io::copy(&mut Read::by_ref(&mut source).take(length), &mut encoder)?;
        encoder.finish()?.flush()
    })();
    encoded.map_err(unwritable)?;
    let bytes = std::fs::metadata(&target).map_err(unwritable)?.len();
    Ok(Response { kind, file: target, bytes })
}

/// Files are put in as they are: most outputs are compressed formats already.
fn archive(folder: &Path, files: &[Produced], target: &Path) -> Result<File, Complaint> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(target);
    let mut archive = ZipWriter::new(file.map_err(unwritable)?);
    for produced in files {
        let (mut opened, length) = output::open(folder, produced)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(length >= u64::from(u32::MAX));
        archive.start_file(produced.name.as_str(), options).map_err(|error| unwritable(error.into()))?;
        std::io::copy(&mut opened, &mut archive).map_err(unwritable)?;
    }
    let mut file = archive.finish().map_err(|error| unwritable(error.into()))?;
    file.rewind().map_err(unwritable)?;
    Ok(file)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unwritable(error: std::io::Error) -> Complaint {
    Complaint::of_io(&error, |cause| format!("The answer cannot be put together: {cause}."))
}
